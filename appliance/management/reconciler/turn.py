"""One turn of the reconciler: one transaction, and its effects after the commit.

Whatever happens within a turn registers here what is to follow: *effects* (launch, stop, notify),
answers to waiting callers, jobs that have changed. None of it happens unless the transaction is
committed. An event that fails withdraws what it has registered, and the turn's other events stay.

`Launching` has the effects that are orders to the launcher and to coordinators.
"""

import logging
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from appliance.cluster.launcher import Launcher
from appliance.core.errors import ClusterError, StaleWriterError
from appliance.core.ids import JobId
from appliance.management.changes.watch import Answer, Awaited, JobWatch
from appliance.management.pods.coordinators import Coordinators
from appliance.management.pods.per_job_executor import PerJobExecutor
from appliance.management.pods.pod_planner import PlannedPods
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler import mailbox
from appliance.management.reconciler.mailbox import Happened, Mailbox, PodsLaunched
from appliance.observability.logging import lines_together
from appliance.storage.engine.database import Database
from appliance.storage.engine.write_failures import first_of, is_of_database, refusal_of

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
"""Between two attempts to write to a database that has refused a turn."""


@dataclass(slots=True)
class _PostCommit:
    """What follows from one event after the commit: effects, and answers to callers."""

    effects: list[Callable[[], None]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)


class Turn:
    """Collects what follows from the events of one turn after the other. One thread uses it.

    Args:
        database: Where events are written.
        watch: Told of jobs that have changed, and of answers.
    """

    def __init__(self, database: Database, watch: JobWatch) -> None:
        self._database = database
        self._watch = watch
        self._present = _PostCommit()
        self._all = [self._present]
        self._changed: dict[JobId, None] = {}
        self.needs_cycle = True
        """Whether something has changed that the scheduler sees."""

    @contextmanager
    def committed(self) -> Iterator[None]:
        """Write what happens in the block as one transaction, then do what follows from it."""
        self._present, self._changed = _PostCommit(), {}
        self._all = [self._present]
        with self._database.batch(), lines_together():
            yield
        events = self._all
        answers = [answer for event in events for answer in event.answers]
        if self._changed or answers:
            self._watch.deliver(list(self._changed), answers)
        for event in events:
            _do_all(event.effects)

    def after_commit(self, effect: Callable[[], None]) -> None:
        """Do something once what led to it is committed."""
        self._present.effects.append(effect)

    def answer(self, awaited: Awaited | None, result: object = None) -> None:
        """Resolve a waiting answer with its result, after the commit."""
        if awaited is not None:
            self._present.answers.append(Answer(awaited, result))

    def refuse(self, awaited: Awaited, error: BaseException) -> None:
        """Reject a waiting answer with the reason."""
        self._present.answers.append(Answer(awaited, error=error))

    def job_changed(self, job: JobId) -> None:
        """Wake the followers of a job once the change is committed."""
        self._changed[job] = None

    def guarded(
        self,
        event: object,
        happen: Callable[[], None],
        *,
        restore: Callable[[], None],
        awaited: Awaited | None = None,
    ) -> None:
        """Let an event happen; if it fails it leaves no trace, and the rest of the turn counts.

        Args:
            event: What it is, for the log.
            happen: What it does.
            restore: Brings back what the reconciler had in memory before.
            awaited: Who waits for it, if anybody does.
        """
        outer, own = self._present, _PostCommit()

        def undo(error: Exception) -> None:
            logger.error("An event was not taken in", extra={"item": str(event)}, exc_info=error)
            own.effects.clear()
            own.answers.clear()
            restore()
            if awaited is not None:
                own.answers.append(Answer(awaited, error=error))

        self._present = own
        self._all.append(own)
        try:
            with self._database.step(undo):
                happen()
        except StaleWriterError:
            raise
        except Exception as error:
            if is_of_database(error):
                raise
            undo(error)  # one job's trouble must not undo others' events
        finally:
            self._present = outer


