"""Conditions and events of a wsjob, as `kubectl wait` and `kubectl describe` show them. Pure.

Every job has the same six conditions from its first status on, so that whoever waits for one finds
it: Queued, Suspended, PodsPlaced, Running, Complete, Failed. Complete and Failed are final, as of a
Kubernetes Job; a cancelled job is Failed, with reason Cancelled. A job is Suspended while somebody
holds it, by `spec.suspend` or otherwise, and it does not run. A job is Running only while all its
pods are there. Each condition has the message that is about it, and no other's.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from appliance.cluster.kubernetes.object_kinds import Resource, name_of, uid_of
from appliance.core.cluster.jobs import Phase

Conditions = Sequence[Mapping[str, Any]]

_QUEUED = (Phase.CREATED, Phase.QUEUED)
_PLACED = (Phase.RUNNING, Phase.FAILING)
_FAILED = (Phase.FAILED, Phase.CANCELLED)
_MAX_MESSAGE = 1024
"""Of an event; the server refuses longer ones."""


def conditions_of(
    phase: Phase,
    resource: Resource,
    *,
    message: str,
    now: dt.datetime,
    reason: str = "",
    is_suspended: bool = False,
    pods_wait: str = "",
) -> Conditions:
    """Return the conditions of a wsjob.

    Args:
        phase: Of its job.
        resource: The wsjob as it is; what has not changed keeps its time.
        message: Why the job has ended, or waits in the queue.
        now: Wall time.
        reason: Word for the phase, if there is a better one.
        is_suspended: Whether somebody holds the job; one that is yet to be stopped still runs.
        pods_wait: Why pods of a job that has been launched do not run; empty if all do.
    """
    words = reason or phase.value.capitalize()
    before = {each["type"]: each for each in (resource.get("status") or {}).get("conditions") or ()}
    was_placed = before.get("PodsPlaced", {}).get("status") == "True"
    is_queued = phase in _QUEUED
    is_held = is_suspended and is_queued
    waits = "" if is_queued or phase.is_terminal else pods_wait
    was_placed |= phase is Phase.SUCCEEDED  # of a short job nobody has said so before
    is_placed = (phase in _PLACED and not waits) or (phase.is_terminal and was_placed)
    placing = "PodsWait" if waits else words
    wanted = {
        "Queued": (is_queued, words, message if is_queued else ""),
        "Suspended": (is_held, "Held" if is_held else words, message if is_held else ""),
        "PodsPlaced": (is_placed, placing, waits),
        "Running": (phase is Phase.RUNNING and not waits, placing, waits),
        "Complete": (phase is Phase.SUCCEEDED, words, message if phase is Phase.SUCCEEDED else ""),
        "Failed": (phase in _FAILED, words, message if phase in _FAILED else ""),
    }
    generation = resource["metadata"].get("generation", 0)
    return [
        _condition(kind, is_true=is_true, reason=why, message=said, generation=generation)
        | {"lastTransitionTime": _since(before.get(kind), is_true=is_true, now=now)}
        for kind, (is_true, why, said) in wanted.items()
    ]


def event_of(
    resource: Resource, *, reason: str, message: str, is_warning: bool, now: dt.datetime
) -> Resource:
    """Return the event by which `kubectl describe` shows what befell a wsjob."""
    at = _text(now)
    name = name_of(resource)
    return {
        "metadata": {"name": f"{name}.{int(now.timestamp() * 1e6):x}"},
        "involvedObject": {
            "apiVersion": resource["apiVersion"],
            "kind": resource["kind"],
            "name": name,
            "namespace": resource["metadata"]["namespace"],
            "uid": uid_of(resource),
        },
        "reason": reason,
        "message": message[:_MAX_MESSAGE],
        "type": "Warning" if is_warning else "Normal",
        "count": 1,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "source": {"component": "wsc-appliance"},
    }


def news_of(resource: Resource, wanted: Mapping[str, Any]) -> tuple[str, str, bool] | None:
    """Return the reason, the message and whether it is a warning, of an event for a new status.

    What goes as it should is in the conditions, each with its time; of thousands of jobs nobody
    reads that twice.

    Args:
        resource: The wsjob as it is.
        wanted: Its new status.

    Returns:
        None if the job has not failed, and no pods of it wait for another reason than before.
    """
    before = resource.get("status") or {}
    phase, message = str(wanted["phase"]), str(wanted.get("message") or "")
    if phase in {each.value for each in _FAILED}:
        is_new = phase != before.get("phase")
        return (phase.capitalize(), message or f"The job is {phase}", True) if is_new else None
    is_launched = phase not in {each.value for each in (*_QUEUED, Phase.SUCCEEDED)}
    if is_launched and message and message != before.get("message"):
        return "Waiting", message, True
    return None


# `Any`: part of an object.
def _condition(
    kind: str, *, is_true: bool, reason: str, message: str, generation: int
) -> dict[str, Any]:
    fields: dict[str, Any] = {"type": kind, "status": "True" if is_true else "False"}
    fields |= {"reason": reason, "observedGeneration": generation}
    return {**fields, "message": message} if message else fields


def _since(before: Mapping[str, Any] | None, *, is_true: bool, now: dt.datetime) -> str:
    if before is not None and before.get("status") == ("True" if is_true else "False"):
        return str(before["lastTransitionTime"])
    return _text(now)


def _text(time: dt.datetime) -> str:
    return time.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
