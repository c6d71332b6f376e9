"""Why a job waits, for whom, and at which position.

The answer is computed on request from the state of the last cycle, because explaining a hundred
thousand jobs in each cycle would cost more than scheduling them. When a job is expected to start is
computed in `expected_start`.
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
from appliance.core.quantities import duration
from appliance.scheduler.admission import CycleState, Preempt, Promise
from appliance.scheduler.fair_share import describe_class
from appliance.scheduler.policy import BackfillOrder
from appliance.scheduler.queue import QUEUE_TYPES, SEQUENCE_BITS, PendingJob
from appliance.scheduler.waiting.expected_start import (
    ExpectedStart,
    ExpectedStarts,
    FindProgress,
    WaitingJobs,
)

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
    DEPENDENCY = "Dependency"
    ARRAY_LIMIT = "ArrayLimit"
    STOPPED = "Stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The job stays in the queue.

    Attributes:
        reason: Why, in the words users know, with the expected start.
        status: The same without the expected start, for those who are shown that beside it.
        position: Jobs of its type (execute, compile or driver) served before it; 0 for the first.
        blocking: Jobs that hold what it needs, the first to end first, 16 at most.
        behind: Waiting jobs that it may not delay.
        kind: Why, in one word.
        expected_start: When it is expected to start; None when that cannot be said.
        run_seconds: How long it is expected to run then; infinite if nothing ends it.
    """

    job: JobId
    reason: str
    status: str
    position: int
    blocking: tuple[JobId, ...]
    behind: tuple[JobId, ...] = ()
    kind: WaitReason = WaitReason.RESOURCES
    expected_start: ExpectedStart | None = None
    run_seconds: float = math.inf


