"""The one thread that moves jobs: takes events, asks the job machine and the scheduler, acts.

All other parts only post to the `Mailbox`. So a job's phase has one writer, and its events have one
order, without races.

A *turn* takes all that was posted and runs a scheduling cycle. What it writes is one transaction;
effects outside the database (launch, stop, notify) come after the commit. So whenever management
ends, what is committed is the state between two turns, and what was to follow from it can be
derived again: `resumption` says how.
"""

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from appliance.cluster.launcher import (
    JobStopped,
    LauncherLost,
    LauncherTaken,
    PodExit,
    PodsWait,
)
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import JobRecord
from appliance.core.errors import StaleWriterError
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.admissions import run_cycle, take_request
from appliance.management.reconciler.mailbox import (
    Happened,
    Message,
    PodsLaunched,
    Question,
    Registered,
    Wake,
    Write,
    awaited_of,
    job_of,
)
from appliance.management.reconciler.pod_reports import go_on, launched, take_report
from appliance.management.reconciler.timed_work import TimedWork
from appliance.management.reconciler.transitions import apply
from appliance.management.reconciler.turn import DatabaseOutage
from appliance.management.reconciler.world import World, guarded
from appliance.storage.engine.write_failures import is_of_database

logger = logging.getLogger(__name__)

STOP_MESSAGE = "the appliance was stopped while the job was running; submit it again"

_END_SECONDS = 10.0
_RECONNECT_SECONDS = 120.0
"""gRPC's longest pause between two attempts to reach a management that was away for long."""
_MAX_MESSAGES = 1000
"""Messages of one turn at most, so that nobody waits long for the database."""

