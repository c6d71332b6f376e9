"""The one thread that moves jobs: takes events, asks the job machine and the scheduler, acts.

Everybody else only posts events. So a job's phase has one writer, and what happens to it is an
order of events, not a race.

A *turn* takes all that was posted and runs a scheduling cycle. What it writes is one transaction;
what it does outside the database (launch, stop, tell) comes after the commit. So whenever
management ends, what is kept is the state between two turns, and what was to follow from it can be
found out again: `resumption` says how.
"""

import logging
import queue
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, assert_never

from appliance.cluster.launcher import JobStopped, Launcher, LauncherLost, PodExit, Survivor
from appliance.core.clock import Clock
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.pods import PodSpec
from appliance.core.cluster.records import EventRecord, JobRecord
from appliance.core.errors import ClusterError, ConflictError, StaleWriterError, WscError
from appliance.core.ids import JobId, PodName, Role, WorkflowId
from appliance.management.changes.feed import Topic
from appliance.management.changes.watch import Answer, Awaited, JobWatch
from appliance.management.cluster.cluster_model import ClusterModel
from appliance.management.pods.coordinators import Coordinators
from appliance.management.reconciler import inbox
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.dispatcher import Dispatcher, Published
from appliance.management.reconciler.history import History
from appliance.management.reconciler.inbox import Alarm
from appliance.management.reconciler.job_executors import Lanes
from appliance.management.reconciler.live_jobs import (
    Live,
    Sequel,
    answering,
    granted,
    limit_of,
    lost_pod,
    pod_record,
    reprioritise,
    run_errands,
    tell_unexpected,
)
from appliance.management.reconciler.mailbox import Mailbox
from appliance.management.reconciler.reservations import Reservations
from appliance.management.reconciler.resumption import NODE_LOST, resume, state_of
from appliance.management.reconciler.scheduler_snapshots import grant_of, holding_of
from appliance.management.store.state import State
from appliance.observability import metrics
from appliance.observability.logging import lines_together, log_fields
from appliance.scheduler.admission import Admit, Preempt, Reject
from appliance.scheduler.cycle import Decision
from appliance.scheduler.policy import Policy
from appliance.scheduler.snapshot import Grant
from appliance.storage.failures import first_of, is_of_database, refusal_of
from appliance.storage.leases import Lease

logger = logging.getLogger(__name__)

STOP_MESSAGE = "the appliance was stopped while the job was running; submit it again"

_END_SECONDS = 10.0
_LEASE_CHECK_SECONDS = 1.0
_RECONNECT_SECONDS = 120.0
"""gRPC's longest pause between two attempts to reach a management that was away for long."""
_DATABASE_LOOK_SECONDS = 1.0
_MAX_ITEMS = 1000
"""Items of one turn at most, so that nobody waits long for the database."""

_BUSY_ITEMS = 4
_GATHER_SHARE = 0.5
_GATHER_SECONDS = 0.04
"""How long a turn waits for company after one that had much, as a share of what that one took, and
at most: each costs a transaction, a scheduling cycle and some changes between threads, whatever
happens in it."""

_UNSEEN = (Phase.INITIALIZING, Phase.RUNNING)
"""Phases that change nothing of what the scheduler sees."""

_PHASE_CHANGES = {phase: metrics.PHASE_CHANGES.labels(phase.value) for phase in Phase}

PlanPods = Callable[[JobRecord], tuple[PodSpec, ...]]


