"""Where all other parts post messages to the reconciler, and read what it found.

Nothing is done here: a message is put into the inbox, from any thread, and the reconciler's own
thread takes it out. Three calls wait for what comes of theirs.
"""

import math
import queue
from concurrent.futures import Future
from typing import TypeVar

from appliance.core.errors import ClusterError
from appliance.core.ids import JobId
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.messages import Happened, HeldBack, Message, Question, Requeued
from appliance.management.reconciler.scheduling.dispatcher import Published
from appliance.management.reconciler.scheduling.run_progress import ProgressBook
from appliance.scheduler.admission import Admit, Reject
from appliance.scheduler.queue import PendingJob
from appliance.scheduler.waiting.wait_reasons import Wait, Waits

_COMMIT_SECONDS = 10.0

Committed = TypeVar("Committed")


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
