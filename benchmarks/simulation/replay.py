"""Replays a trace through `run_cycle` on a clock of its own: the next event is the next moment."""

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.systems import System
from appliance.core.ids import JobId
from appliance.scheduler.admission import Admit, Reject
from appliance.scheduler.cycle import run_cycle
from appliance.scheduler.fair_share import UsageLedger
from appliance.scheduler.policy import EASY, FIRST_COME, Policy
from appliance.scheduler.queue import JobQueue, PendingJob
from appliance.scheduler.run_time import Origin, RunHistory
from appliance.scheduler.snapshot import ClusterSnapshot, Grant
from benchmarks.simulation.trace import Trace, TraceJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a trace.

    Attributes:
        trace: The trace.
        start_seconds: When each job started, in the order of the trace.
        num_cycles: Scheduling cycles that were run.
        max_queued: Longest queue that was seen.
    """

    trace: Trace
    start_seconds: NDArray[np.float64]
    num_cycles: int
    max_queued: int


class Replay:
    """A simulated cluster under one policy.

    Args:
        trace: What is submitted.
        policy: By which rules it is served.
    """

    def __init__(self, trace: Trace, policy: Policy) -> None:
        self._trace = trace
        self._policy = policy
        self._systems = tuple(System(name=f"s{i}") for i in range(trace.num_systems))
        self._history = RunHistory(policy)
        self._usage = UsageLedger(policy.half_life_seconds)
        self._queue = JobQueue(history=self._history)
        self._running: dict[JobId, Grant] = {}
        self._num_free = trace.num_systems
        self._ends: list[tuple[float, int]] = []
        self._start = np.full(len(trace.jobs), np.nan)
        self._num_cycles = 0
        self._max_queued = 0

    def run(self) -> Outcome:
        """Replay the whole trace."""
        jobs = self._trace.jobs
        submitted = 0
        while submitted < len(jobs) or self._ends:
            arrival = jobs[submitted].submit_seconds if submitted < len(jobs) else np.inf
            now = min(arrival, self._ends[0][0] if self._ends else np.inf)
            while self._ends and self._ends[0][0] <= now:
                self._end(heapq.heappop(self._ends)[1], now)
            while submitted < len(jobs) and jobs[submitted].submit_seconds <= now:
                self._queue.add(_pending(jobs[submitted], submitted))
                submitted += 1
            self._max_queued = max(self._max_queued, len(self._queue))
            if self._num_free and len(self._queue):  # else nothing can start, under any policy
                self._schedule(now)
        assert not np.isnan(self._start).any(), "a job never started"
        return Outcome(
            trace=self._trace,
            start_seconds=self._start,
            num_cycles=self._num_cycles,
            max_queued=self._max_queued,
        )

    def _end(self, index: int, now: float) -> None:
        job = self._trace.jobs[index]
        grant = self._running.pop(_id(index))
        self._num_free += len(grant.systems)
        if self._policy in (FIRST_COME, EASY):  # they learn nothing
            return
        self._usage.charge(grant.account, job.num_systems * job.run_seconds, at_seconds=now)
        user, program = str(job.user), str(job.program)
        self._history.observe(user, program, JobType.EXECUTE, job.run_seconds)
        self._queue.relearn({Origin(user, program, JobType.EXECUTE)})

    def _schedule(self, now: float) -> None:
        self._num_cycles += 1
        snapshot = ClusterSnapshot(
            systems=self._systems,
            grants=tuple(self._running.values()),
            now_seconds=now,
            usage=self._usage,
            policy=self._policy,
        )
        for decision in run_cycle(snapshot, self._queue).decisions:
            match decision:
                case Admit(job=job, grant=grant):
                    self._admit(job, grant, now)
                case Reject(error=error):
                    raise error
                case _:
                    raise AssertionError(f"{decision} without preemption")

    def _admit(self, job: JobId, grant: Grant, now: float) -> None:
        pending = self._queue.remove(job)
        assert pending is not None
        index = pending.sequence
        self._running[job] = grant
        self._num_free -= len(grant.systems)
        assert self._num_free >= 0, "a system was granted twice"
        self._start[index] = now
        heapq.heappush(self._ends, (now + self._trace.jobs[index].run_seconds, index))


def _pending(job: TraceJob, index: int) -> PendingJob:
    return PendingJob(
        id=_id(index),
        type=JobType.EXECUTE,
        sequence=index,
        priority=299,
        num_systems=job.num_systems,
        session=str(job.group),
        user=str(job.user),
        program=str(job.program),
        submitted_seconds=job.submit_seconds,
        limit_seconds=job.requested_seconds,
    )


def _id(index: int) -> JobId:
    return JobId(f"wsjob-{index:06d}")
