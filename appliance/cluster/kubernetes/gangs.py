"""Decides what to do for a gang from the objects that the API server has. Pure.

It is evaluated whenever something has changed, repeatedly, by whichever management leads; so it
looks at the present state and never remembers earlier actions. A gang goes through these states,
which its record stores:

    placing --all pods have a node--> started
    any of these --stop--> stopping --no pod runs any more--> stopped

Before the start a missing pod is created again, so that neither a killed management nor a deleted
pod changes anything. After the start a missing pod counts as ended. Pods that have ended by
themselves stay until their wsjob goes, as do those of a Kubernetes Job, so that `kubectl logs` has
what they printed; those of an earlier launch make room for the next.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from appliance.cluster.kubernetes import pod_words
from appliance.cluster.kubernetes.manifests import GATE, LAUNCH_ANNOTATION
from appliance.cluster.kubernetes.object_kinds import (
    JOB_LABEL,
    MEMBER_LABEL,
    ROLE_LABEL,
    Resource,
    is_being_deleted,
    job_label,
    name_of,
    uid_of,
)
from appliance.cluster.kubernetes.options import KubernetesOptions
from appliance.cluster.launcher import PodExit
from appliance.core.ids import JobId, PodName, Role
from appliance.core.pods.end_cause import EndCause

_UNRECORDED = "the record of its gang was deleted or damaged, and not by the appliance"

_TOO_EARLY = "its container ended before the pods of its job were let start"

_STUCK_SECONDS = 60.0
"""A pod that is still there so long after its grace has lost its node; nobody will end it."""

_REFUSED_SECONDS = 5.0
"""How soon a pod that its node has refused is made again."""


class Progress(StrEnum):
    """How far a gang is."""

    PLACING = "placing"
    STARTED = "started"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """A gang as its record says.

    Attributes:
        job: Whose pods they are.
        progress: How far it is.
        manifests: The pods, by name, as they are to be created.
        launched_at: When its launch was written down.
        started_at: When its pods were let start; None before.
    """

    job: JobId
    progress: Progress
    manifests: Mapping[str, Resource]
    launched_at: dt.datetime
    started_at: dt.datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to be done.

    Attributes:
        creates: Pods to create.
        deletes: Pods to end: name, uid and whether to give up on its node.
        ungates: Pods that may look for a node now: name, uid and the gates that others have put
            there.
        starts: Whether the pods may start.
        is_stopped: Whether the gang was to stop, and nothing of it runs.
        exits: Pods that have ended or will never run, and how; told once each.
        waits: Why pods do not run yet, if somebody has said so; else empty.
        look_again_seconds: When to look again, even if nothing happens; None for never.
    """

    creates: Sequence[Resource] = ()
    deletes: Sequence[tuple[str, str, bool]] = ()
    ungates: Sequence[tuple[str, str, Sequence[Resource]]] = ()
    starts: bool = False
    is_stopped: bool = False
    exits: Sequence[PodExit] = ()
    waits: str = ""
    look_again_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What there is of a gang's pods.

    Attributes:
        pods: All pods with the job's label, by name.
        now: Wall time here, which may be another one than the API server's.
        rejected: Why the server did not take pods, by name, when they were last to be created.
        ending_seconds: For how long pods have been seen that are being deleted, or that their node
            has refused, by uid.
    """

    pods: Mapping[str, Resource]
    now: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    rejected: Mapping[str, str] = field(default_factory=dict)
    ending_seconds: Mapping[str, float] = field(default_factory=dict)


def decide(gang: Gang, seen: Seen, options: KubernetesOptions) -> Decision:
    """Return what is to be done for a gang now."""
    match gang.progress:
        case Progress.PLACING:
            return _place(gang, seen, options)
        case Progress.STARTED:
            return _follow(gang, seen, options)
        case Progress.STOPPING:
            return _stop(seen)
        case Progress.STOPPED:
            return Decision(is_stopped=True)


def exits_of(gang: Gang, seen: Seen) -> tuple[PodExit, ...]:
    """Return which pods of a started gang have ended, and how."""
    return tuple(
        end for name in gang.manifests if (end := _end_of(gang, name, seen.pods.get(name)))
    )


def unrecorded_pod(pod: Resource) -> PodExit:
    """Return the same of a pod of which nothing else is known."""
    return PodExit(
        job=JobId(job_label(pod)),
        pod=PodName(name_of(pod)),
        role=Role(pod["metadata"]["labels"].get(ROLE_LABEL, Role.COORDINATOR)),
        exit_code=pod_words.LOST_EXIT,
        detail=_UNRECORDED,
        cause=EndCause.UNKNOWN,
    )


def _place(gang: Gang, seen: Seen, options: KubernetesOptions) -> Decision:
    pods = {name: pod for name, pod in seen.pods.items() if _is_of(gang, name, pod)}
    unplaced = [name for name in gang.manifests if not _is_placed(pods.get(name))]
    refused = map(is_refused, pods.values())
    if exits := tuple(
        end
        for name in gang.manifests
        if name in pods
        and not is_being_deleted(pods[name])  # then it is created again
        and not is_refused(pods[name])  # likewise
        and (end := _early_end_of(gang, name, pods[name]))
    ):
        return Decision(exits=exits)
    if not unplaced:
        return Decision(starts=True)
    left = options.placement_seconds - (seen.now - gang.launched_at).total_seconds()
    if left > 0:
        return Decision(
            creates=[each for name, each in gang.manifests.items() if name not in seen.pods],
            deletes=[
                (name, uid_of(pod), False)
                for name, pod in seen.pods.items()
                if not is_being_deleted(pod) and (name not in pods or _may_go(seen, pod))
            ],
            ungates=_ungates(pods, unplaced),
            waits=_waits(gang, seen, unplaced),
            look_again_seconds=min(left, _REFUSED_SECONDS) if any(refused) else left,
        )
    num_placed = len(gang.manifests) - len(unplaced)
    first = next((name for name in unplaced if not _is_gated(pods.get(name))), unplaced[0])
    first = next((name for name in unplaced if name in seen.rejected), first)
    why = _in_brackets(_why_waits(seen, first))
    detail = (
        f"no node has taken it within {options.placement_seconds:g} seconds{why}; "
        f"{num_placed} of the job's {len(gang.manifests)} pods had one, and none was started"
    )
    return Decision(exits=(_exit(gang, first, _lost(EndCause.UNPLACED, detail)),))


def _follow(gang: Gang, seen: Seen, options: KubernetesOptions) -> Decision:
    exits = list(exits_of(gang, seen))
    started_at = gang.started_at or gang.launched_at
    left = options.start_seconds - (seen.now - started_at).total_seconds()
    unstarted = [pod for pod in seen.pods.values() if _is_unstarted(pod)]
    if not unstarted:
        return Decision(exits=exits)
    if left > 0:
        names = [name_of(pod) for pod in unstarted if name_of(pod) in gang.manifests]
        waits = "" if exits else _waits(gang, seen, names)
        return Decision(exits=exits, waits=waits, look_again_seconds=left)
    exits += [
        _exit(gang, name_of(pod), pod_words.unstarted(pod, seconds=options.start_seconds))
        for pod in unstarted
        if name_of(pod) in gang.manifests
    ]
    return Decision(exits=exits)


def _stop(seen: Seen) -> Decision:
    pods = {name: pod for name, pod in seen.pods.items() if not is_ended(pod)}
    if not pods:
        return Decision(is_stopped=True)
    deletes = []
    waits = []
    for name, pod in pods.items():
        if not is_being_deleted(pod):
            deletes.append((name, uid_of(pod), False))
            continue
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        left = grace + _STUCK_SECONDS - seen.ending_seconds.get(uid_of(pod), 0.0)
        if left <= 0:
            deletes.append((name, uid_of(pod), True))
        else:
            waits.append(left)
    return Decision(deletes=deletes, look_again_seconds=min(waits, default=None))


def is_ended(pod: Resource) -> bool:
    """Whether nothing of a pod runs any more, and nobody has asked for its removal."""
    return _status(pod).get("phase") in ("Succeeded", "Failed") and not is_being_deleted(pod)


def is_refused(pod: Resource) -> bool:
    """Whether a node did not take a pod, or gave it up before its container began.

    Two schedulers may have thought of the same room, the node shuts down or its disk is full.
    """
    return _status(pod).get("phase") == "Failed" and not pod_words.has_begun(pod)


def _may_go(seen: Seen, pod: Resource) -> bool:
    """Whether a refused pod may make room for another; at once that would be refused as well."""
    seconds = seen.ending_seconds.get(uid_of(pod), 0.0)
    return is_refused(pod) and seconds >= _REFUSED_SECONDS


def _is_of(gang: Gang, name: str, pod: Resource) -> bool:
    """Whether a pod is of this launch of its gang, and not of an earlier one."""
    return name in gang.manifests and _launch_of(pod) == _launch_of(gang.manifests[name])


def _launch_of(pod: Resource) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(LAUNCH_ANNOTATION, ""))


def _is_placed(pod: Resource | None) -> bool:
    if pod is None or is_being_deleted(pod) or is_refused(pod):
        return False
    return bool(pod["spec"].get("nodeName"))


def _is_gated(pod: Resource | None) -> bool:
    return pod is not None and any(
        gate.get("name") == GATE for gate in pod["spec"].get("schedulingGates") or ()
    )


def is_as_made(pod: Resource, manifest: Resource) -> bool:
    """Whether a pod still says whose it is, whatever else somebody's webhook has changed in it."""
    labels, made = pod["metadata"].get("labels") or {}, manifest["metadata"]["labels"]
    ours = (JOB_LABEL, ROLE_LABEL, MEMBER_LABEL)
    is_same = _launch_of(pod) == _launch_of(manifest)
    return is_same and all(labels.get(each) == made[each] for each in ours)


