"""Why a pod of a gang has ended, or does not run, in words for people. Pure.

Several parts of a pod's status may say so; the one closest to the cause comes first: who has taken
the pod away (a drain, a preemption, a node in trouble), then what befell its container, then the
last line that it printed. What a container printed is the user's, and may hold tokens: of it the
last line is taken, without what looks like one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from appliance.cluster.kubernetes.object_kinds import Resource, is_being_deleted
from appliance.observability.redaction import without_tokens

LOST_EXIT = 137
"""What a process ends with that is killed; for pods of which nobody can say."""

ENDED_EXIT = 143
"""What a process ends with that SIGTERM ends, as whoever deletes a pod sends it."""

DELETED = "it was deleted, and not by the appliance"

_MAX_WORDS = 240
_DISRUPTIONS = {
    "EvictionByEvictionAPI": "it was evicted, as by a drain of its node",
    "DeletionByTaintManager": "its node has a taint that it does not bear",
    "PreemptionByScheduler": "the scheduler has preempted it for a more urgent pod",
    "PreemptionByKubeScheduler": "the scheduler has preempted it for a more urgent pod",
    "DeletionByPodGC": "its node is gone",
    "TerminationByKubelet": "its node has ended it",
}
"""Reasons of the condition DisruptionTarget, which Kubernetes sets from 1.26 on."""


def end_of(pod: Resource) -> tuple[int, str] | None:
    """Return how a pod has ended or is being ended by others: exit code and why; None if not."""
    status = _status(pod)
    by = _disruption(pod)
    if status.get("phase") in ("Succeeded", "Failed"):
        for ended in _container_states(pod, "terminated"):
            code = int(ended.get("exitCode", LOST_EXIT))
            return code, (by or _why_container_ended(pod, ended)) if code else ""
        return LOST_EXIT, by or _words(status.get("reason", ""), status.get("message", ""))
    if is_being_deleted(pod):
        return ENDED_EXIT, by or DELETED
    return None


def why_unplaced(pod: Resource | None) -> str:
    """Return what the scheduler says of a pod that has no node; empty if it says nothing."""
    scheduled = {} if pod is None else _condition(pod, "PodScheduled")
    return _words(scheduled.get("message", "")) if scheduled.get("status") != "True" else ""


def why_not_started(pod: Resource) -> str:
    """Return what the node says of a pod whose container does not run; empty if nothing."""
    for waiting in _container_states(pod, "waiting"):
        if waiting.get("reason") not in ("ContainerCreating", "PodInitializing", None):
            return _words(waiting.get("reason", ""), waiting.get("message", ""))
    return ""


def _disruption(pod: Resource) -> str:
    """Return who has taken a pod away; empty if nobody has said so."""
    condition = _condition(pod, "DisruptionTarget")
    if condition.get("status") == "True":
        reason = condition.get("reason", "")
        said = _words(reason, condition.get("message", ""))
        return f"{_DISRUPTIONS[reason]} ({said})" if reason in _DISRUPTIONS else said
    status = _status(pod)
    of_container = {each.get("reason") for each in _container_states(pod, "terminated")}
    if status.get("reason") in of_container:
        return ""
    return _words(status.get("reason", ""), status.get("message", ""))


def _why_container_ended(pod: Resource, ended: Mapping[str, Any]) -> str:
    reason = ended.get("reason", "")
    if reason == "OOMKilled":
        limit = _memory_limit(pod)
        return f"OOMKilled: it took more than its limit of {limit} of memory" if limit else reason
    lines = [line.strip() for line in (ended.get("message") or "").splitlines() if line.strip()]
    return _words("" if reason == "Error" else reason, *lines[-1:])


def _memory_limit(pod: Resource) -> str:
    for container in pod["spec"].get("containers") or ():
        return str(((container.get("resources") or {}).get("limits") or {}).get("memory", ""))
    return ""


def _container_states(pod: Resource, kind: str) -> Iterator[Mapping[str, Any]]:
    statuses: Sequence[Mapping[str, Any]] = _status(pod).get("containerStatuses") or ()
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
