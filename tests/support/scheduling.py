"""Builders for clusters, grants and pending jobs, so that a test states only what it is about."""

from collections.abc import Iterable
from dataclasses import fields as fields_of

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import Holding
from appliance.core.cluster.requirements import PodDemand
from appliance.core.cluster.systems import Node, System
from appliance.core.ids import JobId, WorkflowId
from appliance.scheduler.admission import Admit
from appliance.scheduler.cycle import CycleOutcome, run_cycle
from appliance.scheduler.fair_share import Account
from appliance.scheduler.queue import JobQueue, PendingJob
from appliance.scheduler.run_time import Basis, Estimate
from appliance.scheduler.snapshot import ClusterSnapshot, Grant

GIB = 2**30
HELD = fields_of(Holding)
HOUR = 3600.0


def systems(count: int) -> tuple[System, ...]:
    return tuple(System(name=f"s{index}") for index in range(count))


def cluster(num_systems: int, *grants: Grant, **fields) -> ClusterSnapshot:
    return ClusterSnapshot(systems=systems(num_systems), grants=grants, **fields)


def management_node(memory_gib: int, name: str = "mgmt") -> Node:
    return Node(name=name, roles=("management",), num_cores=64, memory_bytes=memory_gib * GIB)


def execute(name: str, num_systems: int, *, sequence: int = 0, **fields) -> PendingJob:
    fields.setdefault("priority", 299)
    return PendingJob(
        id=JobId(name),
        type=JobType.EXECUTE,
        sequence=sequence,
        num_systems=num_systems,
        **fields,
    )


def compile_(name: str, *, sequence: int = 0, memory_gib: int = 0, **fields) -> PendingJob:
    fields.setdefault("priority", 299)
    pods = (PodDemand(role="management", memory_bytes=memory_gib * GIB),) if memory_gib else ()
    return PendingJob(
        id=JobId(name),
        type=JobType.COMPILE,
        sequence=sequence,
        num_systems=0,
        pods=pods,
        **fields,
    )


def held(
    name: str,
    *names: str,
    ends_in: float | None = None,
    session: str = "job-operator",
    user: str = "",
    workflow: str | None = None,
    **fields,
) -> Grant:
    if ends_in is not None:
        seconds = Estimate(expected_seconds=ends_in, bound_seconds=ends_in, basis=Basis.LIMIT)
        fields |= {"started_seconds": 0.0, "estimate": seconds, "has_time_limit": True}
    beyond = {each.name: fields.pop(each.name) for each in HELD if each.name in fields}
    return Grant(
        job=JobId(name),
        holding=Holding(**beyond),
        type=JobType.EXECUTE,
        systems=names,
        account=Account(session, user),
        workflow=None if workflow is None else WorkflowId(workflow),
        **fields,
    )


def cycle(snapshot: ClusterSnapshot, jobs: Iterable[PendingJob]) -> CycleOutcome:
    return run_cycle(snapshot, JobQueue(jobs))


def admitted(outcome: CycleOutcome) -> dict[str, tuple[str, ...]]:
    """Return the systems of each admitted job, in order of admission."""
    return {d.job: d.grant.systems for d in outcome.decisions if isinstance(d, Admit)}