def _ungates(
    pods: Mapping[str, Resource], unplaced: Sequence[str]
) -> Sequence[tuple[str, str, Sequence[Resource]]]:
    """Return the pods that may look for a node, now that the first of each role have found one."""
    if not all(_is_gated(pods.get(name)) for name in unplaced):
        return ()
    gates = {name: pods[name]["spec"]["schedulingGates"] for name in unplaced}
    others = {name: [each for each in of if each["name"] != GATE] for name, of in gates.items()}
    return [(name, uid_of(pods[name]), others[name]) for name in unplaced]


def _is_unstarted(pod: Resource) -> bool:
    return bool(_status(pod).get("phase", "Pending") == "Pending")


def _end_of(gang: Gang, name: str, pod: Resource | None) -> PodExit | None:
    """Return how a pod has ended, or is being ended by others; None if it goes on."""
    if pod is None:
        return _exit(gang, name, _lost(EndCause.DELETED, pod_words.DELETED))
    end = pod_words.end_of(pod)
    return _exit(gang, name, end) if end else None


def _early_end_of(gang: Gang, name: str, pod: Resource) -> PodExit | None:
    """Return how a pod has ended that was not let start: always a failure."""
    end = _end_of(gang, name, pod)
    if end is None or end.exit_code:
        return end
    return _exit(gang, name, _lost(EndCause.PROCESS, _TOO_EARLY))


