"""Whether a process that does not answer is dead, or frozen and may continue.

Silence alone does not tell. A process that was stopped (SIGSTOP, a debugger), that waits for its
memory to be swapped in, or that gets no processor time is silent for minutes and then continues;
one that has ended never does. The kernel knows which it is, so whoever misses an answer looks up
the process before giving it up. A process on another node cannot be looked up, so only the length
of its silence counts.

Pure: observations come as values, see `appliance.pods.process_state`.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from appliance.core.clock import Clock

DEFAULT_STALL_SECONDS = 630.0
"""How long a job may not move before it fails; what the real cluster gives it."""

AWAKE_SECONDS = 30.0
"""Silence after which a process that could answer is given up, and one on another node, which may
be cut off for a while as a stream may."""

NOTICE_SECONDS = 5.0
"""Silence after which people are told; a loaded machine delays heartbeats by seconds."""

_FROZEN_SHARE = 0.8
"""Of the stall limit: a frozen pod is to be named before those that wait for what it makes."""

_STARVED_SHARE = 0.05
"""Processor time, as a share of real time, below which a runnable process is starved of it."""

_WATCHED_SECONDS = 2.0
"""How long a process is watched before its processor time says anything."""


class Activity(StrEnum):
    """What a process does, as the kernel sees it."""

    GONE = "gone"
    STOPPED = "stopped"
    BLOCKED = "blocked"
    STARVED = "starved"
    AWAKE = "awake"
    UNKNOWN = "unknown"

    @property
    def is_frozen(self) -> bool:
        """Whether the process cannot answer, and will once it may go on."""
        return self in (Activity.STOPPED, Activity.BLOCKED, Activity.STARVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLook:
    """A look at a process.

    Attributes:
        states: State letters of its threads (proc(5), `stat`); none if there is no such process.
        cpu_seconds: Processor time that it has used so far.
    """

    states: Collection[str]
    cpu_seconds: float = 0.0


def activity_of(look: ProcessLook, first: ProcessLook, *, watched_seconds: float) -> Activity:
    """Return what a silent process does.

    Args:
        look: The process now.
        first: The process when its silence was first looked into.
        watched_seconds: Time between the two.
    """
    states = set(look.states)
    if not states - set("ZXx"):
        return Activity.GONE
    if states & set("Tt"):
        return Activity.STOPPED
    if "D" in states:
        return Activity.BLOCKED
    used_seconds = look.cpu_seconds - first.cpu_seconds
    is_starved = used_seconds < _STARVED_SHARE * watched_seconds
    if "R" in states and watched_seconds >= _WATCHED_SECONDS and is_starved:
        return Activity.STARVED
    return Activity.AWAKE


def patience_seconds(activity: Activity, *, stall_seconds: float) -> float:
    """Return how long a silence may last."""
    match activity:
        case Activity.GONE:
            return 0.0
        case Activity.STOPPED | Activity.BLOCKED | Activity.STARVED:
            return max(_FROZEN_SHARE * stall_seconds, NOTICE_SECONDS)
        case Activity.AWAKE | Activity.UNKNOWN:
            return AWAKE_SECONDS


_REFUSED_CALLS = 3
"""Calls in a row that nobody takes, after which nobody is believed to be there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """What a pod knows of a coordinator that does not answer.

    Attributes:
        seconds: How long it has not.
        num_refused: Calls in a row that were not even taken.
        activity: What its process does.
        is_far: Whether it is on another node, where it may be cut off for a while.
    """

    seconds: float
    num_refused: int
    activity: Activity
    is_far: bool

    def is_too_long(self, *, stall_seconds: float) -> bool:
        """Whether the coordinator is given up."""
        is_refused = self.num_refused >= _REFUSED_CALLS
        if is_refused and not self.is_far and self.activity is Activity.UNKNOWN:
            return True
        return self.seconds > patience_seconds(self.activity, stall_seconds=stall_seconds)


def describe(activity: Activity, pid: int) -> str:
    """Return what ails a silent process, as the end of a sentence; empty if that is not known."""
    match activity:
        case Activity.STOPPED:
            return f"its process {pid} was stopped by a signal; `kill -CONT {pid}` lets it go on"
        case Activity.BLOCKED:
            return f"its process {pid} waits for the disk or for memory that was swapped out"
        case Activity.STARVED:
            return f"its process {pid} gets no processor time"
        case Activity.AWAKE:
            return f"its process {pid} runs, and does not answer"
        case Activity.GONE:
            return f"its process {pid} has ended"
        case Activity.UNKNOWN:
            return ""


class ListenedTime:
    """The time during which this process could hear others.

    While it is frozen itself nobody's word arrives, so that time counts for nobody's silence.

    Args:
        most_seconds: Longest time between two ticks of a process that is not frozen.
    """

    def __init__(self, clock: Clock, *, most_seconds: float) -> None:
        self._clock, self._most_seconds = clock, most_seconds
        self._last = clock.monotonic_seconds()
        self.seconds = 0.0

    def tick(self) -> float:
        """Take note that this process runs; return the seconds listened so far."""
        now = self._clock.monotonic_seconds()
        self.seconds += min(now - self._last, self._most_seconds)
        self._last = now
        return self.seconds
