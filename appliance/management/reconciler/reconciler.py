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
    Launcher,
    LauncherLost,
    LauncherTaken,
    PodExit,
    PodsWait,
)
from appliance.core.clock import Clock
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import JobRecord
from appliance.core.errors import StaleWriterError
from appliance.core.ids import JobId
from appliance.management.changes.watch import JobWatch
from appliance.management.cluster.cluster_model import ClusterModel
from appliance.management.pods.coordinators import Coordinators
from appliance.management.reconciler import inbox
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.admissions import Admissions
from appliance.management.reconciler.launching import Launching, PlanPods
from appliance.management.reconciler.live_jobs import LiveJobs, answering
from appliance.management.reconciler.mailbox import Mailbox
from appliance.management.reconciler.pod_reports import PodEvents
from appliance.management.reconciler.reminders import Reminders
from appliance.management.reconciler.scheduling.dispatcher import Dispatcher
from appliance.management.reconciler.scheduling.reservations import Reservations
from appliance.management.reconciler.timed_work import TimedWork
from appliance.management.reconciler.transition_effects import Hooks, TransitionEffects
from appliance.management.reconciler.turn import DatabaseOutage, Turn
from appliance.management.store.state import State
from appliance.scheduler.policy import Policy
from appliance.storage.engine.write_failures import is_of_database

logger = logging.getLogger(__name__)

STOP_MESSAGE = "the appliance was stopped while the job was running; submit it again"

_END_SECONDS = 10.0
_RECONNECT_SECONDS = 120.0
"""gRPC's longest pause between two attempts to reach a management that was away for long."""
_MAX_ITEMS = 1000
"""Items of one turn at most, so that nobody waits long for the database."""