_BUSY_MESSAGES = 4
_DELAY_SHARE = 0.5
_DELAY_SECONDS = 0.04
"""Group-commit delay after a busy turn: a share of what that one took, and at most so long. Each
costs a transaction, a scheduling cycle and some changes of threads, whatever happens in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilerOptions:
    """How the reconciler works.

    Attributes:
        lease_seconds: Length of a lease that a job lacks when management starts.
        history_seconds: Jobs that ended longer ago, and events of systems from before, are
            forgotten; None keeps all.
        on_lost: Called once another management has taken over; nothing is moved any more, and the
            next management goes on from what is committed.
        on_refused: Called once the database takes writes again after it had refused a turn.
    """

    lease_seconds: int
    history_seconds: float | None
    on_lost: Callable[[], None]
    on_refused: Callable[[], None]


class Reconciler:
    """Moves jobs from submission to their end.

    Args:
        world: What its thread works on; nobody else changes it.
        options: How it works.
    """

    def __init__(self, world: World, options: ReconcilerOptions) -> None:
        self._options = options
        self._world = world
        self._inbox = world.mailbox.inbox
        self._num_taken, self._turn_seconds = 0, 0.0
        self._taken: list[Message] = []
        self._timed = TimedWork(world, options.history_seconds)
        self._is_closing = threading.Event()
        self._outage = DatabaseOutage(
            world.state.database, world.watch, self._inbox, self._is_closing
        )
        self._thread = threading.Thread(target=self._run, name="reconciler", daemon=True)

    def start(self) -> None:
        """Go on with what an earlier management left unfinished, then begin."""
        world, state = self._world, self._world.state
        world.queue.remember(state.jobs.past_runs(world.queue.history_start()))
        unfinished = state.jobs.unfinished()
        state.jobs.remember(unfinished)
        state.leases.resume(
            [job.id for job in unfinished],
            clients=[job.id for job in unfinished if job.type is not JobType.DRIVER],
            seconds=self._options.lease_seconds,
            grace_seconds=_RECONNECT_SECONDS,
        )
        world.reservations.resume()
        launcher = world.launching.launcher
        survivors = dict(launcher.survivors())
        state.series.recall()
        with world.turn.committed():
            for job in unfinished:
                self._recall_sessions(job)
                go_on(world, job, survivors.pop(job.id, None))
        for job_id in survivors:  # what is left of jobs that have ended
            launcher.stop(job_id)
        launcher.exits.hand_to(self._inbox.put)
        self._thread.start()

    def _recall_sessions(self, job: JobRecord) -> None:
        """Note what the sessions of a running job took, in this run of it."""
        started = job.started_at
        if job.type is JobType.EXECUTE and job.phase is Phase.RUNNING and started is not None:
            sessions = self._world.state.run_sessions.of_job(job.id)
            self._world.mailbox.progress.recall(
                job.id, (each for each in sessions if each.started_at >= started)
            )

    def pause(self) -> None:
        """Stop, and leave every job to the next management, as its pods go on."""
        self._is_closing.set()
        self._inbox.put(Wake())
        if self._thread.is_alive():  # a start may have failed before it
            self._thread.join(timeout=_END_SECONDS)
        self._world.launching.close(timeout_seconds=_END_SECONDS)

    def close(self) -> None:
        """Stop, and fail every job that has not ended; its pods are the launcher's to end."""
        self.pause()
        state = self._world.state
        with state.database.batch():
            for job in state.jobs.unfinished():
                state.pods.set_stopped(job.id, at=self._world.clock.now())
                state.jobs.change_phase(job, Phase.FAILED, message=STOP_MESSAGE)
                logger.warning(
                    "Unfinished job is failed", extra={"job": job.id, "why": STOP_MESSAGE}
                )

    def _run(self) -> None:
        while not self._is_closing.is_set():
            try:
                self._do_turn()
            except StaleWriterError:
                self._lose_all()
            except Exception as error:  # outermost loop of the thread that moves every job
                if is_of_database(error):
                    self._await_database(error)
                else:
                    logger.exception("Reconciler failed in one turn; it goes on with the next")

    def _do_turn(self) -> None:
        # 1. Wait for something to happen; after a busy turn a little longer, for more of it.
        message = self._next_message()
        if self._num_taken >= _BUSY_MESSAGES:
            self._is_closing.wait(min(_DELAY_SHARE * self._turn_seconds, _DELAY_SECONDS))
        begun = self._world.clock.monotonic_seconds()
        self._taken.clear()
        # 5. Commit all of this at once; then answers, and effects outside the database.
        with self._world.turn.committed():
            # 2. Take in all that was posted, each event by itself.
            for self._num_taken in range(_MAX_MESSAGES):
                if message is not None:
                    self._taken.append(message)
                    take(self._world, message)
                if self._num_taken == _MAX_MESSAGES - 1 or self._inbox.empty():
                    break
                message = self._inbox.get()
            # 3. Do what is due: alarms, leases that expire, old jobs that are forgotten.
            self._timed.do_due()
            # 4. Decide about the queue, if anything has changed that matters for it.
            if self._world.turn.needs_cycle:
                self._world.turn.needs_cycle = False
                run_cycle(self._world)
        self._turn_seconds = self._world.clock.monotonic_seconds() - begun

    def _next_message(self) -> Message | None:
        wait_seconds = self._timed.next_seconds() - self._world.clock.monotonic_seconds()
        try:
            return self._inbox.get(timeout=max(wait_seconds, 0.0) or 0.001)
        except queue.Empty:
            return None

    def _lose_all(self) -> None:
        logger.critical("Another management has taken over; this one ends")
        self._is_closing.set()
        self._options.on_lost()

    def _await_database(self, error: Exception) -> None:
        """Wait until the database takes writes, then restart management from what is committed."""
        try:
            if self._outage.wait(error, self._taken):
                self._is_closing.set()
                self._outage.refuse_waiting()
                self._options.on_refused()
        except StaleWriterError:
            self._lose_all()


def take(world: World, message: Message) -> None:
    """Do what a message says; if that fails it leaves no trace, and who waits for it is told."""
    if isinstance(message, LauncherLost):
        for job in message.jobs:
            loss = replace(message, jobs=(job,))
            guarded(world, job, loss, partial(_take, world, loss))
        return
    happen, awaited = partial(_take, world, message), awaited_of(message)
    guarded(world, job_of(message), message, happen, awaited=awaited)


def _take(world: World, message: Message) -> None:
    match message:
        case Happened(job=job, event=event, committed=committed):
            apply(world, job, event)
            world.turn.answer(committed)
        case Registered():
            _register(world, message)
            world.turn.answer(message.committed)
        case Write(write=write, committed=committed):
            write()
            world.turn.answer(committed)
        case PodsLaunched(job=job, pids=pids):
            launched(world, job, pids)
        case PodExit() | JobStopped() | LauncherLost() | PodsWait():
            take_report(world, message)
        case LauncherTaken():
            raise StaleWriterError("Another management has taken this one's pods over.")
        case Question(job=pending, answer=answer):
            world.turn.answer(answer, world.queue.would_start(pending))
        case _:
            take_request(world, message)


def _register(world: World, message: Registered) -> None:
    if (live := world.jobs.find(message.job)) is not None:
        record = world.state.jobs.set_service_address(live.record, message.address)
        world.jobs.put_record(record)
        apply(world, message.job, machine.CoordinatorReady())
