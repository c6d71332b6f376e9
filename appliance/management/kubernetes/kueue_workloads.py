"""From a job to the Workload by which Kueue queues it, and from its conditions to orders. Pure.

Kueue admits, evicts and preempts Workloads, whatever they stand for. Each job that Kueue is to
queue has one, owned by its wsjob, with what its pods ask for. The job is held until its Workload is
admitted, stopped and held again when that is evicted, and the Workload is finished with the job.

Source: Kueue, concept page "Workload" (custom workloads) and `pkg/controller/jobframework`, which
does the same for the kinds that Kueue knows itself. Unlike it, node labels of resource flavors are
not put on pods.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from appliance.cluster.kubernetes.manifests import requests_of_role
from appliance.cluster.kubernetes.object_kinds import GROUP, JOB_LABEL, Kind, Resource
from appliance.cluster.kubernetes.options import KubernetesOptions
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import MAX_PRIORITY, JobRecord
from appliance.core.cluster.swarmx_tree import swarmx_tree
from appliance.core.ids import JobId, Role

KUEUE_GROUP = "kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
"""Versions of Kueue's kinds that have all that is used here, the newest first."""

QUEUE_LABEL = f"{KUEUE_GROUP}/queue-name"
"""Label of a wsjob with the LocalQueue that it goes to."""

SYSTEMS_RESOURCE = f"{GROUP}/systems"
"""What a Workload asks for each system: no node has it, but a ClusterQueue can limit it."""

HELD_BY = "Kueue"
"""What holds a job whose Workload is not admitted."""

_QUEUED = (Phase.CREATED, Phase.QUEUED)


class Order(StrEnum):
    """What is to be done with a job for its Workload's sake."""

    NOTHING = "nothing"
    START = "start"
    STOP = "stop"
    CLEAR = "clear"
    """The job does not run any more: the Workload gives back its quota."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition of a Workload.

    Attributes:
        is_true: Whether it holds.
        reason: Why, in one word.
        message: Why, for people.
    """

    is_true: bool = False
    reason: str = ""
    message: str = ""


def workload_kind(version: str) -> Kind:
    """Return the kind of Workloads in one of `VERSIONS`."""
    return Kind(group=KUEUE_GROUP, version=version, plural="workloads", name="Workload")


def workload_name(job: JobId) -> str:
    """Return the name of a job's Workload."""
    return f"{job}-kueue"


def queue_of(wsjob: Resource, options: KubernetesOptions) -> str:
    """Return the LocalQueue that a wsjob goes to; empty for none."""
    if not options.kueue:
        return ""
    labels = wsjob["metadata"].get("labels") or {}
    return str(labels.get(QUEUE_LABEL) or options.kueue_queue)


def new_workload(
    job: JobRecord, owner: Resource, queue: str, options: KubernetesOptions, *, is_active: bool
) -> Resource:
    """Return the Workload of a job.

    Args:
        owner: Reference to its wsjob.
        queue: Its LocalQueue.
        options: What is known of the cluster.
        is_active: Whether it may be admitted.
    """
    labels = {JOB_LABEL: job.id, f"{KUEUE_GROUP}/job-uid": owner["uid"]}
    return {
        "metadata": {
            "name": workload_name(job.id),
            "labels": labels,
            "ownerReferences": [owner],
        },
        "spec": {
            "queueName": queue,
            "active": is_active,
            "priority": priority_of(job),
            "podSets": [_pod_set(role, n, job, options) for role, n in _counts(job).items() if n],
        },
    }


def priority_of(job: JobRecord) -> int:
    """Return a job's priority as Kueue counts: higher goes first."""
    return MAX_PRIORITY - job.priority


def spec_changes(job: JobRecord, workload: Resource, *, is_active: bool) -> dict[str, Any]:
    """Return what is to be merged into a Workload's spec; empty if it is right."""
    wanted = {"active": is_active, "priority": priority_of(job)}
    present = {"active": True, **workload["spec"]}
    return {name: value for name, value in wanted.items() if present.get(name) != value}


def order_for(job: JobRecord, workload: Resource) -> Order:
    """Return what is to be done with an unfinished job.

    A job that somebody else holds, too, is neither started nor held a second time.
    """
    if _condition(workload, "Admitted").is_true and not _condition(workload, "Evicted").is_true:
        return Order.START if job.held_by == HELD_BY else Order.NOTHING
    if not job.held_by:
        return Order.STOP
    has_quota = _condition(workload, "QuotaReserved").is_true
    is_evicted = _condition(workload, "Evicted").is_true
    return Order.CLEAR if is_evicted and has_quota and job.phase in _QUEUED else Order.NOTHING


def why_waits(workload: Resource) -> str:
    """Return why Kueue has not admitted a Workload, in its words; empty if it says nothing."""
    queue = workload["spec"].get("queueName", "")
    evicted, reserved = _condition(workload, "Evicted"), _condition(workload, "QuotaReserved")
    said = evicted.message if evicted.is_true else reserved.message
    return f"Kueue queue {queue}: {said}" if said else f"waits for Kueue queue {queue}"


