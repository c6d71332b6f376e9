"""How fast a session makes its steps, and the summary of its times at its end.

Time and reports come as arguments.
"""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from appliance.core import quantities
from appliance.core.clock import Clock
from appliance.core.cluster import readings
from appliance.core.cluster.run import RunSchedule
from appliance.core.ids import Role
from appliance.core.plans.plan import Execution
from appliance.core.sparsity.masked_weights import MaskedWeights
from appliance.wire.job_times import report_of
from protos.wsc.v1.management_pb2 import JobEventReport, PodReport, RunSessionReport

WINDOW_SECONDS = 60.0
"""Steps that were complete before tell nothing of the present pace."""


class Pace:
    """Wall time of a step, lately."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, step: int, now_seconds: float) -> None:
        """Note how many steps are complete.

        The first step is never timed, since what it waits for (buffers, machine code) is not what
        the others take.

        Args:
            step: Steps that are complete.
            now_seconds: The time, on a clock that never goes back.
        """
        if step <= 0 or (self._seen and step <= self._seen[-1][1]):
            return
        self._seen.append((now_seconds, step))
        while len(self._seen) > 2 and self._seen[1][0] < now_seconds - WINDOW_SECONDS:
            self._seen.popleft()

    def step_seconds(self, now_seconds: float) -> float | None:
        """Return the wall time of a step; None before two looks have found steps complete.

        While the next step takes longer than the mean, the time grows with it.
        """
        if len(self._seen) < 2:
            return None
        (begun, first), (seen, last) = self._seen[0], self._seen[-1]
        mean = (seen - begun) / (last - first)
        return max(mean, (now_seconds - begun) / (last - first + 1))


class BatchPace:
    """Wall time in which input workers bring a batch for each step, by their own times.

    The first steps of a session find batches that were loaded while the rest of the job got ready.
    How fast they pass tells nothing of those that follow.
    """

    def __init__(self) -> None:
        self._first: dict[int, PodReport] = {}

    def remaining_seconds(self, reports: Sequence[PodReport], num_steps: int) -> float:
        """Return in what time the batches of all steps will be there; 0 while none is timed.

        Args:
            reports: The present session's, of all pods.
            num_steps: Steps of the session.
        """
        workers = [report for report in reports if report.role == Role.WORKER.value]
        systems = [report for report in reports if report.role == Role.ACTIVATION.value]
        if not workers or not systems:
            return 0.0
        slowest = max(map(self._batch_seconds, workers))
        missing = num_steps - min(report.step for report in systems)
        return max(missing, 0) * slowest * len(systems) / len(workers)

    def _batch_seconds(self, worker: PodReport) -> float:
        """Return what a worker takes for a batch, those of the first look aside if others followed.

        The first batch alone is not timed: the dataloader was imported and begun for it.
        """
        if worker.step < 2:
            return 0.0
        first = self._first.setdefault(worker.index, worker)
        num_batches, seconds = worker.step, worker.readings.get(readings.BATCH_LOADING, 0.0)
        if num_batches > first.step:
            num_batches -= first.step
            seconds -= first.readings.get(readings.BATCH_LOADING, 0.0)
        return seconds / num_batches


class Reporting(Protocol):
    """The latest readings of a job's pods."""

    def completed_steps(self, session: int) -> int:
        """Return how many steps of a session every system is known to have completed."""
        ...

    def reports(self, session: int | None = None) -> Sequence[PodReport]:
        """Return the last report of each pod; with a session, of those at work on it."""
        ...


class SessionProgress:
    """How far a session is, for management; its steps have begun.

    Args:
        session: Its number.
        schedule: Its steps.
        is_training: Whether it changes the weights.
        clock: Times the steps.
        masked_weights: What its masks let through; None if the program masks no weight. May be set
            anew when the program has changed masks.
    """

    def __init__(
        self,
        session: int,
        schedule: RunSchedule,
        *,
        is_training: bool,
        clock: Clock,
        masked_weights: MaskedWeights | None = None,
    ) -> None:
        self._session, self._schedule = session, schedule
        self._is_training, self._clock = is_training, clock
        self._pace, self._batch_pace = Pace(), BatchPace()
        self.masked_weights = masked_weights

    def report(self, pods: Reporting, *, is_over: bool = False) -> RunSessionReport:
        """Return how far it is by the pods' reports."""
        now = self._clock.monotonic_seconds()
        completed = pods.completed_steps(self._session)
        self._pace.note(completed, now)
        seconds = self._step_seconds(pods.reports(self._session), completed, now) or 0.0
        return RunSessionReport(
            session=self._session,
            num_steps=self._schedule.num_steps,
            completed_steps=completed,
            step_seconds=seconds,
            is_training=self._is_training,
            is_over=is_over,
            masked_weights=None if self.masked_weights is None else report_of(self.masked_weights),
        )

    def _step_seconds(
        self, reports: Sequence[PodReport], completed: int, now_seconds: float
    ) -> float | None:
        """Return the wall time of each step to come; None or 0 before one is complete."""
        for_batches = self._batch_pace.remaining_seconds(reports, self._schedule.num_steps)
        seconds = self._pace.step_seconds(now_seconds)
        if seconds is None and completed:
            seconds = _last_step_seconds(reports)
        num_left = self._schedule.num_steps - completed
        if not seconds or num_left <= 0:
            return seconds
        return max(seconds, for_batches / num_left)


def completed_steps(reports: Sequence[PodReport]) -> int:
    """Return the steps of a session that every system has completed."""
    return min((report.step for report in reports if report.role == Role.CHIEF.value), default=0)


def mask_changes(reports: Sequence[PodReport]) -> int:
    """Return how many masks MemoryX has seen the program change in the present session."""
    return sum(
        int(report.readings.get(readings.MEMORYX_MASK_CHANGES, 0.0))
        for report in reports
        if report.role == Role.WEIGHT.value
    )


def _last_step_seconds(reports: Sequence[PodReport]) -> float:
    """Return the wall time of the last step on the slowest system; 0 if none says."""
    return max((report.readings.get(readings.WALL_STEP, 0.0) for report in reports), default=0.0)


def session_event(session: int, reports: Sequence[PodReport]) -> JobEventReport | None:
    """Return the event that a session's end is; None if no system has completed a step.

    Args:
        session: Its number.
        reports: Of all pods, with the last readings of the session.
    """
    systems = [
        report
        for report in reports
        if report.role == Role.CHIEF.value and readings.SIMULATED_STEP in report.readings
    ]
    num_steps = completed_steps(systems)
    if not num_steps:
        return None

    def longest(reading: str) -> float:
        return max(report.readings.get(reading, 0.0) for report in systems)

    rate = sum(report.readings[readings.SIMULATED_RATE] for report in systems)
    utilization = sum(report.readings[readings.SIMULATED_UTILIZATION] for report in systems)
    is_pipelined = longest(readings.RESIDENT_WEIGHTS) > 0
    return JobEventReport(
        reason="SessionTimed",
        message=(
            f"Session {session}: simulated wafer time "
            f"{quantities.duration(longest(readings.SIMULATED_TOTAL))} "
            f"for {num_steps} steps on {len(systems)} system(s), "
            f"{Execution.PIPELINED if is_pipelined else Execution.WEIGHT_STREAMING}, "
            f"{quantities.figure(rate)} simulated samples/s, "
            f"{quantities.percent(utilization / len(systems))} simulated utilisation; wall time "
            f"{quantities.duration(longest(readings.WALL_TOTAL))}."
        ),
    )
