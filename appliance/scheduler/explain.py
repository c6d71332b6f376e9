"""Why a job waits, for whom, at which position, and when it is expected to start.

"Why is my job not starting" is the question that users of clusters ask most. The answer is worked
out when somebody asks, from what the cycle saw: explaining a hundred thousand jobs in each cycle
would cost more than scheduling them. The first jobs in order are planned one by one on a profile of
what becomes free; the others get an estimate from the work ahead of them. Every time says what it
rests on.
"""

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from appliance.core.cluster.jobs import JobType
from appliance.core.ids import JobId
from appliance.scheduler.admission import Admit, Preempt, Promise, Round
from appliance.scheduler.demand import SYSTEMS
from appliance.scheduler.estimate import Basis
from appliance.scheduler.fair_share import describe_class
from appliance.scheduler.placement import Placement
from appliance.scheduler.policy import BackfillOrder
from appliance.scheduler.profile import Profile
from appliance.scheduler.queue import LANES, SEQUENCE_BITS, PendingJob
from appliance.scheduler.snapshot import Grant

_MOST_BLOCKING = 16
_GIB = 2**30


class WaitReason(StrEnum):
    """Why a job waits, in one word."""

    RESOURCES = "Resources"
    ORDER = "Order"
    RESERVED = "Reserved"
    QUOTA = "Quota"
    PAUSED = "Paused"
    OUT_OF_SERVICE = "OutOfService"
    PREEMPTING = "Preempting"
    HELD = "Held"
    STOPPED = "Stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedStart:
    """When a job is expected to start.

    Attributes:
        at_seconds: The time, on the snapshot's scale.
        basis: What it rests on, for people.
        is_promised: Whether nobody behind may delay it: it can only become earlier, as long as
            nothing fails and nobody of higher priority comes.
    """

    at_seconds: float
    basis: str
    is_promised: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The job stays in the queue.

    Attributes:
        job: The job.
        reason: Why, in the words users know.
        position: Execute jobs served before it; 0 for the first.
        blocking: Jobs that hold what it needs, the first to end first, 16 at most.
        behind: Waiting jobs that it may not delay.
        kind: Why, in one word.
        expected_start: When it is expected to start; None when that cannot be said.
        run_seconds: How long it is expected to run then; infinite if nothing ends it.
    """

    job: JobId
    reason: str
    position: int
    blocking: tuple[JobId, ...]
    behind: tuple[JobId, ...] = ()
    kind: WaitReason = WaitReason.RESOURCES
    expected_start: ExpectedStart | None = None
    run_seconds: float = math.inf


class Waits(Mapping[JobId, Wait]):
    """The jobs that go on waiting after a cycle, explained when asked for; from any thread.

    Args:
        round_: The finished cycle. What is needed of it is copied, as the queue goes on.
    """

    def __init__(self, round_: Round) -> None:
        queue = round_.queue
        size = len(queue)
        self._round = round_
        self._jobs: Sequence[PendingJob] = queue.jobs.copy()
        self._lane = queue.columns.lane[:size].copy()
        self._is_held = queue.columns.is_held[:size].copy()
        self._expected = queue.columns.expected[:size].copy()
        self._demand = queue.columns.demand[queue.used_columns, :size]
        self._used = queue.used_columns
        self._promises = {promise.job.id: promise for promise in round_.promises}
        self._lock = threading.Lock()

    @cached_property
    def _slots(self) -> dict[JobId, int]:
        is_open = self._round.is_open
        return {job.id: slot for slot, job in enumerate(self._jobs) if is_open[slot]}

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        """Slots of waiting jobs in the order of service."""
        waiting = np.flatnonzero(self._round.is_open)
        order: NDArray[np.int64] = waiting[self._round.key[waiting].argsort()]
        return order

    @cached_property
    def _ranks(self) -> NDArray[np.int64]:
        """For each slot, how many waiting execute jobs are served before it; held ones are not."""
        is_execute = self._lane[self._order] == LANES.index(JobType.EXECUTE)
        is_execute &= ~self._is_held[self._order]
        before = np.cumsum(is_execute) - is_execute
        ranks = np.zeros(len(self._jobs), np.int64)
        ranks[self._order] = before
        return ranks

    @cached_property
    def _work_ahead(self) -> NDArray[np.float64]:
        """For each slot, system-seconds that are expected of running jobs and of those before."""
        num_systems = self._demand[self._used.index(SYSTEMS)]
        work = num_systems * np.minimum(self._expected, 1e12) * ~self._is_held
        ahead = np.zeros(len(self._jobs))
        ahead[self._order] = np.cumsum(work[self._order]) - work[self._order]
        snapshot = self._round.snapshot
        left = sum(
            grant.num_systems * (snapshot.end_expected(grant) - snapshot.now_seconds)
            for grant in self._running
        )
        return ahead + left

    @cached_property
    def _running(self) -> tuple[Grant, ...]:
        admitted = (d.grant for d in self._round.decisions if isinstance(d, Admit))
        return (*self._round.snapshot.grants, *admitted)

    @cached_property
    def _planned(self) -> dict[int, tuple[float, str]]:
        """For the first jobs in order, when they start and what that waits for."""
        round_ = self._round
        snapshot = round_.snapshot
        now = snapshot.now_seconds
        free = round_.free.copy()
        away = free.systems & round_.frame.away(now, now + 1.0)
        free.systems &= ~away
        profile = Profile(free.columns()[self._used], now)
        for bit, _, end in round_.frame.windows:
            back = round_.frame.columns_of(Placement(systems=bit & away))
            profile.give(end, back[self._used], "")
        for ending in round_.endings:
            at = ending.at_seconds
            if ending.grant is not None:
                at = min(at, snapshot.end_expected(ending.grant))
            given = round_.frame.columns_of(ending.held)
            profile.give(at, given[self._used], ending.job)
        planned: dict[int, tuple[float, str]] = {}
        for slot in self._order[: snapshot.policy.plan_depth].tolist():
            if not round_.may_start[slot]:
                continue
            found = profile.reserve(
                self._jobs[slot].id, self._demand[:, slot], float(self._expected[slot])
            )
            if found is not None:
                planned[slot] = found
        return planned

    def in_order(self, session: str = "") -> list[JobId]:
        """Return the waiting jobs in the order in which they are served.

        Args:
            session: Only of this session; empty for all.
        """
        with self._lock:
            ordered = (self._jobs[slot] for slot in self._order.tolist())
            return [job.id for job in ordered if not session or job.session == session]

    def __iter__(self) -> Iterator[JobId]:
        return iter(self._slots)

    def __len__(self) -> int:
        return int(self._round.is_open.sum())

    def __contains__(self, job: object) -> bool:
        return job in self._slots

    def __getitem__(self, job: JobId) -> Wait:
        with self._lock:
            return self._explain(self._slots[job])

    def _explain(self, slot: int) -> Wait:
        job = self._jobs[slot]
        kind, why, blocking = self._why(slot)
        behind = self._behind(job)
        position = int(self._ranks[slot])
        start = self._expected_start(slot)
        facts = [self._place_in_words(job, kind, position), *self._cluster_in_words(job), why]
        if start is not None:
            minutes = max(start.at_seconds - self._round.snapshot.now_seconds, 0.0) / 60
            facts.append(f"expected to start in {minutes:,.0f} min ({start.basis})")
        told = ", ".join(fact for fact in facts if fact)
        reason = (
            f"job is queueing. Job queue status: {told}. "
            "For more information, please run 'csctl get jobs'."
        )
        return Wait(
            job=job.id,
            reason=reason,
            position=position,
            blocking=blocking,
            behind=behind,
            kind=kind,
            expected_start=start,
            run_seconds=float(self._expected[slot]),
        )

    def _place_in_words(self, job: PendingJob, kind: WaitReason, position: int) -> str:
        if position or job.id not in self._promises:
            return f"{position} execute job(s) queued before current job"
        if kind is WaitReason.RESOURCES:
            return "current job is top of queue but likely blocked by running jobs"
        return "current job is top of queue"

    def _cluster_in_words(self, job: PendingJob) -> list[str]:
        executing = [grant for grant in self._running if grant.type.lane is JobType.EXECUTE]
        facts = []
        if executing:
            in_use = sum(len(grant.systems) for grant in executing)
            facts.append(f"{len(executing)} execute job(s) running using {in_use} system(s)")
        if num_compiles := sum(
            grant.type.lane is JobType.COMPILE and not grant.is_lookup for grant in self._running
        ):
            facts.append(f"{num_compiles} compile job(s) running")
        if job.num_systems:
            num_existing = len(self._round.snapshot.systems)
            facts.append(f"{job.num_systems} of {num_existing} system(s) requested")
        return facts

    def _why(self, slot: int) -> tuple[WaitReason, str, tuple[JobId, ...]]:
        job = self._jobs[slot]
        if job.held_by:
            return WaitReason.HELD, f"held by {job.held_by}", ()
        if stopped := self._round.snapshot.stopped:
            return WaitReason.STOPPED, f"nothing is started now: {stopped}", ()
        if not self._round.may_start[slot]:
            return self._why_quota(job)
        if job.id in self._promises:
            return self._why_promised(job)
        if job.id in self._round.stuck or not self._round.can_ever[slot]:
            return WaitReason.OUT_OF_SERVICE, self._out_of_service(), ()
        behind = self._behind(job)
        heads = [self._promises[other] for other in behind]
        blocking = self._holders(job)
        if not self._fits_now(slot):
            return WaitReason.ORDER, self._why_later(slot, heads), blocking
        if self._round.snapshot.policy.backfill is BackfillOrder.NONE:
            return WaitReason.ORDER, "strict order: nobody passes a blocked job", blocking
        why = "what is free now is reserved" + (f" for {', '.join(behind)}" if behind else "")
        return WaitReason.RESERVED, why, blocking

    def _holders(self, job: PendingJob) -> tuple[JobId, ...]:
        """Return the jobs that hold what this one needs, the first to end first."""
        end_of = self._round.snapshot.end_bound
        holders = [
            grant
            for grant in self._running
            if (grant.num_systems if job.num_systems else grant.pods or grant.node_groups)
        ]
        return tuple(grant.job for grant in sorted(holders, key=end_of)[:_MOST_BLOCKING])

    def _behind(self, job: PendingJob) -> tuple[JobId, ...]:
        """Return the jobs with a promise that this one may not delay."""
        if job.id in self._promises:
            return ()
        return tuple(p.job.id for p in self._promises.values() if p.job.type.lane is job.type.lane)

    def _why_later(self, slot: int, heads: Sequence[Promise]) -> str:
        """Say so when fair share, not time of submission, puts a job behind the first one."""
        if not heads or not self._round.snapshot.policy.uses_fair_share:
            return ""
        job, head = self._jobs[slot], heads[0].job
        if job.priority != head.priority or job.sequence > head.sequence:
            return ""
        number = int(self._round.key[slot]) >> SEQUENCE_BITS
        user, session = number & 15, (number >> 4) & 15
        who = f"user {job.user or 'unknown'}" if user else f"session {job.session}"
        return f"later than {head.id} as {who} {describe_class(user or session)}"

    def _why_promised(self, job: PendingJob) -> tuple[WaitReason, str, tuple[JobId, ...]]:
        victims = [
            d.job
            for d in self._round.decisions
            if isinstance(d, Preempt) and d.beneficiary == job.id
        ]
        if victims:
            why = f"lower priorities are being preempted: {', '.join(victims)}"
            return WaitReason.PREEMPTING, why, tuple(victims)
        return WaitReason.RESOURCES, "", self._holders(job)

    def _why_quota(self, job: PendingJob) -> tuple[WaitReason, str, tuple[JobId, ...]]:
        rooms = self._round.rooms
        if not rooms.admits_driver(job):
            drivers = tuple(g.job for g in self._running if g.type is JobType.DRIVER and g.pods)
            held, most = rooms.driver_bytes / _GIB, rooms.driver_bytes_most / _GIB
            why = f"drivers hold {held:.0f}Gi of at most {most:.0f}Gi of management memory"
            return WaitReason.QUOTA, why, drivers[:_MOST_BLOCKING]
        quota = rooms.quotas[job.session]
        mine = tuple(g.job for g in self._running if g.account.session == job.session)
        if quota.is_paused:
            return WaitReason.PAUSED, f"session {job.session} is paused", ()
        used = rooms.num_systems.get(job.session, 0)
        why = f"session {job.session} uses {used} system(s)"
        if quota.max_systems is not None:
            why += f" of at most {quota.max_systems}"
        if quota.max_node_groups is not None:
            held = rooms.num_groups.get(job.session, 0)
            why += f", {held} node group(s) of at most {quota.max_node_groups}"
        running = rooms.num_jobs(job.session, job.type)
        why += f" and runs {running} {job.type.lane.value} job(s)"
        limit = quota.max_jobs(job.type)
        if limit is not None:
            why += f" of at most {limit}"
        return WaitReason.QUOTA, why, mine[:_MOST_BLOCKING]

    def _out_of_service(self) -> str:
        snapshot = self._round.snapshot
        away = [s.name for s in snapshot.systems if not s.is_healthy or s.name in snapshot.draining]
        away += [window.system for window in snapshot.maintenance if window.system not in away]
        notes = sorted({s.notes for s in snapshot.systems if s.notes and not s.is_healthy})
        why = f" ({'; '.join(notes)})" if notes else ""
        return (
            f"system(s) out of service: {', '.join(away)}{why}" if away else "nodes out of service"
        )

    def _fits_now(self, slot: int) -> bool:
        free = self._round.free.columns()[self._used]
        return bool((self._demand[:, slot] <= free).all())

    def _expected_start(self, slot: int) -> ExpectedStart | None:
        job = self._jobs[slot]
        if not self._round.may_start[slot] or job.id in self._round.stuck:
            return None
        planned = self._planned.get(slot)
        if (promise := self._promises.get(job.id)) is not None:
            at = promise.start_seconds
            basis = self._basis(promise.last, is_bound=True)
            if planned is not None and planned[0] < at and not self._round.frame.windows:
                at, basis = planned[0], self._basis_of_plan(planned[1])
            return ExpectedStart(at_seconds=at, basis=basis, is_promised=True)
        if planned is not None:
            return ExpectedStart(
                at_seconds=planned[0], basis=self._basis_of_plan(planned[1]), is_promised=False
            )
        if not self._round.can_ever[slot] or not job.num_systems:
            return None
        num_systems = max(self._round.frame.placeable_systems.bit_count(), 1)
        wait = float(self._work_ahead[slot]) / num_systems
        return ExpectedStart(
            at_seconds=self._round.snapshot.now_seconds + wait,
            basis="work of all jobs ahead, spread over all systems",
            is_promised=False,
        )

    def _basis_of_plan(self, name: str) -> str:
        for grant in self._running:
            if grant.job == name:
                return self._basis(grant)
        return f"end of {name}, which waits too" if name else "free by then"

    def _basis(self, grant: Grant | None, *, is_bound: bool = False) -> str:
        if grant is None:
            return "end of a reservation or of maintenance"
        if grant.is_ending:
            return f"end of {grant.job}, which is being stopped"
        basis = self._round.snapshot.estimate_of(grant).basis
        if is_bound and grant.has_time_limit:
            basis = Basis.LIMIT
        return f"end of {grant.job}, by {basis.value}"