class Launching:
    """Launches, stops and forgets the pods of jobs, each job's orders in their order.

    Args:
        launcher: Where pods run.
        coordinators: How a coordinator is told that its job ends.
        mailbox: Told what came of a launch.
        turn: Says when what led to an order is committed.
    """

    def __init__(
        self, launcher: Launcher, coordinators: Coordinators, mailbox: Mailbox, turn: Turn
    ) -> None:
        self.launcher = launcher
        self._coordinators = coordinators
        self._mailbox = mailbox
        self._turn = turn
        self._executor = PerJobExecutor() if launcher.is_far else None

    def launch(self, job: JobId, planned: PlannedPods) -> None:
        """Launch the pods of a job that holds its grant."""
        self._order(job, lambda: self._launch(job, planned))

    def stop(self, job: JobId, is_meant: Callable[[], bool]) -> None:
        """Stop the pods of a job, if that is still meant when it is done."""
        self._order(job, lambda: self.launcher.stop(job) if is_meant() else None)

    def forget(self, job: JobId) -> None:
        """Have the launcher forget a run of a job that is over."""
        self._order(job, lambda: self.launcher.forget(job))

    def tell_coordinator(self, job: JobId, action: machine.TellCoordinator) -> None:
        """Tell a job's coordinator that the job ends, and why."""
        directory: Path = self.launcher.runtime_dir(job)
        self._turn.after_commit(
            lambda: self._coordinators.tell_end(
                job,
                directory,
                reason=action.reason,
                is_failure=action.is_failure,
                pod=action.pod,
                is_preemption=action.is_preemption,
            )
        )

    def fail(self, job: JobId, error: Exception) -> None:
        """Report that a job's pods cannot be launched."""
        failed = machine.LaunchFailed(message=f"job could not be launched: {error}")
        self._mailbox.post(Happened(job=job, event=failed))

    def close(self, *, timeout_seconds: float) -> None:
        """Drop orders that have not begun, as if management were killed; wait for the others."""
        if self._executor is not None:
            self._executor.close(timeout_seconds=timeout_seconds)

    def _order(self, job: JobId, effect: Callable[[], None]) -> None:
        """Ask something of the launcher once what led to it is committed.

        A launcher on this machine answers at once and is asked here, without a change of threads.
        """
        executor = self._executor
        if executor is None:
            self._turn.after_commit(effect)
        else:
            self._turn.after_commit(lambda: executor.submit(job, effect))

    def _launch(self, job: JobId, planned: PlannedPods) -> None:
        try:
            pids = dict(self.launcher.launch(planned.pods, planned.request))
        except (ClusterError, OSError) as error:
            self.fail(job, error)
            return
        self._mailbox.post(PodsLaunched(job=job, pids=pids))


class DatabaseOutage:
    """Waits while the database accepts no writes, and rejects callers that wait for a commit.

    What the turn that was refused did is in memory and nowhere else, and nobody was told of it. The
    pods go on, as this process holds what holds them.

    Args:
        watch: Tells the callers.
        waiting: What is posted for the reconciler.
        is_closing: Ends the wait.
    """

    def __init__(
        self,
        database: Database,
        watch: JobWatch,
        waiting: "queue.SimpleQueue[mailbox.Message]",
        is_closing: threading.Event,
    ) -> None:
        self._database = database
        self._watch = watch
        self._waiting = waiting
        self._is_closing = is_closing
        self._refusal: ClusterError | None = None

    def wait(self, error: Exception, taken: Sequence[mailbox.Message]) -> bool:
        """Wait until the database takes writes again.

        Args:
            error: Why it refused a turn.
            taken: The items of that turn.

        Returns:
            Whether it does; False if management ends first.

        Raises:
            StaleWriterError: Another management has taken over.
        """
        logger.critical(
            "The database has refused what a turn of the reconciler wrote; management begins "
            "anew, from what is committed, as soon as it writes again",
            extra={"error": first_of(error)},
        )
        self._refusal = refusal_of(error)
        self._refuse(taken)
        while not self._database.takes_writes():
            self.refuse_waiting()
            if self._is_closing.wait(_LOOK_SECONDS):
                return False
        return True

    def refuse_waiting(self) -> None:
        """Tell callers whose items wait that these will not be committed."""
        self._refuse(mailbox.take_all(self._waiting))

    def _refuse(self, taken: Sequence[mailbox.Message]) -> None:
        awaited = [found for each in taken if (found := mailbox.awaited_of(each)) is not None]
        self._watch.deliver([], [Answer(each, error=self._refusal) for each in awaited])


def _do_all(effects: list[Callable[[], None]]) -> None:
    """Do what follows from one event, each effect by itself: other jobs' must not wait for it."""
    for effect in effects:
        try:
            effect()
        except Exception:  # outermost loop of the effects of all jobs
            logger.exception("What was to follow from a change could not be done")
