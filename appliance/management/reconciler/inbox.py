"""What the reconciler is told, and by when it has to look at what."""

import contextlib
import heapq
import itertools
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum

from appliance.cluster.launcher import Exit
from appliance.core.cluster.records import JobRecord
from appliance.core.ids import JobId, PodName, WorkflowId
from appliance.management.changes.watch import Awaited
from appliance.management.reconciler import job_machine as machine
from appliance.scheduler.admission import Admit, Reject
from appliance.scheduler.explain import Wait
from appliance.scheduler.queue import PendingJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """An event for one job; whoever waits is told once it is kept."""

    job: JobId
    event: machine.Event
    is_kept: Awaited | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsLaunched:
    """All pods of a job were started; their process ids."""

    job: JobId
    pids: dict[PodName, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A job's coordinator listens, and where; whoever waits is told once that is kept."""

    job: JobId
    address: str
    is_kept: Awaited | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToKeep:
    """Something to be written that concerns nobody's phase."""

    write: Callable[[], None] = field(repr=False)
    is_kept: Awaited


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A new job that is yet to be kept.

    Attributes:
        job: Its id.
        keep: Writes it down, with all that belongs to it; returns another job, which is kept
            already, if that is the one that was wanted.
        is_kept: Gets the record.
    """

    job: JobId
    keep: Callable[[], JobRecord] = field(repr=False)
    is_kept: Awaited


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A new job, which is kept already."""

    record: JobRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Reprioritised:
    """A job has another priority."""

    job: JobId
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WantsCompile:
    """A compile job knows its program: unless that lies in the cache it wants to compile it."""

    job: JobId
    num_systems: int
    is_cached: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """A waiting job is not to start, by somebody's word; nobody's word lets it start again."""

    job: JobId
    by: str
    is_kept: "Future[None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """A workflow keeps what its jobs get."""

    workflow: WorkflowId


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """A workflow keeps nothing any more."""

    workflow: WorkflowId


@dataclass(frozen=True, slots=True, kw_only=True)
class Stops:
    """Nothing is to be started from now on, for a reason; without one jobs may start again."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake:
    """Nothing but a reason to look again at who may start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What would become of a job."""

    job: PendingJob
    answer: "Future[Admit | Reject | Wait]"


Wish = (
    Arrived | Submitted | Reprioritised | WantsCompile | HeldBack | Holds | Releases | Stops | Wake
)
Item = Happened | Registered | PodsLaunched | ToKeep | Wish | Question | Exit


def awaited_of(item: Item) -> Awaited | None:
    """Return what somebody waits for who told of something; None if nobody does."""
    match item:
        case Happened() | Registered() | ToKeep() | Arrived() | HeldBack():
            return item.is_kept
        case Question():
            return item.answer
        case _:
            return None


def take_all(waiting: "queue.SimpleQueue[Item]") -> Sequence[Item]:
    """Take out all that waits."""
    items: list[Item] = []
    with contextlib.suppress(queue.Empty):
        while True:
            items.append(waiting.get_nowait())
    return items


class Alarm(StrEnum):
    """Why a job is to be looked at again."""

    GRACE = "grace"
    LIMIT = "limit"


_ALARMS = tuple(Alarm)


class Reminders:
    """When which job is to be looked at again; one alarm of each kind for a job."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, JobId, Alarm]] = []
        self._due: dict[tuple[JobId, Alarm], int] = {}
        self._numbers = itertools.count()

    def set(self, job: JobId, alarm: Alarm, at_seconds: float) -> None:
        """Look at a job at a time, in place of the time set before."""
        number = next(self._numbers)
        self._due[job, alarm] = number
        heapq.heappush(self._heap, (at_seconds, number, job, alarm))

    def clear(self, job: JobId, *alarms: Alarm) -> None:
        """Forget a job's alarms of some kinds; of all kinds if none is named."""
        for alarm in alarms or _ALARMS:
            self._due.pop((job, alarm), None)

    def next_seconds(self) -> float | None:
        """Return when the next alarm is due; None if there is none."""
        while self._heap and self._due.get(self._heap[0][2:]) != self._heap[0][1]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_seconds: float) -> list[tuple[JobId, Alarm]]:
        """Return and forget the alarms that are due, in order."""
        due = []
        while (at := self.next_seconds()) is not None and at <= now_seconds:
            _, _, job, alarm = heapq.heappop(self._heap)
            del self._due[job, alarm]
            due.append((job, alarm))
        return due
