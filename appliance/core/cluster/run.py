"""A session of an execute job: its steps, what they produce, and how far it is."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from appliance.core import quantities
from appliance.core.ids import PodName
from appliance.core.sparsity.masked_weights import MaskedWeights


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedStep:
    """What one system does in a step of a real wafer.

    Attributes:
        seconds: The step, of all systems together.
        utilization: Multiply-adds of this system over those possible.
        weight_bytes: Weights that stream in.
        gradient_bytes: Gradients that stream out.
    """

    seconds: float
    utilization: float
    weight_bytes: float
    gradient_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSchedule:
    """The steps of one session, numbered from 0.

    Attributes:
        num_steps: Steps to run.
        output_interval: Outputs are kept at every step whose 1-based number is a multiple of this,
            and at the last step; 0 keeps none but the last step's.
        checkpoint_steps: 1-based numbers of the steps after which the state is kept for fetching.
        first_step: Training steps before the session's first one; random operations draw for
            `first_step` plus the session's step.
        simulated: What a step takes on the system that is told, of a program with sparse weights;
            None: as the system finds from the plan.
    """

    num_steps: int
    output_interval: int
    checkpoint_steps: frozenset[int]
    first_step: int = 0
    simulated: SimulatedStep | None = None

    def keeps_outputs(self, step: int) -> bool:
        """Whether the outputs of a step (0-based) are stored for the client."""
        number = step + 1
        if number == self.num_steps:
            return True
        return self.output_interval > 0 and number % self.output_interval == 0

    def keeps_state(self, step: int) -> bool:
        """Whether the state after a step (0-based) is stored for the client."""
        return step + 1 in self.checkpoint_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """How far a session was when it was last heard of.

    Attributes:
        session: Its number, from 1.
        num_steps: Steps to run.
        step_seconds: Wall time of a step, lately; 0 while that is not known.
        at_seconds: When that was, in seconds since the epoch.
    """

    session: int
    num_steps: int
    completed_steps: int
    step_seconds: float
    at_seconds: float

    @property
    def end_seconds(self) -> float | None:
        """When the last step will be complete, since the epoch; None while that is not known."""
        left = max(self.num_steps - self.completed_steps, 0)
        if left and not self.step_seconds:
            return None
        return self.at_seconds + left * self.step_seconds

    def remaining_seconds(self, now_seconds: float) -> float | None:
        """Return the time until the last step is complete; None while that is not known."""
        end = self.end_seconds
        return None if end is None else max(end - now_seconds, 0.0)

    def in_words(self, now_seconds: float) -> str:
        """Return, for people, `step 375 of 600, 2 min to go`."""
        return quantities.progress_words(
            self.completed_steps, self.num_steps, self.remaining_seconds(now_seconds)
        )


MOST_ENDS = 256
"""Ends of so many sessions of a job are kept; those of later evaluations foretell nothing more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedSessions:
    """The sessions that a running job has completed.

    Attributes:
        count: How many.
        longest_seconds: Wall time of the longest.
        last_end_seconds: When the last step of the last one was complete, since the epoch.
        ends_seconds: The same of each, of the first `MOST_ENDS`.
    """

    count: int
    longest_seconds: float
    last_end_seconds: float
    ends_seconds: tuple[float, ...]

    def after(self, end_seconds: float) -> "Aftermath":
        """Return how long a job that has ended went on after its sessions."""
        return Aftermath(
            rests_seconds=tuple(max(end_seconds - end, 0.0) for end in self.ends_seconds),
            tail_seconds=max(end_seconds - self.last_end_seconds, 0.0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Aftermath:
    """How long a job goes on after the last step of its sessions.

    Attributes:
        rests_seconds: After the first, the second, and so on.
        tail_seconds: After the last: its client takes what is left, and ends.
    """

    rests_seconds: tuple[float, ...] = ()
    tail_seconds: float

    def after(self, session: int) -> float:
        """Return how long it goes on after a session, numbered from 1."""
        known = 0 < session <= len(self.rests_seconds)
        return self.rests_seconds[session - 1] if known else self.tail_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PodReadings:
    """What a pod last reported of a session.

    Attributes:
        step: Steps that it completed.
        resident_bytes: Memory that it had.
        readings: Its readings by metric name.
    """

    step: int = 0
    resident_bytes: int = 0
    readings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSession:
    """A session as stored.

    Attributes:
        number: From 1, in the order in which the job ran them.
        is_training: Whether it changes the weights; else it evaluates.
        num_steps: Steps to run.
        step_seconds: Wall time of a step, lately; 0 while that is not known.
        started_at: When it was first heard of.
        ended_at: When it was over; None while it runs, or if its job ended before it.
        pods: The pods' last readings of it; empty before its end.
        masked_weights: What its masks let through; None if the program masks no weight.
    """

    number: int
    is_training: bool
    num_steps: int
    completed_steps: int
    step_seconds: float
    started_at: dt.datetime
    ended_at: dt.datetime | None = None
    pods: Mapping[PodName, PodReadings] = field(default_factory=dict)
    masked_weights: MaskedWeights | None = None


POD_MEMORY = "pods_memory"
POD_PROCESSORS = "pods_processors"
POD_SERIES: Mapping[str, str] = {
    POD_MEMORY: "memory of its pods (GiB)",
    POD_PROCESSORS: "processors used by its pods",
}
"""Series of what a job's pods use, with their titles; no outputs of its program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One value of one series of a job.

    Attributes:
        name: Name of the series, as in `output_loss` or `samples_per_second`.
        session: Which of the job's runs it belongs to, from 1.
        step: The step, 1-based within the session.
        value: The value; None where it was no finite number.
        at: When it was computed.
    """

    name: str
    session: int
    step: int
    value: float | None
    at: dt.datetime


NOT_FINITE_EVENT = "NotFinite"
"""Reason of the event with which a coordinator warns that an output has become NaN or infinite."""


def output_words(name: str) -> str:
    """Return an output of the program in words, `loss` for the client's `output_loss`."""
    return name.removeprefix("output_").replace("_", " ") or name


def not_finite_words(since: Sequence[Point]) -> str:
    """Say which outputs are no finite numbers, and since when.

    Args:
        since: Of each such output the first point since which all are NaN or infinite.
    """
    return "; ".join(
        f"{output_words(point.name)} is NaN or infinite since step {point.step}"
        + (f" of session {point.session}" if point.session > 1 else "")
        for point in since
    )
