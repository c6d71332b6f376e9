"""When a waiting job is expected to start.

The first jobs in order are planned one by one on a profile of what becomes free; the others get an
estimate from the work ahead of them. Every time says what it rests on.

Who waits and in which order is a cycle's finding; how far the running jobs are and what time it is,
is that of the question. So a job that outlives its estimate leaves no time in the past behind it.
"""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.run import CompletedSessions, RunProgress
from appliance.core.ids import JobId
from appliance.core.quantities import duration
from appliance.scheduler.admission import Admit, CycleState, Preempt, Promise
from appliance.scheduler.demand import SYSTEMS
from appliance.scheduler.placement import Placement
from appliance.scheduler.queue import PendingJob
from appliance.scheduler.run_time import Basis, Origin
from appliance.scheduler.snapshot import ClusterSnapshot, Grant
from appliance.scheduler.waiting.resource_profile import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedStart:
    """When a job is expected to start.

    Attributes:
        at_seconds: The time, on the snapshot's scale.
        basis: What it rests on, for people.
        is_promised: Whether it can only become earlier, as long as nothing fails and nobody of
            higher priority comes: nobody behind may delay it, and what it waits for has a limit.
    """

    at_seconds: float
    basis: str
    is_promised: bool


FindProgress = Callable[[JobId], tuple[RunProgress | None, CompletedSessions | None]]
"""Returns the present session of a running job and those that it has completed."""


class WaitingJobs:
    """The result of a finished cycle: the jobs that still wait, and the running jobs.

    Args:
        cycle: The finished cycle. What is needed of its queue is copied, as the queue goes on.
    """

    def __init__(self, cycle: CycleState) -> None:
        queue = cycle.queue
        size = len(queue)
        self.cycle = cycle
        self.jobs: Sequence[PendingJob] = queue.jobs.copy()
        self.queue_type = queue.columns.queue_type[:size].copy()
        self.is_held = queue.columns.is_held[:size].copy()
        self.expected = queue.columns.expected[:size].copy()
        self.demand = queue.columns.demand[queue.used_columns, :size]
        self.used = queue.used_columns
        self.promises = {promise.job.id: promise for promise in cycle.promises}

    @cached_property
    def snapshot(self) -> ClusterSnapshot:
        """What the cycle saw, with what it decided; made when somebody asks."""
        return replace(self.cycle.snapshot, grants=tuple(_grants_after(self.cycle)))

    def run_seconds(self, slot: int) -> float:
        """Return how long a waiting job is expected to run.

        Where no run of its program has ended, one that runs tells more than the user's others.
        """
        job = self.jobs[slot]
        told = self._running_alike.get(Origin(job.user, job.program, job.type))
        if told is None or self.cycle.queue.history.knows(job.user, job.program, job.type):
            return float(self.expected[slot])
        return min(told, job.limit_seconds or math.inf)

    def planned_seconds(self, slot: int) -> float:
        """Return for how long a waiting job is in the way of others.

        Some fail and some are cancelled before their end, nobody knows which.
        """
        share = self.cycle.queue.history.spent_share(self.jobs[slot].type)
        return self.run_seconds(slot) * share

    @cached_property
    def _running_alike(self) -> Mapping[Origin, float]:
        """How long the jobs that run will have run, by origin, where their steps tell."""
        found: dict[Origin, list[float]] = {}
        for grant in self.snapshot.grants:
            if grant.program and grant.started_seconds is not None and grant.has_steps:
                seconds = self.snapshot.end_expected(grant) - grant.started_seconds
                origin = Origin(grant.account.user, grant.program, grant.type)
                found.setdefault(origin, []).append(seconds)
        return {origin: sum(each) / len(each) for origin, each in found.items()}

    def at(self, now_seconds: float, find_progress: FindProgress) -> "WaitingJobs":
        """Return the same jobs behind the running jobs as far as these are at a time.

        Args:
            now_seconds: The time, on the snapshot's scale; one before the cycle is taken as that.
            find_progress: Returns how far a running job is.
        """
        later, snapshot = copy.copy(self), self.snapshot
        later.__dict__.pop("grants", None)
        later.__dict__.pop("_running_alike", None)
        later.snapshot = replace(
            snapshot,
            now_seconds=max(now_seconds, snapshot.now_seconds),
            grants=tuple(_with(find_progress(grant.job), grant) for grant in snapshot.grants),
        )
        return later

    @cached_property
    def grants(self) -> Mapping[JobId, Grant]:
        """What each running job holds."""
        return {grant.job: grant for grant in self.snapshot.grants}

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Slots of waiting jobs in the order of service."""
        waiting = np.flatnonzero(self.cycle.is_open)
        order: NDArray[np.int64] = waiting[self.cycle.key[waiting].argsort()]
        return order

    @property
    def running(self) -> tuple[Grant, ...]:
        """Grants of running jobs and of those that this cycle admitted."""
        return self.snapshot.grants


def _grants_after(cycle: CycleState) -> Iterator[Grant]:
    """Yield what jobs hold once a cycle's decisions are carried out."""
    victims = {d.job for d in cycle.decisions if isinstance(d, Preempt)}
    for grant in cycle.snapshot.grants:
        yield replace(grant, is_ending=True) if grant.job in victims else grant
    yield from (d.grant for d in cycle.decisions if isinstance(d, Admit))


