"""The messages that are posted to the reconciler, each of its own type."""

import contextlib
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from appliance.cluster.launcher import Exit, LauncherLost, LauncherTaken
from appliance.core.cluster.records import JobRecord
from appliance.core.ids import JobId, PodName, WorkflowId
from appliance.management.changes.watch import Awaited
from appliance.management.reconciler import job_machine as machine
from appliance.scheduler.admission import Admit, Reject
from appliance.scheduler.queue import PendingJob
from appliance.scheduler.waiting.wait_reasons import Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """An event for one job; waiting callers are answered once it is committed."""

    job: JobId
    event: machine.Event
    committed: Awaited | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsLaunched:
    """All pods of a job were started; their process ids."""

    job: JobId
    pids: dict[PodName, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A coordinator's address; waiting callers are answered once it is committed."""

    job: JobId
    address: str
    committed: Awaited | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A write to storage that changes no job's phase."""

    write: Callable[[], None] = field(repr=False)
    committed: Awaited


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A new job that is not committed yet.

    Attributes:
        store: Writes it down, with all that belongs to it; returns another job, which is stored
            already, if that is the one that was wanted.
        committed: Gets the record.
    """

    job: JobId
    store: Callable[[], JobRecord] = field(repr=False)
    committed: Awaited


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivedTogether:
    """New jobs that are committed all together, or none of them.

    Attributes:
        store: Writes them down, with all that belongs to them.
        committed: Gets the records.
    """

    store: Callable[[], Sequence[JobRecord]] = field(repr=False)
    committed: Awaited


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """A new job that is already committed."""

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
    """A waiting job is held by the named user; without a user the hold is released.

    With `stops` a job that runs is stopped first and queued again; its release may come while it
    still ends.
    """

    job: JobId
    by: str
    committed: "Future[None]"
    stops: bool = False
    why: str = ""
    """Why, for the users of a job that is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeued:
    """A job that runs is stopped by the named user, and queued again."""

    job: JobId
    by: str
    committed: "Future[None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """A workflow retains what its jobs get."""

    workflow: WorkflowId


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """A workflow releases what it retains."""

    workflow: WorkflowId


@dataclass(frozen=True, slots=True, kw_only=True)
class Stops:
    """Nothing is to be started from now on, for a reason; without one jobs may start again."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wake:
    """Triggers another scheduling cycle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What would become of a job."""

    job: PendingJob
    answer: "Future[Admit | Reject | Wait]"


QueueRequest = (
    Arrived
    | ArrivedTogether
    | Submitted
    | Reprioritised
    | WantsCompile
    | HeldBack
    | Requeued
    | Holds
    | Releases
    | Stops
    | Wake
)
Message = Happened | Registered | PodsLaunched | Write | QueueRequest | Question | Exit


def awaited_of(message: Message) -> Awaited | None:
    """Return the answer that the poster of a message waits for; None if there is none."""
    match message:
        case Happened() | Registered() | Write() | Arrived() | ArrivedTogether():
            return message.committed
        case HeldBack() | Requeued():
            return message.committed
        case Question():
            return message.answer
        case _:
            return None


def job_of(message: Message) -> JobId | None:
    """Return the job that a message is about; None if it is about none, or about several."""
    match message:
        case Submitted(record=record):
            return record.id
        case ArrivedTogether() | Question() | Write() | Holds() | Releases() | Stops() | Wake():
            return None
        case LauncherLost() | LauncherTaken():
            return None
        case _:
            return message.job


def take_all(waiting: "queue.SimpleQueue[Message]") -> Sequence[Message]:
    """Take out all that waits."""
    messages: list[Message] = []
    with contextlib.suppress(queue.Empty):
        while True:
            messages.append(waiting.get_nowait())
    return messages