class Waits(Mapping[JobId, Wait]):
    """The jobs that go on waiting after a cycle, explained when asked for; from any thread.

    Args:
        waiting: The jobs, and the running jobs before them.
    """

    def __init__(self, waiting: WaitingJobs) -> None:
        self._waiting = waiting
        self._starts = ExpectedStarts(waiting)
        self._lock = threading.Lock()

    @property
    def waiting(self) -> WaitingJobs:
        """The jobs, and the running jobs before them."""
        return self._waiting

    @classmethod
    def after(cls, cycle: CycleState) -> "Waits":
        """Return those of a finished cycle; what is needed of it is copied."""
        return cls(WaitingJobs(cycle))

    def at(self, now_seconds: float, find_progress: FindProgress) -> "Waits":
        """Return the same jobs as they wait at a time, see `WaitingJobs.at`."""
        later = Waits(self._waiting.at(now_seconds, find_progress))
        with self._lock:
            later._slots, later._ranks = self._slots, self._ranks
        return later

    @cached_property
    def _slots(self) -> dict[JobId, int]:
        is_open = self._waiting.cycle.is_open
        return {job.id: slot for slot, job in enumerate(self._waiting.jobs) if is_open[slot]}

    @cached_property
    def _ranks(self) -> NDArray[np.int64]:
        """For each slot, how many jobs of its type are served before it; held ones do not count."""
        order = self._waiting.order
        types, is_free = self._waiting.queue_type[order], ~self._waiting.is_held[order]
        ranks = np.zeros(len(self._waiting.jobs), np.int64)
        for number in range(len(QUEUE_TYPES)):
            is_alike = types == number
            counts = is_alike & is_free
            before = np.cumsum(counts) - counts
            ranks[order[is_alike]] = before[is_alike]
        return ranks

    def in_order(self, session: str = "") -> list[JobId]:
        """Return the waiting jobs in the order in which they are served.

        Args:
            session: Only of this session; empty for all.
        """
        with self._lock:
            ordered = (self._waiting.jobs[slot] for slot in self._waiting.order.tolist())
            return [job.id for job in ordered if not session or job.session == session]

    def __iter__(self) -> Iterator[JobId]:
        return iter(self._slots)

    def __len__(self) -> int:
        return int(self._waiting.cycle.is_open.sum())

    def __contains__(self, job: object) -> bool:
        return job in self._slots

    def __getitem__(self, job: JobId) -> Wait:
        with self._lock:
            return self._explain(self._slots[job])

    def _explain(self, slot: int) -> Wait:
        job = self._waiting.jobs[slot]
        kind, why, blocking = self._why(slot)
        behind = self._behind(job)
        position = int(self._ranks[slot])
        start = self._starts.find(slot)
        facts = [self._place_in_words(job, kind, position), *self._cluster_in_words(job), why]
        status = ", ".join(fact for fact in facts if fact)
        told = status
        if start is not None:
            wait = max(start.at_seconds - self._waiting.snapshot.now_seconds, 0.0)
            told += f", expected to start in {duration(round(wait))} ({start.basis})"
        reason = (
            f"job is queueing. Job queue status: {told}. "
            "For more information, please run 'csctl get jobs'."
        )
        return Wait(
            job=job.id,
            reason=reason,
            status=status,
            position=position,
            blocking=blocking,
            behind=behind,
            kind=kind,
            expected_start=start,
            run_seconds=self._waiting.run_seconds(slot),
        )

    def _place_in_words(self, job: PendingJob, kind: WaitReason, position: int) -> str:
        if position or job.id not in self._waiting.promises:
            return f"{position} {job.type.queue_type.value} job(s) queued before current job"
        if kind is WaitReason.RESOURCES:
            return "current job is top of queue but likely blocked by running jobs"
        return "current job is top of queue"

    def _cluster_in_words(self, job: PendingJob) -> list[str]:
        executing = [
            grant for grant in self._waiting.running if grant.type.queue_type is JobType.EXECUTE
        ]
        facts = []
        if executing:
            in_use = sum(len(grant.systems) for grant in executing)
            facts.append(f"{len(executing)} execute job(s) running using {in_use} system(s)")
        if num_compiles := sum(
            grant.type.queue_type is JobType.COMPILE and not grant.is_lookup
            for grant in self._waiting.running
        ):
            facts.append(f"{num_compiles} compile job(s) running")
        if job.num_systems:
            num_existing = len(self._waiting.cycle.snapshot.systems)
            facts.append(f"{job.num_systems} of {num_existing} system(s) requested")
        return facts

    def _why(self, slot: int) -> tuple[WaitReason, str, tuple[JobId, ...]]:
        job = self._waiting.jobs[slot]
        if job.held_by:
            return WaitReason.HELD, f"held by {job.held_by}", ()
        if job.after:
            return self._why_after(job)
        if job.awaits_place:
            why = f"of {job.array} at most {job.array_limit} run(s) go on at once"
            return WaitReason.ARRAY_LIMIT, why, ()
        if stopped := self._waiting.cycle.snapshot.stopped:
            return WaitReason.STOPPED, f"nothing is started now: {stopped}", ()
        if not self._waiting.cycle.may_start[slot]:
            return self._why_quota(job)
        if job.id in self._waiting.promises:
            return self._why_promised(job)
        if job.id in self._waiting.cycle.stuck or not self._waiting.cycle.can_ever[slot]:
            return WaitReason.OUT_OF_SERVICE, self._out_of_service(), ()
        behind = self._behind(job)
        heads = [self._waiting.promises[other] for other in behind]
        blocking = self._holders(job)
        if not self._fits_now(slot):
            return WaitReason.ORDER, self._why_later(slot, heads), blocking
        if self._waiting.cycle.snapshot.policy.backfill is BackfillOrder.NONE:
            return WaitReason.ORDER, "strict order: nobody passes a blocked job", blocking
        why = "what is free now is reserved" + (f" for {', '.join(behind)}" if behind else "")
        return WaitReason.RESERVED, why, blocking

    def _why_after(self, job: PendingJob) -> tuple[WaitReason, str, tuple[JobId, ...]]:
        parts = [each.sentence(_MOST_BLOCKING) for each in job.after]
        more = f" and {len(parts) - _MOST_BLOCKING} more" if len(parts) > _MOST_BLOCKING else ""
        why = f"starts when {', '.join(parts[:_MOST_BLOCKING])}{more}"
        jobs = tuple(dict.fromkeys(other for each in job.after for other in each.jobs))
        return WaitReason.DEPENDENCY, why, jobs[:_MOST_BLOCKING]

    def _holders(self, job: PendingJob) -> tuple[JobId, ...]:
        """Return the jobs that hold what this one needs, the first to end first."""
        end_of = self._waiting.snapshot.end_expected
        holders = [
            grant
            for grant in self._waiting.running
            if (grant.num_systems if job.num_systems else grant.pods or grant.node_groups)
        ]
        return tuple(grant.job for grant in sorted(holders, key=end_of)[:_MOST_BLOCKING])

    def _behind(self, job: PendingJob) -> tuple[JobId, ...]:
        """Return the jobs with a promise that this one may not delay."""
        if job.id in self._waiting.promises:
            return ()
        return tuple(
            p.job.id
            for p in self._waiting.promises.values()
            if p.job.type.queue_type is job.type.queue_type
        )

    def _why_later(self, slot: int, heads: Sequence[Promise]) -> str:
        """Explain that fair share, not time of submission, puts a job behind the first one."""
        if not heads or not self._waiting.cycle.snapshot.policy.uses_fair_share:
            return ""
        job, head = self._waiting.jobs[slot], heads[0].job
        if job.priority != head.priority or job.sequence > head.sequence:
            return ""
        number = int(self._waiting.cycle.key[slot]) >> SEQUENCE_BITS
        user, session = number & 15, (number >> 4) & 15
        who = f"user {job.user or 'unknown'}" if user else f"session {job.session}"
        return f"later than {head.id} as {who} {describe_class(user or session)}"

    def _why_promised(self, job: PendingJob) -> tuple[WaitReason, str, tuple[JobId, ...]]:
        victims = [
            d.job
            for d in self._waiting.cycle.decisions
            if isinstance(d, Preempt) and d.beneficiary == job.id
        ]
        if victims:
            why = f"lower priorities are being preempted: {', '.join(victims)}"
            return WaitReason.PREEMPTING, why, tuple(victims)
        return WaitReason.RESOURCES, "", self._holders(job)

    def _why_quota(self, job: PendingJob) -> tuple[WaitReason, str, tuple[JobId, ...]]:
        rooms = self._waiting.cycle.rooms
        if not rooms.admits_driver(job):
            drivers = tuple(
                g.job for g in self._waiting.running if g.type is JobType.DRIVER and g.pods
            )
            held, most = rooms.driver_bytes / _GIB, rooms.driver_bytes_most / _GIB
            why = f"drivers hold {held:.0f}Gi of at most {most:.0f}Gi of management memory"
            return WaitReason.QUOTA, why, drivers[:_MOST_BLOCKING]
        quota = rooms.quotas[job.session]
        mine = tuple(g.job for g in self._waiting.running if g.account.session == job.session)
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
        why += f" and runs {running} {job.type.queue_type.value} job(s)"
        limit = quota.max_jobs(job.type)
        if limit is not None:
            why += f" of at most {limit}"
        return WaitReason.QUOTA, why, mine[:_MOST_BLOCKING]

    def _out_of_service(self) -> str:
        snapshot = self._waiting.cycle.snapshot
        away = [s.name for s in snapshot.systems if not s.is_healthy or s.name in snapshot.draining]
        away += [window.system for window in snapshot.maintenance if window.system not in away]
        notes = sorted({s.notes for s in snapshot.systems if s.notes and not s.is_healthy})
        why = f" ({'; '.join(notes)})" if notes else ""
        return (
            f"system(s) out of service: {', '.join(away)}{why}" if away else "nodes out of service"
        )

    def _fits_now(self, slot: int) -> bool:
        free = self._waiting.cycle.free.columns()[self._waiting.used]
        return bool((self._waiting.demand[:, slot] <= free).all())
