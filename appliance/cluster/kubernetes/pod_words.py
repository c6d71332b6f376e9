"""Why a pod of a gang has ended, or does not run, in words for people. Pure.

Several parts of a pod's status may say so; the one closest to the cause comes first: who has taken
the pod away (a drain, a preemption, a node in trouble), then what befell its container, then the
last line that it printed. What a container printed is the user's, and may hold tokens: of it the
last line is taken, without what looks like one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from appliance.cluster.kubernetes.object_kinds import Resource, is_being_deleted
from appliance.core.foreign_json import read_json
from appliance.core.pods.end_cause import EndCause
from appliance.observability.redaction import without_tokens

LOST_EXIT = 137
"""What a process ends with that is killed; for pods of which nobody can say."""

ENDED_EXIT = 143
"""What a process ends with that SIGTERM ends, as whoever deletes a pod sends it."""

DELETED = "it was deleted, and not by the appliance"

_IS_ERROR = re.compile(r"[\w.]+")
"""The name of an error's class, which begins the last line of a traceback."""

_GATED = "SchedulingGated"
_MAX_WORDS = 240
_PREEMPTED = "the scheduler has preempted it for a more urgent pod"
_DISRUPTIONS = {
    "EvictionByEvictionAPI": (EndCause.DRAINED, "it was evicted, as by a drain of its node"),
    "DeletionByTaintManager": (EndCause.TAINTED, "its node has a taint that it does not bear"),
    "PreemptionByScheduler": (EndCause.PREEMPTED, _PREEMPTED),
    "PreemptionByKubeScheduler": (EndCause.PREEMPTED, _PREEMPTED),
    "DeletionByPodGC": (EndCause.NODE_LOST, "its node is gone"),
    "TerminationByKubelet": (EndCause.ENDED_BY_NODE, "its node has ended it"),
}
"""Reasons of the condition DisruptionTarget, which Kubernetes sets from 1.26 on."""

_CAUSES = {
    "OOMKilled": EndCause.OUT_OF_MEMORY,
    "Evicted": EndCause.OVER_LIMIT,
    "NodeLost": EndCause.NODE_LOST,
    "NodeShutdown": EndCause.ENDED_BY_NODE,
    "Shutdown": EndCause.ENDED_BY_NODE,
    "Terminated": EndCause.ENDED_BY_NODE,
    "Preempting": EndCause.ENDED_BY_NODE,
}
"""Reasons of a container's end and of a pod's, of any server."""

_IMAGE_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
"""Why a container waits, where its image is at fault."""

CONTAINER = "pod"
"""Name of a pod's own container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a pod has ended, or is being ended.

    Attributes:
        exit_code: Its container's exit code, or the one that this end comes to.
        words: Why, for people; may be empty.
    """

    exit_code: int
    cause: EndCause
    words: str = ""


def end_of(pod: Resource) -> End | None:
    """Return how a pod has ended or is being ended by others; None if it goes on.

    It has ended with its own container, also where one that others have injected goes on.
    """
    status = _status(pod)
    taken = _disruption(pod)
    terminated = list(_own_states(pod, "terminated"))
    if status.get("phase") in ("Succeeded", "Failed") or terminated:
        for ended in terminated:
            code = int(ended.get("exitCode", LOST_EXIT))
            if code == 0:
                return End(exit_code=0, cause=EndCause.PROCESS)
            return _end(code, taken or _end_of_container(pod, ended))
        return _end(LOST_EXIT, taken or (EndCause.UNKNOWN, ""))
    if is_being_deleted(pod):
        return _end(ENDED_EXIT, taken or (EndCause.DELETED, DELETED))
    return None


def has_begun(pod: Resource) -> bool:
    """Whether the pod's own container has run, or runs."""
    return any(True for kind in ("running", "terminated") for _ in _own_states(pod, kind))


def unstarted(pod: Resource, *, seconds: float) -> End:
    """Return the end of a pod that its node has not started within some seconds."""
    waits = {state.get("reason") for state in _container_states(pod, "waiting")}
    why = why_not_started(pod)
    return End(
        exit_code=LOST_EXIT,
        cause=EndCause.IMAGE if waits & _IMAGE_REASONS else EndCause.NOT_STARTED,
        words=f"it has not started within {seconds:g} seconds" + (f" ({why})" if why else ""),
    )