class Reconciler(Mailbox):
    """Moves jobs from submission to their end.

    Args:
        state: What is kept.
        launcher: Where pods run.
        coordinators: How a coordinator is told that its job ends.
        plan_pods: Says which pods a job consists of.
        watch: Told of every change.
        clock: Times leases and grace periods.
        model: What the cluster has and who may use how much.
        policy: By which rules jobs are served.
        lease_seconds: Length of a lease that a job lacks when management starts.
        history_seconds: Jobs that ended longer ago, and events of systems from before, are
            forgotten; None keeps all.
        pod_lost: Asked, of a driver whose pod has ended with an exit code and in words, why it is
            started again; answers with nothing if it is not.
        on_lost: Called once another management has taken over;
            nothing is moved any more, and the next management goes on from what is kept.
        on_ended: Told of each job that has ended, once that is kept; must not wait for anything.
    """

    def __init__(
        self,
        *,
        state: State,
        launcher: Launcher,
        coordinators: Coordinators,
        plan_pods: PlanPods,
        watch: JobWatch,
        clock: Clock,
        model: ClusterModel,
        policy: Policy | None = None,
        lease_seconds: int = 30,
        history_seconds: float | None = None,
        pod_lost: Callable[[JobRecord, int, str], str] = lambda *_: "",
        on_lost: Callable[[], None] = lambda: None,
        on_refused: Callable[[], None] = lambda: None,
        on_ended: Callable[[JobId], None] = lambda _: None,
    ) -> None:
        super().__init__()
        self._pod_lost = pod_lost
        self._state = state
        self._launcher = launcher
        self._lanes = Lanes() if launcher.is_far else None
        self._coordinators = coordinators
        self._plan_pods = plan_pods
        self._watch = watch
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._history = History(state, history_seconds)
        self._on_lost, self._on_refused = on_lost, on_refused
        self._on_ended = on_ended
        self._live: dict[JobId, Live] = {}
        self._held: dict[JobId, Live] = {}
        self._sequel = Sequel()
        self._sequels = [self._sequel]
        self._changed: dict[JobId, None] = {}
        self._num_taken, self._turn_seconds = 0, 0.0
        self._taken: list[inbox.Item] = []
        self._reminders = inbox.Reminders()
        self._reservations = Reservations(state, model)
        self._dispatcher = Dispatcher(model, policy or Policy(), clock, self._grants)
        self._is_queue_dirty = True
        self._next_lease_check = 0.0
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reconciler", daemon=True)

    @property
    def published(self) -> Published:
        """What the last scheduling cycle saw and found; read by anybody."""
        return self._dispatcher.published

    def start(self) -> None:
        """Go on with what an earlier management left unfinished, then begin."""
        self._dispatcher.remember(self._state.jobs.past_runs(self._dispatcher.history_start()))
        unfinished = self._state.jobs.unfinished()
        self._state.jobs.remember(unfinished)
        self._state.leases.resume(
            [job.id for job in unfinished],
            clients=[job.id for job in unfinished if job.type is not JobType.DRIVER],
            seconds=self._lease_seconds,
            grace_seconds=_RECONNECT_SECONDS,
        )
        self._reservations.resume()
        survivors = dict(self._launcher.survivors())
        with self._turn_written():
            for job in unfinished:
                self._resume(job, survivors.pop(job.id, None))
        for job_id in survivors:  # what is left of jobs that have ended
            self._launcher.stop(job_id)
        self._launcher.exits.hand_to(self._inbox.put)
        self._thread.start()

    def tell_progress(self, job: JobId) -> None:
        """Tell followers that there are new readings of a job."""
        self._watch.tell(Topic.PROGRESS, job)

    def pause(self) -> None:
        """Stop, and leave every job to the next management, as its pods go on."""
        self._is_closing.set()
        self._inbox.put(inbox.Wake())
        if self._thread.is_alive():  # a start may have failed before it
            self._thread.join(timeout=_END_SECONDS)
        if self._lanes is not None:
            self._lanes.close(timeout_seconds=_END_SECONDS)

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
                self._turn()
            except StaleWriterError:
                self._lose_all()
            except Exception as error:  # outermost loop of the thread that moves every job
                if is_of_database(error):
                    self._await_database(error)
                else:
                    logger.exception("Reconciler failed in one turn; it goes on with the next")

    def _lose_all(self) -> None:
        logger.critical("Another management has taken over; this one ends")
        self._is_closing.set()
        self._on_lost()

    def _await_database(self, error: Exception) -> None:
        """Do nothing until the database takes writes, then let management begin anew.

        What the turn did is in memory and nowhere else, and nobody was told of it. The pods go on
        meanwhile, as this process holds what holds them.
        """
        logger.critical(
            "The database has refused what a turn of the reconciler wrote; management begins "
            "anew, from what is kept, as soon as it writes again",
            extra={"error": first_of(error)},
        )
        refusal = refusal_of(error)
        self._refuse(self._taken, refusal)
        try:
            while not self._state.database.takes_writes():
                self._refuse(inbox.take_all(self._inbox), refusal)
                if self._is_closing.wait(_DATABASE_LOOK_SECONDS):
                    return
        except StaleWriterError:
            self._lose_all()
            return
        self._is_closing.set()
        self._refuse(inbox.take_all(self._inbox), refusal)
        self._on_refused()

    def _refuse(self, items: Sequence[inbox.Item], refusal: ClusterError) -> None:
        """Tell whoever waits for something that it was not kept."""
        awaited = [found for item in items if (found := inbox.awaited_of(item)) is not None]
        self._watch.deliver([], [Answer(each, error=refusal) for each in awaited])

    def _turn(self) -> None:
        item = self._next_item()
        if self._num_taken >= _BUSY_ITEMS:
            self._is_closing.wait(min(_GATHER_SHARE * self._turn_seconds, _GATHER_SECONDS))
        begun = self._clock.monotonic_seconds()
        self._taken.clear()
        with self._turn_written():
            for self._num_taken in range(_MAX_ITEMS):
                if item is not None:
                    self._taken.append(item)
                    self._take_guarded(item)
                if self._num_taken == _MAX_ITEMS - 1 or self._inbox.empty():
                    break
                item = self._inbox.get()
            self._look_at_clock()
            if self._is_queue_dirty:
                self._is_queue_dirty = False
                self._schedule()
        self._turn_seconds = self._clock.monotonic_seconds() - begun

    @contextmanager
    def _turn_written(self) -> Iterator[None]:
        """Write what happens in the block as one transaction, then do what follows from it."""
        self._sequel, self._changed = Sequel(), {}
        self._sequels = [self._sequel]
        with self._state.database.batch(), lines_together():
            yield
        sequels = self._sequels
        answers = [answer for sequel in sequels for answer in sequel.answers]
        if self._changed or answers:
            self._watch.deliver(list(self._changed), answers)
        for sequel in sequels:
            run_errands(sequel)

    def _look_at_clock(self) -> None:
        now = self._clock.monotonic_seconds()
        for job, alarm in self._reminders.take_due(now):
            self._guarded(job, alarm, self._ring, job, alarm)
        if now >= self._next_lease_check:
            self._next_lease_check = now + _LEASE_CHECK_SECONDS
            self._expire_leases()
        for directory in self._history.prune(now):
            self._later(partial(shutil.rmtree, directory, ignore_errors=True))

    def _ring(self, job: JobId, alarm: Alarm) -> None:
        match alarm:
            case Alarm.GRACE:
                self._apply(job, machine.TimeElapsed())
            case Alarm.LIMIT:
                self._apply(job, machine.LimitReached(seconds=limit_of(self._live.get(job))))
            case _:
                assert_never(alarm)

    def _next_item(self) -> inbox.Item | None:
        now = self._clock.monotonic_seconds()
        due = self._reminders.next_seconds()
        wake_at = self._next_lease_check if due is None else min(due, self._next_lease_check)
        try:
            return self._inbox.get(timeout=max(wake_at - now, 0.0) or 0.001)
        except queue.Empty:
            return None

    # `Any`: the arguments of whatever happens.
    def _guarded(
        self,
        job: JobId | None,
        what: object,
        happen: Callable[..., None],
        *arguments: Any,  # noqa: ANN401
    ) -> None:
        """Let something happen to a job; if it fails it leaves no trace, and the rest counts."""
        live = None if job is None else self._live.get(job)
        before = None if live is None else (live.job, live.state, live.grant)
        outer, sequel = self._sequel, Sequel()
        is_kept: Awaited | None = getattr(what, "is_kept", None)

        def undo(error: Exception) -> None:
            logger.error(
                "Something that happened was not taken in",
                extra={"item": str(what)},
                exc_info=error,
            )
            sequel.errands.clear()
            sequel.answers.clear()
            if job is not None:
                self._forget(job)
            if live is not None and before is not None:
                self._restore(live, *before)
            if is_kept is not None:
                sequel.answers.append(Answer(is_kept, error=error))

        self._sequel = sequel
        self._sequels.append(sequel)
        try:
            with self._state.database.step(undo):
                happen(*arguments)
        except StaleWriterError:
            raise
        except Exception as error:
            if is_of_database(error):
                raise
            undo(error)  # one job's trouble must not undo others' news
        finally:
            self._sequel = outer

    def _forget(self, job: JobId) -> None:
        self._live.pop(job, None)
        self._held.pop(job, None)
        self._dispatcher.remove(job)

    def _restore(
        self, live: Live, job: JobRecord, state: machine.JobState, grant: Grant | None
    ) -> None:
        live.job, live.state, live.grant = job, state, grant
        self._live[job.id] = live
        if grant is not None:
            self._held[job.id] = live
        elif state.phase is Phase.QUEUED:
            self._dispatcher.add(job)

    def _take_guarded(self, item: inbox.Item) -> None:
        if isinstance(item, LauncherLost):
            for lost in item.jobs:
                self._guarded(lost, item, self._take, replace(item, jobs=(lost,)))
            return
        job = getattr(item, "job", None)
        self._guarded(JobId(job) if isinstance(job, str) else None, item, self._take, item)

    def _later(self, errand: Callable[[], None]) -> None:
        """Do something once what led to it is kept."""
        self._sequel.errands.append(errand)

    def _order(self, job: JobId, errand: Callable[[], None]) -> None:
        """Ask something of the launcher once what led to it is kept, each job's in order.

        A launcher on this machine answers at once and is asked here, without a change of threads.
        """
        self._later(errand if self._lanes is None else partial(self._lanes.send, job, errand))

    def _answer(self, awaited: Awaited | None, result: object = None) -> None:
        """Tell whoever waits for something that it is kept, once it is."""
        if awaited is not None:
            self._sequel.answers.append(Answer(awaited, result))

    def _take(self, item: inbox.Item) -> None:
        match item:
            case inbox.Happened(job=job_id, event=event, is_kept=is_kept):
                self._apply(job_id, event)
                self._answer(is_kept)
            case inbox.Registered() | inbox.ToKeep():
                self._take_note(item)
                self._answer(item.is_kept)
            case inbox.PodsLaunched(job=job_id, pids=pids):
                self._take_launch(job_id, pids)
            case PodExit():
                self._take_exit(item)
            case JobStopped(job=job_id):
                self._take_stop(job_id)
            case LauncherLost():  # one job at a time
                self._lose(item.jobs[0], item.reason)
            case inbox.Question(job=pending, answer=answer):
                with answering(answer):
                    answer.set_result(self._dispatcher.would_start(pending))
            case _:
                self._take_wish(item)

    def _take_wish(self, wish: inbox.Wish) -> None:
        self._is_queue_dirty = True
        match wish:
            case inbox.Arrived():
                self._take_in(wish)
            case inbox.Submitted(record=record):
                self._begin(record)
            case inbox.Reprioritised(job=job_id, priority=priority):
                self._dispatcher.reprioritise(job_id, priority)
                if (live := self._live.get(job_id)) is not None:
                    reprioritise(live, priority)
            case inbox.WantsCompile():
                self._queue_compile(wish)
            case inbox.HeldBack():
                self._hold_back(wish)
            case inbox.Holds() | inbox.Releases():
                self._reserve(wish)
            case inbox.Stops(reason=reason):
                self._stop_admissions(reason)
            case inbox.Wake():
                pass
            case _:
                assert_never(wish)

    def _reserve(self, wish: inbox.Holds | inbox.Releases) -> None:
        if isinstance(wish, inbox.Holds):
            self._reservations.hold(wish.workflow, (live.grant for live in self._held.values()))
        else:
            self._reservations.release(wish.workflow)

    def _stop_admissions(self, reason: str) -> None:
        if (event := self._dispatcher.stop(reason)) is not None:
            self._state.system_events.add(event)
            logger.warning("Admissions", extra={**event.details, "why": event.note})

    def _take_in(self, wish: inbox.Arrived) -> None:
        record = wish.keep()
        if record.id == wish.job:
            self._begin(record)
        self._answer(wish.is_kept, record)

    def _begin(self, job: JobRecord) -> None:
        self._live[job.id] = Live(state_of(job), job)
        self._dispatcher.add(job)

    def _queue_compile(self, wish: inbox.WantsCompile) -> None:
        live = self._live.get(wish.job)
        if live is None or live.grant is None or live.state.is_ending:
            return
        if wish.num_systems and self._reservations.is_open(live.job.workflow):
            self._reserve_ahead(live.job, wish.num_systems)
        if live.grant.is_lookup and not wish.is_cached:
            self._dispatcher.add_compile(live.job)

    def _reserve_ahead(self, job: JobRecord, num_systems: int) -> None:
        """Let a workflow keep, from its compile on, what its execute job would get now, if any."""
        found = self._dispatcher.would_execute(job, num_systems)
        if not isinstance(found, Admit):
            return
        self._reservations.keep(found.grant)
        names = ", ".join(found.grant.systems)
        self._tell(job.id, "SystemsReserved", f"{names} kept for the workflow", is_warning=False)

    def _hold_back(self, wish: inbox.HeldBack) -> None:
        live = self._live.get(wish.job)
        if live is None or not self._dispatcher.has(wish.job):
            phase = "has ended" if live is None else f"is {live.state.phase.value}"
            late = ConflictError(
                f"Job {wish.job} {phase}; only what waits can be held or released."
            )
            self._sequel.answers.append(Answer(wish.is_kept, error=late))
            return
        self._state.jobs.set_holder(wish.job, wish.by)
        live.job = replace(live.job, held_by=wish.by)
        self._dispatcher.hold_back(wish.job, wish.by)
        reason, message = ("Held", f"held by {wish.by}") if wish.by else ("Released", "")
        self._tell(wish.job, reason, message, is_warning=False)
        self._answer(wish.is_kept)
        self._watch_later(wish.job)

    def _take_note(self, note: inbox.Registered | inbox.ToKeep) -> None:
        if isinstance(note, inbox.ToKeep):
            note.write()
        elif note.job in self._live:
            self._state.jobs.set_service_address(note.job, note.address)
            self._apply(note.job, machine.CoordinatorReady())

    def _take_launch(self, job: JobId, pids: dict[PodName, int]) -> None:
        self._state.pods.set_running(pids)
        logger.info("Pods launched", extra={"job": job, "pods": len(pids)})
        self._apply(job, machine.Launched())

    def _take_exit(self, end: PodExit) -> None:
        live = self._live.get(end.job)
        is_expected = live is None or live.state.is_stopping or end.exit_code == 0
        message = "stopped with its job" if is_expected and end.exit_code else end.reason
        exit_code = 0 if is_expected else end.exit_code
        is_news = not is_expected and not self._state.pods.has_ended(end.pod)
        self._state.pods.set_ended(
            end.pod, exit_code=exit_code, message=message, at=self._clock.now()
        )
        if is_news:
            logger.warning("Pod ended", extra={"job": end.job, "pod": end.pod, "how": end.reason})
            self._tell(end.job, "Error", f"{end.pod} {end.reason}", subject=end.pod)
        event = machine.PodExited(
            pod=end.pod, role=end.role, exit_code=end.exit_code, reason=end.reason
        )
        self._apply(end.job, event)

    def _take_stop(self, job: JobId) -> None:
        self._state.pods.set_stopped(job, at=self._clock.now())
        if job in self._live:
            self._apply(job, machine.Stopped())
        else:
            self._order(job, lambda: self._launcher.forget(job))

    def _lose(self, job: JobId, reason: str) -> None:
        if (live := self._live.get(job)) is not None:
            self._apply(job, lost_pod(live.job, f"{NODE_LOST}{reason}"))
            self._apply(job, machine.Stopped())

    def _apply(self, job: JobId, event: machine.Event) -> None:
        live = self._live.get(job)
        if live is None:
            return
        before = live.state
        if isinstance(event, machine.PodExited) and event.role is Role.DRIVER:
            event = self._with_revival(live, event)
        live.state, actions = machine.step(before, event)
        verdict = live.state.verdict
        if verdict is not None and verdict != before.verdict and not live.state.phase.is_terminal:
            self._state.jobs.set_verdict(job, verdict.to_dict())
            self._dispatcher.remove(job)  # a compile job may run and wait for memory
        previous = before.phase
        for action in actions:
            if isinstance(action, machine.Enter):
                self._enter(live, previous, action)
                previous = action.phase
            else:
                self._act(live, action)

    def _with_revival(self, live: Live, end: machine.PodExited) -> machine.PodExited:
        """Return the end of a driver's pod with why it is started again, if it is."""
        if end.exit_code == 0 or live.state.is_ending or live.state.phase.is_terminal:
            return end
        return replace(end, revival=self._pod_lost(live.job, end.exit_code, end.reason))

    def _act(self, live: Live, action: machine.Errand) -> None:
        job = live.job.id
        match action:
            case machine.Explain(message=message):
                self._state.jobs.set_message(job, message)
                self._watch_later(job)
            case machine.Unexpected(event=event):
                tell_unexpected(live.job, live.state, event, self._state.jobs.events(job))
            case machine.Launch():
                self._prepare_launch(live)
            case machine.TellCoordinator():
                self._later(lambda: self._tell_coordinator(job, action))
            case machine.StopPods():
                self._reminders.clear(job)
                # By then it may have stopped and been queued again; its new run is not meant.
                stop = partial(self._launcher.stop, job)
                self._order(job, lambda: stop() if live.state.is_stopping else None)
            case machine.Remind(seconds=seconds):
                at = self._clock.monotonic_seconds() + seconds
                self._reminders.set(job, Alarm.GRACE, at)
            case _:
                assert_never(action)

    def _enter(self, live: Live, previous: Phase, action: machine.Enter) -> None:
        job, phase = live.job.id, action.phase
        is_granted = action.systems is not None and live.grant is not None
        self._state.jobs.change_phase(
            job,
            previous,
            phase,
            through=action.through,
            message=action.message,
            systems=action.systems,
            holding=holding_of(live.grant) if is_granted and live.grant else None,
        )
        if is_granted and live.grant is not None:
            self._held[job] = live
            self._reservations.keep(live.grant)
            if not live.grant.is_lookup:
                self._set_limit(live, elapsed_seconds=0.0)
        told = {"job": job, "phase": phase.value, "why": action.message}
        if action.through is not None:
            _PHASE_CHANGES[action.through].inc()
            told["through"] = action.through.value
        _PHASE_CHANGES[phase].inc()
        logger.info("Job changed phase", extra=told)
        if phase not in _UNSEEN:
            self._is_queue_dirty = True
        self._watch_later(job)
        if phase.is_terminal or phase is Phase.QUEUED:
            self._give_back(live, phase)
        if phase.is_terminal:
            self._live.pop(job, None)
            if live.job.type is not JobType.DRIVER:  # that has none, as it has no client
                self._state.leases.end(job)
            self._later(lambda: self._on_ended(job))
            self._reservations.job_ended(live.job.workflow, self._live_workflows())
        self._dispatcher.remove(job)
        if phase is Phase.QUEUED:
            live.job = replace(live.job, phase=phase)
            self._dispatcher.add(live.job)

    def _live_workflows(self) -> Iterator[WorkflowId]:
        return (live.job.workflow for live in self._live.values())

    def _give_back(self, live: Live, phase: Phase) -> None:
        job = live.job.id
        self._held.pop(job, None)
        self._reminders.clear(job)
        self._order(job, lambda: self._launcher.forget(job))
        if live.grant is not None:
            self._dispatcher.account_for(live.job, live.grant, phase)
        live.grant = None

    def _set_limit(self, live: Live, *, elapsed_seconds: float) -> None:
        limit = live.job.requirements.limit_seconds
        if limit is not None:
            at = self._clock.monotonic_seconds() + limit - elapsed_seconds
            self._reminders.set(live.job.id, Alarm.LIMIT, at)

    def _prepare_launch(self, live: Live) -> None:
        job = live.job.id
        try:
            specs = self._plan_pods(granted(live))
            node = self._launcher.node
            self._state.pods.create(pod_record(spec, spec.node or node) for spec in specs)
        except (WscError, OSError) as error:
            self._launch_failed(job, error)
            return
        self._order(job, lambda: self._launch(job, specs))

    def _launch(self, job: JobId, specs: tuple[PodSpec, ...]) -> None:
        try:
            pids = dict(self._launcher.launch(specs))
        except (ClusterError, OSError) as error:
            self._launch_failed(job, error)
            return
        self._inbox.put(inbox.PodsLaunched(job=job, pids=pids))

    def _launch_failed(self, job: JobId, error: Exception) -> None:
        self.post(job, machine.LaunchFailed(message=f"job could not be launched: {error}"))

    def _tell_coordinator(self, job: JobId, action: machine.TellCoordinator) -> None:
        self._coordinators.tell_end(
            job,
            self._launcher.runtime_dir(job),
            reason=action.reason,
            is_failure=action.is_failure,
            pod=action.pod,
            is_preemption=action.is_preemption,
        )

    def _expire_leases(self) -> None:
        for lease in self._state.leases.expired():
            logger.warning("Lease expired", extra={"lease": lease.id, "holder": lease.holder})
            self._guarded(JobId(lease.id), lease, self._expire, lease)

    def _expire(self, lease: Lease) -> None:
        self._state.leases.end(lease.id)
        self._watch_later(JobId(lease.id))
        if self._reservations.expire(WorkflowId(lease.id)):
            self._is_queue_dirty = True
        self._apply(JobId(lease.id), machine.LeaseExpired(seconds=lease.seconds))

    def _schedule(self) -> None:
        before = self.published
        with log_fields(scheduling_cycle=before.cycle + 1):
            with metrics.CYCLE_SECONDS.time():
                decisions = self._dispatcher.run_cycle()
            self._carry_out_all(decisions)
        self._watch.tell(Topic.QUEUE)
        for job in self._watch.followed():
            if before.find(job) != self.published.find(job):
                self._watch_later(job)

    def _carry_out_all(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            metrics.DECISIONS.labels(type(decision).__name__.lower()).inc()
            self._guarded(decision.job, decision, self._carry_out, decision)

    def _carry_out(self, decision: Decision) -> None:
        match decision:
            case Admit(job=job, grant=grant):
                self._admit(self._live[job], grant)
            case Reject(job=job, error=error):
                self._reject(self._live[job], str(error))
            case Preempt(job=job, reason=reason):
                self._tell(job, "Preempted", reason)
                self._apply(job, machine.Preempted(message=reason))
            case _:
                assert_never(decision)

    def _admit(self, live: Live, grant: Grant) -> None:
        is_first, live.grant = live.grant is None, grant
        if is_first:
            self._time_start(live.job)
            self._apply(live.job.id, machine.Admitted(systems=grant.systems))
            return
        # A compile job that looked into the cache in vain now gets what compiling takes.
        self._dispatcher.remove(live.job.id)
        self._state.jobs.set_holding(live.job.id, holding_of(grant))
        self._set_limit(live, elapsed_seconds=0.0)
        self._tell(
            live.job.id, "CompileAdmitted", "what compiling takes was granted", is_warning=False
        )
        self._watch_later(live.job.id)

    def _reject(self, live: Live, message: str) -> None:
        job = live.job.id
        self._tell(job, "SchedulingFailed", message)
        self._dispatcher.remove(job)
        if live.grant is None:
            self._apply(job, machine.Rejected(message=message))
        else:
            self._apply(job, machine.EndRequested(phase=Phase.FAILED, message=message))

    def _time_start(self, job: JobRecord) -> None:
        delay = self._clock.now() - job.created_at
        metrics.START_DELAY_SECONDS.labels(job.type.value).observe(delay.total_seconds())

    def _resume(self, job: JobRecord, survivor: Survivor | None) -> None:
        """Go on with a job of an earlier management."""
        plan = resume(job, survivor)
        live = self._live[job.id] = Live(plan.state, job)
        if plan.forgets:
            self._launcher.forget(job.id)
        if plan.waits:
            self._begin(job)
            return
        live.grant = grant_of(job, self._dispatcher.estimate(job))
        self._held[job.id] = live
        elapsed = self._clock.now() - (job.started_at or job.created_at)
        if not job.holding.is_lookup:
            self._set_limit(live, elapsed_seconds=elapsed.total_seconds())
        logger.info("Job goes on", extra={"job": job.id, "phase": job.phase.value})
        if plan.launches:
            self._prepare_launch(live)
        self._state.pods.set_running(plan.pids)
        for end in plan.exits:
            self._take_exit(end)
        for event in plan.events:
            self._apply(job.id, event)
        if plan.state.verdict is not None and not live.state.is_stopped:
            # Its client has had all the time of the restart to learn of it.
            self._reminders.set(job.id, Alarm.GRACE, self._clock.monotonic_seconds())

    def _grants(self) -> Iterator[Grant]:
        for live in self._held.values():
            if live.grant is not None:
                grant = live.grant
                yield replace(grant, is_ending=True) if live.state.is_ending else grant

    def _watch_later(self, job: JobId) -> None:
        """Wake whoever follows a job, once the change is kept."""
        self._changed[job] = None

    def _tell(
        self, job: JobId, reason: str, message: str, *, subject: str = "", is_warning: bool = True
    ) -> None:
        event = EventRecord(
            job=job,
            at=self._clock.now(),
            reason=reason,
            message=message,
            subject=subject or job,
            is_warning=is_warning,
        )
        self._state.jobs.add_event(event)
