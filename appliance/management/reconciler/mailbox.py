"""Where all other parts post messages to the reconciler, and read what it found; the messages.

Nothing is done here: a message, each of its own type, is put into the inbox, from any thread, and
the reconciler's own thread takes it out. Three calls wait for what comes of theirs.
"""

import contextlib
import math
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

from appliance.cluster.launcher import Exit, LauncherLost, LauncherTaken
from appliance.core.cluster.records import JobRecord
from appliance.core.errors import ClusterError
from appliance.core.ids import JobId, PodName, WorkflowId
from appliance.management.changes.watch import Awaited
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.scheduling.dispatcher import Published
from appliance.management.reconciler.scheduling.run_progress import ProgressBook
from appliance.scheduler.admission import Admit, Reject
from appliance.scheduler.queue import PendingJob
from appliance.scheduler.waiting.wait_reasons import Wait, Waits

_COMMIT_SECONDS = 10.0

Committed = TypeVar("Committed")


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


class Mailbox:
    """The inbox, and what the reconciler shows to all threads.

    Attributes:
        inbox: Messages that wait for the reconciler.
        progress: How far running jobs are.
        published: What the last scheduling cycle saw and found; replaced as a whole after each.
        pod_waits: Why pods that were launched do not run yet, by job; the reconciler's to change.
    """

    def __init__(self) -> None:
        self.published = Published()
        self.pod_waits: dict[JobId, str] = {}
        self.progress = ProgressBook()
        self._seen: tuple[Published, int, Waits | None] = (self.published, 0, None)
        self.inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def post(self, message: Message) -> None:
        """Post a message; who wants to know what came of it adds a future to it."""
        self.inbox.put(message)

    def waits_at(self, now_seconds: float) -> Waits | None:
        """Return why jobs wait after the last cycle, with what is expected as of now.

        Everybody who asks within one second, of any interface, gets the same times, none of which
        has passed before that second has.

        Args:
            now_seconds: The time, since the epoch.

        Returns:
            The waiting jobs; None if the queue was empty.
        """
        published, second = self.published, math.floor(now_seconds) + 1
        if self._seen[0] is not published or self._seen[1] != second:
            waits = published.waits
            later = None if waits is None else waits.at(second, self.progress.sessions)
            self._seen = published, second, later
            return later
        return self._seen[2]

    def post_and_wait(self, job: JobId, event: machine.Event) -> None:
        """Post an event of a job, and return once its consequences are committed.

        Raises:
            ClusterError: That takes too long; it may yet be committed.
        """
        committed: Future[None] = Future()
        self.post(Happened(job=job, event=event, committed=committed))
        wait_until_committed(
            committed, f"What happened to job {job} was not committed", hint="Tell of it again."
        )

    def hold_back(self, job: JobId, by: str, *, stops: bool = False, why: str = "") -> None:
        """Hold a waiting job in somebody's name; an empty name releases it.

        Args:
            by: Who holds it.
            stops: Whether a job that runs is stopped and queued again; else it is refused.
            why: Why, for the users of a job that is stopped.

        Raises:
            ConflictError: It runs, and is not to be stopped; or it has ended.
        """
        committed: Future[None] = Future()
        self.post(HeldBack(job=job, by=by, committed=committed, stops=stops, why=why))
        wait_until_committed(
            committed,
            f"The hold of job {job} was not changed",
            hint="Look at the job, and try again.",
        )

    def requeue(self, job: JobId, by: str) -> None:
        """Stop a job that runs, in somebody's name, and queue it again.

        Raises:
            ConflictError: It does not run.
        """
        committed: Future[None] = Future()
        self.post(Requeued(job=job, by=by, committed=committed))
        wait_until_committed(
            committed, f"Job {job} was not queued again", hint="Look at the job, and try again."
        )

    def would_start(self, job: PendingJob) -> "Future[Admit | Reject | Wait]":
        """Ask what would become of a job if it were submitted now; nothing is changed."""
        question = Question(job=job, answer=Future())
        self.post(question)
        return question.answer


def wait_until_committed(committed: "Future[Committed]", sentence: str, *, hint: str) -> Committed:
    """Wait for a commit; raises `ClusterError` with a sentence after ten seconds."""
    try:
        return committed.result(timeout=_COMMIT_SECONDS)
    except TimeoutError as error:
        raise ClusterError(f"{sentence} within {_COMMIT_SECONDS:g} seconds.", hint=hint) from error