def why_unplaced(pod: Resource | None) -> str:
    """Return what the scheduler says of a pod that has no node; empty if it says nothing."""
    scheduled = {} if pod is None else _condition(pod, "PodScheduled")
    if scheduled.get("reason") == _GATED:  # by us, and it may be so no more
        return ""
    return _words(scheduled.get("message", "")) if scheduled.get("status") != "True" else ""


def why_not_started(pod: Resource) -> str:
    """Return what the node says of a pod whose containers do not run; empty if nothing."""
    for waiting in (*_own_states(pod, "waiting"), *_container_states(pod, "waiting")):
        if waiting.get("reason") not in ("ContainerCreating", "PodInitializing", None):
            return _words(waiting.get("reason", ""), waiting.get("message", ""))
    return ""


def _end(exit_code: int, why: tuple[EndCause, str]) -> End:
    return End(exit_code=exit_code, cause=why[0], words=why[1])


def _disruption(pod: Resource) -> tuple[EndCause, str] | None:
    """Return who has taken a pod away, as a value and in words; None if nobody has said so."""
    condition = _condition(pod, "DisruptionTarget")
    if condition.get("status") == "True":
        reason = condition.get("reason", "")
        said = _words(reason, condition.get("message", ""))
        if reason not in _DISRUPTIONS:
            return EndCause.DISRUPTED, said
        cause, words = _DISRUPTIONS[reason]
        return cause, f"{words} ({said})"
    status = _status(pod)
    reason = status.get("reason", "")
    of_container = {each.get("reason") for each in _own_states(pod, "terminated")}
    words = _words(reason, status.get("message", ""))
    if not words or reason in of_container:
        return None
    return _CAUSES.get(reason, EndCause.UNKNOWN), words


def _end_of_container(pod: Resource, ended: Mapping[str, Any]) -> tuple[EndCause, str]:
    reason = ended.get("reason", "")
    cause = _CAUSES.get(reason, EndCause.PROCESS)
    if cause is EndCause.OUT_OF_MEMORY and (limit := _memory_limit(pod)):
        return cause, f"{reason}: it took more than its limit of {limit} of memory"
    lines = [line.strip() for line in (ended.get("message") or "").splitlines() if line.strip()]
    return cause, _words("" if reason == "Error" else reason, *map(_said, lines[-1:]))


def _said(line: str) -> str:
    """Return what a line of a container's output says: of a line of our log, the error in it."""
    try:
        entry = read_json(line)
    except ValueError:
        return line
    if not isinstance(entry, dict) or not isinstance(message := entry.get("message"), str):
        return line
    traceback = entry.get("traceback")
    *_, error = (traceback if isinstance(traceback, str) else "").strip().splitlines() or [""]
    kind, _, sentence = error.partition(": ")
    return sentence if _IS_ERROR.fullmatch(kind) and sentence else message


def _memory_limit(pod: Resource) -> str:
    for container in filter(_is_own, pod["spec"].get("containers") or ()):
        return str(((container.get("resources") or {}).get("limits") or {}).get("memory", ""))
    return ""


def _is_own(container: Mapping[str, Any]) -> bool:
    """Whether a container is the job's, and none that a service mesh has put beside it."""
    return bool(container.get("name", CONTAINER) == CONTAINER)


def _own_states(pod: Resource, kind: str) -> Iterator[Mapping[str, Any]]:
    return _states(filter(_is_own, _status(pod).get("containerStatuses") or ()), kind)


def _container_states(pod: Resource, kind: str) -> Iterator[Mapping[str, Any]]:
    for statuses in ("initContainerStatuses", "containerStatuses"):
        yield from _states(_status(pod).get(statuses) or (), kind)


def _states(statuses: Iterable[Mapping[str, Any]], kind: str) -> Iterator[Mapping[str, Any]]:
    for container in statuses:
        if state := (container.get("state") or {}).get(kind):
            yield state


def _condition(pod: Resource, kind: str) -> Mapping[str, Any]:
    for condition in _status(pod).get("conditions") or ():
        if condition.get("type") == kind:
            return dict(condition)
    return {}


def _words(*parts: str) -> str:
    text = without_tokens(": ".join(" ".join(part.split()) for part in parts if part))
    return text if len(text) <= _MAX_WORDS else f"{text[:_MAX_WORDS]} ..."


# `Any`: part of an object.
def _status(pod: Resource) -> Mapping[str, Any]:
    return pod.get("status") or {}