def cleared_status(workload: Resource, now: dt.datetime) -> Resource:
    """Return the status of an evicted Workload whose job runs no more: it is queued again.

    One that was only preempted asks to be admitted again; of others Kueue or a person decides.
    """
    evicted = _condition(workload, "Evicted")
    is_requeued = evicted.reason in ("Preempted", "NodeFailures")
    conditions = {
        "QuotaReserved": Condition(reason="Pending", message=evicted.message),
        "Admitted": Condition(reason="NoReservation", message="The workload has no reservation"),
        "Requeued": Condition(is_true=is_requeued, reason=evicted.reason, message=evicted.message),
    }
    return {"admission": None, "conditions": _with(workload, conditions, now)}


def finished_status(job: JobRecord, workload: Resource, now: dt.datetime) -> Resource | None:
    """Return the status of a Workload whose job has ended; None if it says so already."""
    if _condition(workload, "Finished").is_true:
        return None
    reason = "Succeeded" if job.phase is Phase.SUCCEEDED else "Failed"
    message = job.message or f"The job is {job.phase.value}"
    done = Condition(is_true=True, reason=reason, message=message[:1024])
    return {"conditions": _with(workload, {"Finished": done}, now)}


def ready_status(job: JobRecord, workload: Resource, now: dt.datetime) -> Resource | None:
    """Return the status of an admitted Workload by which Kueue sees whether its pods run.

    Where Kueue waits for pods that are ready it evicts a Workload that never says so.
    """
    if not _condition(workload, "Admitted").is_true:
        return None
    is_ready = job.phase is Phase.RUNNING
    known = _conditions(workload).get("PodsReady", {})
    if known.get("status") == _text(is_true=is_ready):
        return None
    ready = Condition(
        is_true=is_ready,
        reason="Started" if is_ready else "WaitForStart",
        message="All pods run" if is_ready else "Not all pods run",
    )
    return {"conditions": _with(workload, {"PodsReady": ready}, now)}


def _counts(job: JobRecord) -> Mapping[Role, int]:
    """Return how many pods of each role a job has."""
    if job.type is JobType.DRIVER:
        return {Role.DRIVER: 1}
    if not job.type.has_gang:
        return {Role.COORDINATOR: 1}
    num_systems = job.num_systems
    return {
        Role.COORDINATOR: 1,
        Role.WEIGHT: job.requirements.num_shards,
        Role.BROADCASTREDUCE: len(swarmx_tree(num_systems, fan_out=job.requirements.fan_out)),
        Role.CHIEF: num_systems,
        Role.ACTIVATION: num_systems,
        Role.WORKER: num_systems * job.workers_per_system,
    }


def _pod_set(role: Role, count: int, job: JobRecord, options: KubernetesOptions) -> Resource:
    planned = dict(job.requirements.planned_memory).get(role, 0)
    requests = dict(requests_of_role(role, options, planned_bytes=planned))
    requests.pop("ephemeral-storage", None)  # seldom has a ClusterQueue a quota of it
    if role is Role.CHIEF or (job.type.is_sdk and job.num_systems):
        requests[SYSTEMS_RESOURCE] = str(job.num_systems // count)
    container = {"name": "pod", "image": options.image, "resources": {"requests": requests}}
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    if selector := options.node_selectors.get(role):
        spec["nodeSelector"] = dict(selector)
    if options.tolerations:
        spec["tolerations"] = list(options.tolerations)
    return {"name": role.value, "count": count, "template": {"spec": spec}}


def _conditions(workload: Resource) -> Mapping[str, Resource]:
    found: Sequence[Resource] = (workload.get("status") or {}).get("conditions") or ()
    return {each["type"]: each for each in found}


def _condition(workload: Resource, kind: str) -> Condition:
    found = _conditions(workload).get(kind, {})
    return Condition(
        is_true=found.get("status") == "True",
        reason=found.get("reason", ""),
        message=found.get("message", ""),
    )


def _with(
    workload: Resource, wanted: Mapping[str, Condition], now: dt.datetime
) -> Sequence[Resource]:
    """Return a Workload's conditions with some of them changed."""
    conditions = dict(_conditions(workload))
    for kind, each in wanted.items():
        before, status = conditions.get(kind, {}), _text(is_true=each.is_true)
        since = before.get("lastTransitionTime") if before.get("status") == status else None
        conditions[kind] = {
            "type": kind,
            "status": status,
            "reason": each.reason or "Unknown",
            "message": each.message or each.reason,  # older servers take empty texts for nulls
            "lastTransitionTime": since or now.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "observedGeneration": workload["metadata"].get("generation", 0),
        }
    return list(conditions.values())


def _text(*, is_true: bool) -> str:
    return "True" if is_true else "False"
