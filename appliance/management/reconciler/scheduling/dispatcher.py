"""The queue and its scheduling cycles, for the reconciler's thread; their results, for all threads.

After each cycle, even with an empty queue, the dispatcher publishes what it saw and decided as
immutable values. Questions about why a job waits are answered from them, in any thread.
"""

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from appliance.core.clock import Clock
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import JobRecord, Reservation, User
from appliance.core.cluster.requirements import Requirements
from appliance.core.cluster.sessions import SessionRecord
from appliance.core.cluster.systems import (
    APPLIANCE,
    System,
    SystemEvent,
    SystemEventKind,
    SystemState,
)
from appliance.core.dependencies import Dependency
from appliance.core.ids import JobId, new_job_id
from appliance.management.cluster.cluster_model import ClusterFacts, ClusterModel
from appliance.management.cluster.demands import default_requirements
from appliance.management.cluster.pod_placement import COMPILE_ROLES
from appliance.scheduler.admission import Admit, Reject
from appliance.scheduler.cycle import Decision, run_cycle, would_start
from appliance.scheduler.fair_share import Account, UsageLedger
from appliance.scheduler.policy import Policy
from appliance.scheduler.queue import JobQueue, PendingJob
from appliance.scheduler.run_time import Estimate, Origin, RunHistory
from appliance.scheduler.snapshot import (
    ClusterSnapshot,
    Grant,
    Maintenance,
    SessionQuota,
    WorkflowReservation,
)
from appliance.scheduler.waiting.wait_reasons import Wait, Waits
from appliance.storage.cluster.past_runs import PastRun

HISTORY_HALF_LIVES = 8.0
"""Past jobs older than so many half-lives of use tell nothing any more: less than 0.4 % is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What one cycle saw and found.

    Attributes:
        snapshot: The cluster before its decisions; None before the first cycle.
        waits: Why each job goes on waiting; None if the queue was empty.
        at: When.
        cycle: Its number, from 1, which the lines of the log carry that it led to.
    """

    snapshot: ClusterSnapshot | None = None
    waits: Waits | None = None
    at: dt.datetime | None = None
    cycle: int = 0

    def find(self, job: JobId) -> Wait | None:
        """Return why a job waits; None if it did not wait after the cycle."""
        if self.waits is None or job not in self.waits:
            return None
        return self.waits[job]


