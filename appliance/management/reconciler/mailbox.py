"""Where all other parts post events and requests to the reconciler.

Nothing is done here: each call puts an item into the inbox, from any thread, and the reconciler's
own thread takes it out. Calls that return only after a commit say so.
"""

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from appliance.core.cluster.records import JobRecord
from appliance.core.ids import JobId, PodName, WorkflowId
from appliance.management.changes.watch import Awaited
from appliance.management.reconciler import inbox
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.live_jobs import wait_until_committed
from appliance.management.reconciler.scheduling.dispatcher import Published
from appliance.management.reconciler.scheduling.run_progress import ProgressBook
from appliance.scheduler.admission import Admit, Reject
from appliance.scheduler.queue import PendingJob
from appliance.scheduler.waiting.wait_reasons import Wait


class Mailbox:
    """The inbox, and the ways into it.

    Attributes:
        inbox: What waits for the reconciler.
        progress: How far running jobs are.
        published: What the last scheduling cycle saw and found; replaced as a whole after each.
        pod_waits: Why pods that were launched do not run yet, by job; the reconciler's to change.
    """

    def __init__(self) -> None:
        self.published = Published()
        self.pod_waits: dict[JobId, str] = {}
        self.progress = ProgressBook()
        self.inbox: queue.SimpleQueue[inbox.Item] = queue.SimpleQueue()

    def pods_launched(self, job: JobId, pids: dict[PodName, int]) -> None:
        """Report that all pods of a job were started."""
        self.inbox.put(inbox.PodsLaunched(job=job, pids=pids))

    def submit(self, job: JobRecord) -> None:
        """Put a new job, which is already committed, into the queue."""
        self.inbox.put(inbox.Submitted(record=job))

    def take_in(self, job: JobId, store: Callable[[], JobRecord], committed: Awaited) -> None:
        """Commit a new job and queue it, in one transaction with the rest of the turn.

        Args:
            job: Its id.
            store: Writes it down; called in the reconciler's thread.
            committed: Resolved with the stored record after the commit.
        """
        self.inbox.put(inbox.Arrived(job=job, store=store, committed=committed))

    def take_in_together(
        self, store: Callable[[], Sequence[JobRecord]], committed: Awaited
    ) -> None:
        """Commit several new jobs and queue them, all or none; see `take_in`."""
        self.inbox.put(inbox.ArrivedTogether(store=store, committed=committed))

    def write(self, write: Callable[[], None], committed: Awaited) -> None:
        """Write something down in one transaction with what else happens."""
        self.inbox.put(inbox.Write(write=write, committed=committed))

    def register(self, job: JobId, address: str, committed: Awaited | None = None) -> None:
        """Take note that a job's coordinator listens, and where."""
        self.inbox.put(inbox.Registered(job=job, address=address, committed=committed))

    def post(self, job: JobId, event: machine.Event) -> None:
        """Post an event of a job."""
        self.inbox.put(inbox.Happened(job=job, event=event))

    def post_and_wait(self, job: JobId, event: machine.Event) -> None:
        """Post an event of a job, and return once its consequences are committed.

        Raises:
            ClusterError: That takes too long; it may yet be committed.
        """
        committed: Future[None] = Future()
        self.inbox.put(inbox.Happened(job=job, event=event, committed=committed))
        wait_until_committed(
            committed, f"What happened to job {job} was not committed", hint="Tell of it again."
        )

    def reprioritise(self, job: JobId, priority: int) -> None:
        """Serve a job by another priority, which is already committed."""
        self.inbox.put(inbox.Reprioritised(job=job, priority=priority))

    def request_compile(self, job: JobId, *, num_systems: int, is_cached: bool) -> None:
        """Queue a compile job for what compiling takes, unless its program is in the cache."""
        self.inbox.put(inbox.WantsCompile(job=job, num_systems=num_systems, is_cached=is_cached))

    def hold_back(self, job: JobId, by: str, *, stops: bool = False, why: str = "") -> None:
        """Hold a waiting job in somebody's name; an empty name releases it.

        Args:
            job: The job.
            by: Who holds it.
            stops: Whether a job that runs is stopped and queued again; else it is refused.
            why: Why, for the users of a job that is stopped.

        Raises:
            ConflictError: It runs, and is not to be stopped; or it has ended.
        """
        committed: Future[None] = Future()
        held = inbox.HeldBack(job=job, by=by, committed=committed, stops=stops, why=why)
        self.inbox.put(held)
        wait_until_committed(
            committed,
            f"The hold of job {job} was not changed",
            hint="Look at the job, and try again.",
        )

    def would_start(self, job: PendingJob) -> "Future[Admit | Reject | Wait]":
        """Ask what would become of a job if it were submitted now; nothing is changed."""
        question = inbox.Question(job=job, answer=Future())
        self.inbox.put(question)
        return question.answer

    def hold(self, workflow: WorkflowId) -> None:
        """Let a workflow retain what its jobs get; its request is already committed."""
        self.inbox.put(inbox.Holds(workflow=workflow))

    def release(self, workflow: WorkflowId) -> None:
        """Release what a workflow retains; its request is already committed."""
        self.inbox.put(inbox.Releases(workflow=workflow))

    def stop_admissions(self, reason: str) -> None:
        """Stop admissions for a reason that waiting users are shown; without one resume them."""
        self.inbox.put(inbox.Stops(reason=reason))

    def reschedule(self) -> None:
        """Run a scheduling cycle, since the cluster or a quota has changed."""
        self.inbox.put(inbox.Wake())