def _lost(cause: EndCause, words: str) -> pod_words.End:
    return pod_words.End(exit_code=pod_words.LOST_EXIT, cause=cause, words=words)


def _exit(gang: Gang, name: str, end: pod_words.End) -> PodExit:
    role, code = Role(gang.manifests[name]["metadata"]["labels"][ROLE_LABEL]), end.exit_code
    return PodExit(
        job=gang.job,
        pod=PodName(name),
        role=role,
        exit_code=code,
        signal=code - 128 if code > 128 else None,
        detail=end.words,
        cause=end.cause,
    )


def _waits(gang: Gang, seen: Seen, names: Sequence[str]) -> str:
    """Return why pods of a gang wait; empty while nobody has said it."""
    for name in (*(each for each in names if each in seen.rejected), *names):
        if _is_gated(seen.pods.get(name)):
            continue
        if why := _why_waits(seen, name):
            return f"{len(names)} of {len(gang.manifests)} pods wait; {name}: {why}"
    return ""


def _why_waits(seen: Seen, name: str) -> str:
    """Return what the server, the scheduler or the node says of a pod that does not run."""
    pod = seen.pods.get(name)
    if pod is None:
        return seen.rejected.get(name, "")
    if is_refused(pod) and (end := pod_words.end_of(pod)):
        return f"its node has refused it: {end.words or 'it does not say why'}"
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
    if others := [name for name in gates if name != GATE]:
        return f"it waits for {', '.join(others)} to take its scheduling gate away"
    return pod_words.why_unplaced(pod) or pod_words.why_not_started(pod)


def _in_brackets(words: str) -> str:
    return f" ({words})" if words else ""


# `Any`: part of an object.
def _status(pod: Resource) -> Mapping[str, Any]:
    return pod.get("status") or {}