def _with(found: tuple[RunProgress | None, CompletedSessions | None], grant: Grant) -> Grant:
    progress, completed = found
    if (progress, completed) == (grant.progress, grant.completed):
        return grant
    return replace(grant, progress=progress, completed=completed)


class ExpectedStarts:
    """Expected start times, computed when they are asked for; for one thread at a time.

    Args:
        waiting: The jobs that wait after a cycle.
    """

    def __init__(self, waiting: WaitingJobs) -> None:
        self._waiting = waiting

    def find(self, slot: int) -> ExpectedStart | None:
        """Return when the job of a slot is expected to start; None when that cannot be said."""
        job = self._waiting.jobs[slot]
        if not self._waiting.cycle.may_start[slot] or job.id in self._waiting.cycle.stuck:
            return None
        planned = self._planned.get(slot)
        promise = self._waiting.promises.get(job.id)
        if promise is not None and self._rests_on_a_guess(promise):
            promise = None
        if promise is not None:
            at, last = self._kept(promise)
            is_sure = last is None or last.has_time_limit or last.is_ending
            is_planned = planned is not None and not self._waiting.cycle.frame.windows
            if planned is None or not is_planned or (is_sure and planned[0] >= at):
                basis = self._basis(last, is_bound=True)
                return ExpectedStart(at_seconds=at, basis=basis, is_promised=is_sure)
        if planned is not None:
            return ExpectedStart(
                at_seconds=planned[0], basis=self._basis_of_plan(planned[1]), is_promised=False
            )
        if not self._waiting.cycle.can_ever[slot] or not job.num_systems or self._is_retained(slot):
            return None
        num_systems = max(self._waiting.cycle.frame.placeable_systems.bit_count(), 1)
        wait = float(self._work_ahead[slot]) / num_systems
        return ExpectedStart(
            at_seconds=self._waiting.snapshot.now_seconds + wait,
            basis="work of all jobs ahead, spread over all systems",
            is_promised=False,
        )

    def _kept(self, promise: Promise) -> tuple[float, Grant | None]:
        """Return when a promise is kept, and by whose end: later if they have outlived it."""
        snapshot, last = self._waiting.snapshot, promise.last
        if last is not None:
            last = self._waiting.grants[last.job]
        if promise.start_seconds > snapshot.now_seconds:
            return promise.start_seconds, last
        at = snapshot.now_seconds if last is None else snapshot.end_bound(last)
        return max(at, snapshot.now_seconds), last

    def _rests_on_a_guess(self, promise: Promise) -> bool:
        """Whether a promised place has to be given up by a workflow, nobody knows when."""
        mine = promise.placement
        return any(
            ending.is_open
            and (ending.held.systems & mine.systems or ending.held.groups & mine.groups)
            for ending in self._waiting.cycle.endings
        )

    def _is_retained(self, slot: int) -> bool:
        """Whether a job needs what workflows retain, even if all that runs had ended."""
        cycle = self._waiting.cycle
        available = cycle.free.copy()
        for ending in cycle.endings:
            if not ending.is_open:
                available.give(ending.held)
        columns = available.columns()[self._waiting.used]
        return bool((self._waiting.demand[:, slot] > columns).any())

    @cached_property
    def _work_ahead(self) -> NDArray[np.float64]:
        """For each slot, system-seconds that are expected of running jobs and of those before."""
        num_systems = self._waiting.demand[self._waiting.used.index(SYSTEMS)]
        share = self._waiting.cycle.queue.history.spent_share(JobType.EXECUTE)
        seconds = np.minimum(self._waiting.expected, 1e12) * share
        work = num_systems * seconds * ~self._waiting.is_held
        ahead = np.zeros(len(self._waiting.jobs))
        ahead[self._waiting.order] = (
            np.cumsum(work[self._waiting.order]) - work[self._waiting.order]
        )
        snapshot = self._waiting.snapshot
        left = sum(
            grant.num_systems * (snapshot.end_expected(grant) - snapshot.now_seconds)
            for grant in self._waiting.running
        )
        return ahead + left

    @cached_property
    def _planned(self) -> dict[int, tuple[float, str]]:
        """For the first jobs in order, when they start and what that waits for."""
        cycle = self._waiting.cycle
        snapshot = self._waiting.snapshot
        now = snapshot.now_seconds
        free = cycle.free.copy()
        away = free.systems & cycle.frame.away(now, now + 1.0)
        free.systems &= ~away
        profile = Profile(free.columns()[self._waiting.used], now)
        for bit, _, end in cycle.frame.windows:
            back = cycle.frame.columns_of(Placement(systems=bit & away))
            profile.give(end, back[self._waiting.used], "")
        for ending in cycle.endings:
            if ending.is_open:
                continue
            at = ending.at_seconds
            if ending.grant is not None:
                at = snapshot.end_expected(self._waiting.grants[ending.grant.job])
            given = cycle.frame.columns_of(ending.held)
            profile.give(at, given[self._waiting.used], ending.job)
        planned: dict[int, tuple[float, str]] = {}
        for slot in self._waiting.order[: snapshot.policy.plan_depth].tolist():
            if not cycle.may_start[slot]:
                continue
            found = profile.reserve(
                self._waiting.jobs[slot].id,
                self._waiting.demand[:, slot],
                self._waiting.planned_seconds(slot),
            )
            if found is not None:
                planned[slot] = found
        return planned

    def _basis_of_plan(self, name: str) -> str:
        if (grant := self._waiting.grants.get(JobId(name))) is not None:
            return self._basis(grant)
        return f"end of {name}, which waits too" if name else "free by then"

    def _basis(self, grant: Grant | None, *, is_bound: bool = False) -> str:
        if grant is None:
            return "end of a reservation or of maintenance"
        if grant.is_ending:
            return f"end of {grant.job}, which is being stopped"
        snapshot = self._waiting.snapshot
        end, basis = snapshot.end_bound(grant), Basis.LIMIT
        if not (is_bound and grant.has_time_limit):
            end, basis = snapshot.expected_end(grant)
        words = _details(grant, end, basis, snapshot.now_seconds)
        return f"end of {grant.job}, by {basis.value}{words}"


def _details(grant: Grant, end_seconds: float, basis: Basis, now_seconds: float) -> str:
    """Return what the basis of an expected end says of the job, to be put behind the basis."""
    if basis is Basis.DEFAULT:
        return ": no time limit, and no earlier run of its user"
    if (last_step := grant.last_step_seconds) is None:
        return ""
    rest = duration(max(round(end_seconds - last_step), 1))
    if basis is Basis.STEPS and grant.progress is not None:
        return f": {grant.progress.in_words(now_seconds)}, and {rest} until it ends"
    if basis is Basis.SESSIONS and grant.completed is not None:
        limit = "" if grant.has_time_limit else "; it has no time limit"
        return f": {grant.completed.count:,} complete, and {rest} from the last to its end{limit}"
    return ""
