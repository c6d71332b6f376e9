"""From the committed state to the scheduler's snapshot."""

from collections.abc import Iterable
from dataclasses import replace

from appliance.core.cluster.records import JobRecord, Reservation, User
from appliance.core.cluster.sessions import SessionRecord
from appliance.core.cluster.systems import System, SystemState
from appliance.management.cluster.cluster_model import ClusterFacts
from appliance.management.cluster.pod_placement import COMPILE_ROLES
from appliance.scheduler.fair_share import Account, UsageLedger
from appliance.scheduler.policy import Policy
from appliance.scheduler.queue import PendingJob
from appliance.scheduler.run_time import Estimate
from appliance.scheduler.snapshot import (
    ClusterSnapshot,
    Grant,
    Maintenance,
    SessionQuota,
    WorkflowReservation,
)


def snapshot_of(
    facts: ClusterFacts,
    grants: Iterable[Grant],
    *,
    now_seconds: float,
    usage: UsageLedger,
    policy: Policy,
) -> ClusterSnapshot:
    """Return the cluster as the scheduler sees it.

    Args:
        grants: Who holds what.
        now_seconds: Seconds since the epoch.
        usage: Past use.
        policy: The rules.
    """
    systems = _within_reach(facts)
    return ClusterSnapshot(
        systems=systems,
        nodes=facts.description.nodes,
        node_groups=facts.description.node_groups,
        grants=tuple(grants),
        reservations=tuple(map(_reservation, facts.reservations)),
        now_seconds=now_seconds,
        draining=frozenset(s.name for s in systems if s.state is not SystemState.UP),
        maintenance=tuple(
            Maintenance(
                system=window.system,
                start_seconds=window.starts_at.timestamp(),
                end_seconds=window.ends_at.timestamp(),
            )
            for window in facts.windows
            if window.ends_at.timestamp() > now_seconds
        ),
        blocks={system.name: system.block for system in systems if system.block},
        sessions=tuple(
            quota for quota in map(_quota, facts.sessions) if quota != SessionQuota(name=quota.name)
        ),
        usage=usage,
        policy=policy,
        may_grow=facts.may_grow,
    )


def _within_reach(facts: ClusterFacts) -> tuple[System, ...]:
    """Return the systems; while the nodes that pods need are away, none is healthy."""
    missing = [role for role in facts.missing_roles if role not in COMPILE_ROLES]
    if not missing:
        return facts.systems
    notes = f"no node with role {' or '.join(missing)} has joined"
    return tuple(
        replace(system, is_healthy=False, notes=notes) if system.is_healthy else system
        for system in facts.systems
    )


def pending_of(job: JobRecord, *, is_lookup: bool) -> PendingJob:
    """Return a job that waits as the scheduler sees it.

    Args:
        is_lookup: Whether it is to start for a look into the compile cache alone.
    """
    wanted = job.requirements
    return PendingJob(
        id=job.id,
        type=job.type,
        sequence=job.sequence,
        priority=job.priority,
        num_systems=job.num_systems,
        num_node_groups=wanted.num_node_groups,
        group_kind=wanted.group_kind,
        pods=wanted.pods,
        reserve_systems=wanted.reserve_systems,
        session=job.session,
        user=user_of(job),
        workflow=job.workflow,
        program=wanted.program,
        submitted_seconds=job.created_at.timestamp(),
        limit_seconds=wanted.limit_seconds,
        is_lookup=is_lookup,
        is_preemptible=wanted.is_preemptible,
        held_by=job.held_by,
        after=() if job.num_starts else wanted.after,
        array=job.array if wanted.array_limit else "",
        array_limit=wanted.array_limit,
    )


def grant_of(job: JobRecord, estimate: Estimate) -> Grant:
    """Return what a job that was admitted by an earlier management holds."""
    return Grant(
        job=job.id,
        type=job.type,
        systems=job.systems,
        holding=job.holding,
        priority=job.priority,
        account=Account(job.session, user_of(job)),
        workflow=job.workflow,
        program=job.requirements.program,
        started_seconds=job.started_at.timestamp() if job.started_at else None,
        estimate=estimate,
        has_time_limit=job.requirements.limit_seconds is not None,
        is_preemptible=job.requirements.is_preemptible,
    )


def user_of(job: JobRecord) -> str:
    """Return the name that a job's use is charged to."""
    return account_user(job.user)


def account_user(user: User) -> str:
    """Return the name that a user's use is charged to."""
    return user.name or str(user.uid)


def _reservation(kept: Reservation) -> WorkflowReservation:
    workflow = kept.workflow
    return WorkflowReservation(
        workflow=workflow.id,
        systems=kept.systems,
        node_groups=kept.node_groups,
        account=Account(workflow.session, account_user(workflow.user)),
    )


def _quota(record: SessionRecord) -> SessionQuota:
    spec = record.spec
    return SessionQuota(
        name=record.name,
        num_systems=spec.num_systems,
        borrow_limit=spec.borrow_limit,
        max_node_groups=spec.max_node_groups,
        max_executes=spec.max_executes,
        max_compiles=spec.max_compiles,
        shares=spec.shares,
        is_paused=spec.is_paused,
    )