_BUSY_ITEMS = 4
_DELAY_SHARE = 0.5
_DELAY_SECONDS = 0.04
"""Group-commit delay after a busy turn: a share of what that one took, and at most so long. Each
costs a transaction, a scheduling cycle and some changes of threads, whatever happens in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilerOptions:
    """How the reconciler works.

    Attributes:
        policy: By which rules jobs are served.
        lease_seconds: Length of a lease that a job lacks when management starts.
        history_seconds: Jobs that ended longer ago, and events of systems from before, are
            forgotten; None keeps all.
        on_lost: Called once another management has taken over; nothing is moved any more, and the
            next management goes on from what is committed.
        on_refused: Called once the database takes writes again after it had refused a turn.
        hooks: What others decide or want to know of jobs.
        requeues_disrupted: Whether a job whose pod was taken away goes back into the queue, if it
            can, in place of failing.
    """

    policy: Policy
    lease_seconds: int
    history_seconds: float | None
    on_lost: Callable[[], None]
    on_refused: Callable[[], None]
    hooks: Hooks
    requeues_disrupted: bool


class Reconciler:
    """Moves jobs from submission to their end.

    Args:
        mailbox: Where everybody tells what has happened.
        state: The appliance's database.
        launcher: Where pods run.
        coordinators: How a coordinator is told that its job ends.
        plan_pods: Says which pods a job consists of.
        watch: Told of every change.
        clock: Times leases and grace periods.
        model: What the cluster has and who may use how much.
        options: How it works.
    """

    def __init__(
        self,
        *,
        mailbox: Mailbox,
        state: State,
        launcher: Launcher,
        coordinators: Coordinators,
        plan_pods: PlanPods,
        watch: JobWatch,
        clock: Clock,
        model: ClusterModel,
        options: ReconcilerOptions,
    ) -> None:
        self._options = options
        self._inbox = mailbox.inbox
        self._mailbox = mailbox
        self._state = state
        self._launcher = launcher
        self._watch = watch
        self._clock = clock
        self._num_taken, self._turn_seconds = 0, 0.0
        self._taken: list[inbox.Item] = []
        self._jobs = LiveJobs(mailbox.progress)
        self._turn = Turn(state.database, watch)
        reminders = Reminders()
        self._reservations = Reservations(state, model)
        self._dispatcher = Dispatcher(model, options.policy, clock, self._jobs.grants)
        self._launching = Launching(
            launcher=launcher,
            coordinators=coordinators,
            plan_pods=plan_pods,
            state=state,
            mailbox=mailbox,
            turn=self._turn,
        )
        self._transitions = TransitionEffects(
            jobs=self._jobs,
            turn=self._turn,
            state=state,
            dispatcher=self._dispatcher,
            reservations=self._reservations,
            reminders=reminders,
            launching=self._launching,
            clock=clock,
            hooks=options.hooks,
        )
        self._pods = PodEvents(
            jobs=self._jobs,
            transitions=self._transitions,
            launching=self._launching,
            dispatcher=self._dispatcher,
            reminders=reminders,
            state=state,
            clock=clock,
            waits=mailbox.pod_waits,
            requeues_disrupted=options.requeues_disrupted,
        )
        self._admissions = self._make_admissions(mailbox)
        self._timed = TimedWork(
            jobs=self._jobs,
            turn=self._turn,
            transitions=self._transitions,
            reservations=self._reservations,
            reminders=reminders,
            state=state,
            clock=clock,
            history_seconds=options.history_seconds,
        )
        self._is_closing = threading.Event()
        self._outage = DatabaseOutage(state.database, watch, self._inbox, self._is_closing)
        self._thread = threading.Thread(target=self._run, name="reconciler", daemon=True)

    def _make_admissions(self, mailbox: Mailbox) -> Admissions:
        return Admissions(
            jobs=self._jobs,
            turn=self._turn,
            transitions=self._transitions,
            dispatcher=self._dispatcher,
            reservations=self._reservations,
            state=self._state,
            mailbox=mailbox,
            watch=self._watch,
            clock=self._clock,
        )

    def start(self) -> None:
        """Go on with what an earlier management left unfinished, then begin."""
        self._dispatcher.remember(self._state.jobs.past_runs(self._dispatcher.history_start()))
        unfinished = self._state.jobs.unfinished()
        self._state.jobs.remember(unfinished)
        self._state.leases.resume(
            [job.id for job in unfinished],
            clients=[job.id for job in unfinished if job.type is not JobType.DRIVER],
            seconds=self._options.lease_seconds,
            grace_seconds=_RECONNECT_SECONDS,
        )
        self._reservations.resume()
        survivors = dict(self._launcher.survivors())
        self._state.series.recall()
        with self._turn.committed():
            for job in unfinished:
                self._recall_sessions(job)
                self._pods.resume(job, survivors.pop(job.id, None))
        for job_id in survivors:  # what is left of jobs that have ended
            self._launcher.stop(job_id)
        self._launcher.exits.hand_to(self._inbox.put)
        self._thread.start()

    def _recall_sessions(self, job: JobRecord) -> None:
        """Note what the sessions of a running job took, in this run of it."""
        started = job.started_at
        if job.type is JobType.EXECUTE and job.phase is Phase.RUNNING and started is not None:
            sessions = self._state.run_sessions.of_job(job.id)
            self._mailbox.progress.recall(
                job.id, (each for each in sessions if each.started_at >= started)
            )

    def pause(self) -> None:
        """Stop, and leave every job to the next management, as its pods go on."""
        self._is_closing.set()
        self._inbox.put(inbox.Wake())
        if self._thread.is_alive():  # a start may have failed before it
            self._thread.join(timeout=_END_SECONDS)
        self._launching.close(timeout_seconds=_END_SECONDS)

    def close(self) -> None:
        """Stop, and fail every job that has not ended; its pods are the launcher's to end."""
        self.pause()
        with self._state.database.batch():
            for job in self._state.jobs.unfinished():
                self._state.pods.set_stopped(job.id, at=self._clock.now())
                self._state.jobs.change_phase(job.id, job.phase, Phase.FAILED, message=STOP_MESSAGE)
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
        item = self._next_item()
        if self._num_taken >= _BUSY_ITEMS:
            self._is_closing.wait(min(_DELAY_SHARE * self._turn_seconds, _DELAY_SECONDS))
        begun = self._clock.monotonic_seconds()
        self._taken.clear()
        # 5. Commit all of this at once; then answers, and effects outside the database.
        with self._turn.committed():
            # 2. Take in all that was posted, each event by itself.
            for self._num_taken in range(_MAX_ITEMS):
                if item is not None:
                    self._taken.append(item)
                    self._take_guarded(item)
                if self._num_taken == _MAX_ITEMS - 1 or self._inbox.empty():
                    break
                item = self._inbox.get()
            # 3. Do what is due: alarms, leases that expire, old jobs that are forgotten.
            self._timed.do_due()
            # 4. Decide about the queue, if anything has changed that matters for it.
            if self._turn.needs_cycle:
                self._turn.needs_cycle = False
                self._admissions.run_cycle()
        self._turn_seconds = self._clock.monotonic_seconds() - begun

    def _next_item(self) -> inbox.Item | None:
        wait_seconds = self._timed.next_seconds() - self._clock.monotonic_seconds()
        try:
            return self._inbox.get(timeout=max(wait_seconds, 0.0) or 0.001)
        except queue.Empty:
            return None

    def _take_guarded(self, item: inbox.Item) -> None:
        if isinstance(item, LauncherLost):
            for job in item.jobs:
                loss = replace(item, jobs=(job,))
                self._transitions.guarded(job, loss, partial(self._take, loss))
            return
        # Whoever asks a question is told of an error by `answering`.
        awaited = None if isinstance(item, inbox.Question) else inbox.awaited_of(item)
        job_of = inbox.job_of(item)
        self._transitions.guarded(job_of, item, partial(self._take, item), awaited=awaited)

    def _take(self, item: inbox.Item) -> None:
        match item:
            case inbox.Happened(job=job, event=event, committed=committed):
                self._transitions.apply(job, event)
                self._turn.answer(committed)
            case inbox.Registered(job=job, address=address, committed=committed):
                self._register(job, address)
                self._turn.answer(committed)
            case inbox.Write(write=write, committed=committed):
                write()
                self._turn.answer(committed)
            case inbox.PodsLaunched(job=job, pids=pids):
                self._pods.launched(job, pids)
            case PodExit() | JobStopped() | LauncherLost() | PodsWait():
                self._pods.take(item)
            case LauncherTaken():
                raise StaleWriterError("Another management has taken this one's pods over.")
            case inbox.Question(job=pending, answer=answer):
                with answering(answer):
                    answer.set_result(self._dispatcher.would_start(pending))
            case _:
                self._admissions.take_request(item)

    def _register(self, job: JobId, address: str) -> None:
        if job in self._jobs:
            self._state.jobs.set_service_address(job, address)
            self._transitions.apply(job, machine.CoordinatorReady())

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