class Dispatcher:
    """The pending jobs and the rules they are served by. One thread calls it; all may read it.

    Args:
        model: What the cluster has and who may use how much.
        policy: By which rules jobs are served.
        grants: Returns what running jobs hold.
    """

    def __init__(
        self,
        model: ClusterModel,
        policy: Policy,
        clock: Clock,
        grants: Callable[[], Iterable[Grant]],
    ) -> None:
        self.published = Published()
        self._model = model
        self._policy = policy
        self._clock = clock
        self._grants = grants
        self._history = RunHistory(policy)
        self._usage = UsageLedger(policy.half_life_seconds)
        self._queue = JobQueue(history=self._history)
        self._finished: set[Origin] = set()
        self._stopped = ""
        self._followers: dict[JobId, None] = {}
        self._limited: dict[JobId, None] = {}

    def history_start(self) -> dt.datetime:
        """Return the start of the history that still matters."""
        seconds = self._policy.half_life_seconds * HISTORY_HALF_LIVES
        return self._clock.now() - dt.timedelta(seconds=seconds)

    def remember(self, runs: Iterable[PastRun]) -> None:
        """Learn from jobs that ended under an earlier management, in order of their end."""
        for run in runs:
            account = Account(run.session, run.user)
            seconds = (run.ended_at - run.started_at).total_seconds()
            ended = run.ended_at.timestamp()
            self._usage.charge(account, run.num_systems * seconds, at_seconds=ended)
            if run.has_succeeded:
                self._history.observe(run.user, run.program, run.type, seconds, run.aftermath)
            else:
                self._history.observe_cut(run.user, run.program, run.type, seconds)

    def add(self, job: JobRecord) -> None:
        """Put a job into the queue; a compile job starts for a look into the cache first."""
        pending = pending_of(job, is_lookup=job.type is JobType.COMPILE)
        self._queue.add(pending)
        if pending.after:
            self._followers[job.id] = None
        if pending.array:
            self._limited[job.id] = None

    def add_compile(self, job: JobRecord) -> None:
        """Put a compile job into the queue after its cache miss."""
        self._queue.add(pending_of(job, is_lookup=False))

    def __len__(self) -> int:
        return len(self._queue)

    def has(self, job: JobId) -> bool:
        """Whether a job waits in the queue."""
        return job in self._queue

    def remove(self, job: JobId) -> None:
        """Take a job out of the queue; nothing happens if it is not there."""
        self._queue.remove(job)
        self._followers.pop(job, None)
        self._limited.pop(job, None)

    def in_limited_arrays(self) -> Sequence[PendingJob]:
        """Return the waiting jobs of arrays of which only some may run at once."""
        return [self._queue.jobs[self._queue.slot_of(job)] for job in self._limited]

    def give_place(self, job: JobId, *, awaits: bool) -> None:
        """Let a job of a limited array start, or wait for its place."""
        if (pending := self._queue.remove(job)) is not None:
            self._queue.add(replace(pending, awaits_place=awaits))

    def followers(self) -> Sequence[PendingJob]:
        """Return the waiting jobs that start only after others, in the order they came."""
        return [self._queue.jobs[self._queue.slot_of(job)] for job in self._followers]

    def narrow(self, job: JobId, after: tuple[Dependency, ...]) -> None:
        """Let a waiting job wait for this only; without anything it may start."""
        if (pending := self._queue.remove(job)) is not None:
            self._queue.add(replace(pending, after=after))
        if not after:
            self._followers.pop(job, None)

    def reprioritise(self, job: JobId, priority: int) -> None:
        """Serve a waiting job by another priority."""
        if (pending := self._queue.remove(job)) is not None:
            self._queue.add(replace(pending, priority=priority))

    def hold_back(self, job: JobId, by: str) -> None:
        """Hold a waiting job for the named user; without a user release the hold."""
        if (pending := self._queue.remove(job)) is not None:
            self._queue.add(replace(pending, held_by=by))

    def stop(self, reason: str) -> SystemEvent | None:
        """Start nothing any more, for a reason; without one, go on.

        Returns:
            What is to be kept of it, if that changes anything.
        """
        before, self._stopped = self._stopped, reason
        if bool(reason) == bool(before):
            return None
        return SystemEvent(
            system=APPLIANCE,
            at=self._clock.now(),
            kind=SystemEventKind.STATE_CHANGE,
            note=reason or f"again possible: {before}",
            details={
                "state": "admissions-stopped" if reason else "admissions-resumed",
                "caller": APPLIANCE,
            },
        )

    def estimate(self, job: JobRecord) -> Estimate:
        """Return how long a job will run."""
        wanted = job.requirements
        return self._history.estimate(user_of(job), wanted.program, job.type, wanted.limit_seconds)

    def account_for(self, job: JobRecord, grant: Grant, phase: Phase) -> None:
        """Charge a job that has ended to its user, and learn how long such jobs run."""
        if grant.started_seconds is None or grant.is_lookup:
            return
        now = self._clock.now().timestamp()
        seconds = now - grant.started_seconds
        aftermath = None if grant.completed is None else grant.completed.after(now)
        self._usage.charge(grant.account, grant.num_systems * seconds, at_seconds=now)
        user, program = grant.account.user, job.requirements.program
        if phase is not Phase.SUCCEEDED:
            self._history.observe_cut(user, program, grant.type, seconds)
            return
        self._history.observe(user, program, grant.type, seconds, aftermath)
        self._finished.add(Origin(user, program, grant.type))

    def run_cycle(self) -> Sequence[Decision]:
        """Decide about every waiting job, and publish what was found."""
        self._relearn()
        snapshot = self._snapshot()
        now, cycle = self._clock.now(), self.published.cycle + 1
        if not self._queue or not set(COMPILE_ROLES).isdisjoint(self._model.facts.missing_roles):
            self.published = Published(snapshot=snapshot, at=now, cycle=cycle)
            return ()
        outcome = run_cycle(snapshot, self._queue)
        self.published = Published(snapshot=snapshot, waits=outcome.waits, at=now, cycle=cycle)
        return outcome.decisions

    def would_start(self, job: PendingJob) -> Admit | Reject | Wait:
        """Return what would happen to a job submitted now; nothing is changed."""
        self._relearn()
        return would_start(self._snapshot(), self._queue, job)

    def would_execute(self, job: JobRecord, num_systems: int) -> Admit | Reject | Wait:
        """Return what would happen to a compile job's execute job submitted now."""
        wanted = default_requirements(JobType.EXECUTE, num_systems, self._model.facts.description)
        execute = replace(
            job,
            id=new_job_id(),
            type=JobType.EXECUTE,
            num_systems=num_systems,
            requirements=Requirements(num_node_groups=wanted.num_node_groups),
            held_by="",
        )
        return self.would_start(pending_of(execute, is_lookup=False))

    def _relearn(self) -> None:
        """Let waiting jobs follow what was learned; many jobs of a busy queue end in one turn."""
        if self._finished:
            self._queue.relearn(self._finished)
            self._finished.clear()

    def _snapshot(self) -> ClusterSnapshot:
        snapshot = snapshot_of(
            self._model.facts,
            self._grants(),
            now_seconds=self._clock.now().timestamp(),
            usage=self._usage,
            policy=self._policy,
        )
        return replace(snapshot, stopped=self._stopped) if self._stopped else snapshot


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
