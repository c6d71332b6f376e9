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
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import assert_never

from appliance.cluster.launcher import JobStopped, Launcher, LauncherLost, PodExit, Survivor
from appliance.core.clock import Clock
from appliance.core.errors import ClusterError, StaleWriterError
from appliance.core.ids import JobId, PodName, Role, WorkflowId, pod_name
from appliance.core.jobs import JobType, Phase
from appliance.core.pods import PodSpec
from appliance.core.records import EventRecord, JobRecord, PodRecord
from appliance.management import inbox
from appliance.management import job_machine as machine
from appliance.management.cluster_model import ClusterModel
from appliance.management.coordinators import Coordinators
from appliance.management.dispatcher import Dispatcher, Published
from appliance.management.feed import Topic
from appliance.management.inbox import Alarm
from appliance.management.reservations import Reservations
from appliance.management.resumption import NODE_LOST, resume, state_of
from appliance.management.snapshots import grant_of, holding_of
from appliance.management.state import State
from appliance.management.watch import JobWatch
from appliance.observability import metrics
from appliance.scheduler.admission import Admit, Preempt, Reject
from appliance.scheduler.explain import Wait
from appliance.scheduler.policy import Policy
from appliance.scheduler.queue import PendingJob
from appliance.scheduler.snapshot import Grant

logger = logging.getLogger(__name__)

STOP_MESSAGE = "the appliance was stopped while the job was running; submit it again"

_LEASE_CHECK_SECONDS = 1.0
_KEEP_SECONDS = 10.0
_MAX_ITEMS = 1000
"""Items of one turn at most, so that nobody waits long for the database."""

PlanPods = Callable[[JobRecord], tuple[PodSpec, ...]]


@dataclass(slots=True)
class _Live:
    """A job that has not ended."""

    state: machine.JobState
    job: JobRecord
    grant: Grant | None = None


class Reconciler:
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
        on_superseded: Called once another management has taken over; nothing is moved any more.
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
        on_superseded: Callable[[], None] = lambda: None,
    ) -> None:
        self._state = state
        self._launcher = launcher
        self._coordinators = coordinators
        self._plan_pods = plan_pods
        self._watch = watch
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._on_superseded = on_superseded
        self._inbox: queue.SimpleQueue[inbox.Item] = queue.SimpleQueue()
        self._live: dict[JobId, _Live] = {}
        self._held: dict[JobId, _Live] = {}
        self._errands: list[Callable[[], None]] = []
        self._reminders = inbox.Reminders()
        self._reservations = Reservations(state, model)
        self._dispatcher = Dispatcher(model, policy or Policy(), clock, self._grants)
        self._is_queue_dirty = True
        self._next_lease_check = 0.0
        self._is_closing = threading.Event()
        self._threads = (
            threading.Thread(target=self._run, name="reconciler", daemon=True),
            threading.Thread(target=self._forward_exits, name="pod-exits", daemon=True),
        )

    @property
    def published(self) -> Published:
        """What the last scheduling cycle saw and found; read by anybody."""
        return self._dispatcher.published

    def start(self) -> None:
        """Go on with what an earlier management left unfinished, then begin."""
        self._dispatcher.remember(self._state.jobs.past_runs(self._dispatcher.history_start()))
        unfinished = self._state.jobs.unfinished()
        self._state.leases.resume(
            [job.id for job in unfinished],
            clients=[job.id for job in unfinished if job.type is not JobType.DRIVER],
            seconds=self._lease_seconds,
        )
        self._reservations.resume()
        survivors = dict(self._launcher.survivors())
        with self._turn_written():
            for job in unfinished:
                self._resume(job, survivors.pop(job.id, None))
        for job_id in survivors:  # what is left of jobs that have ended
            self._launcher.stop(job_id)
        for thread in self._threads:
            thread.start()

    def submit(self, job: JobRecord) -> None:
        """Take a new job, which is kept already, into the queue."""
        self._inbox.put(inbox.Submitted(job=job))

    def post(self, job: JobId, event: machine.Event) -> None:
        """Tell of something that happened to a job."""
        self._inbox.put(inbox.Happened(job=job, event=event))

    def post_and_wait(self, job: JobId, event: machine.Event) -> None:
        """Tell of something that happened to a job, and return once what follows is kept.

        Raises:
            ClusterError: That takes too long; it may yet be kept.
        """
        is_kept: Future[None] = Future()
        self._inbox.put(inbox.Happened(job=job, event=event, is_kept=is_kept))
        try:
            is_kept.result(timeout=_KEEP_SECONDS)
        except TimeoutError as error:
            raise ClusterError(
                f"What happened to job {job} was not kept within {_KEEP_SECONDS:g} seconds.",
                hint="Tell of it again.",
            ) from error

    def reprioritise(self, job: JobId, priority: int) -> None:
        """Serve a job by another priority, which is kept already."""
        self._inbox.put(inbox.Reprioritised(job=job, priority=priority))

    def would_start(self, job: PendingJob) -> "Future[Admit | Reject | Wait]":
        """Ask what would become of a job if it were submitted now; nothing is changed."""
        question = inbox.Question(job=job, answer=Future())
        self._inbox.put(question)
        return question.answer

    def hold(self, workflow: WorkflowId) -> None:
        """Let a workflow keep what its jobs get; that it shall is kept already."""
        self._inbox.put(inbox.Holds(workflow=workflow))

    def release(self, workflow: WorkflowId) -> None:
        """Take back what a workflow keeps; that it shall keep nothing is kept already."""
        self._inbox.put(inbox.Releases(workflow=workflow))

    def reschedule(self) -> None:
        """Look again at who may start, as the cluster or somebody's quota has changed."""
        self._inbox.put(inbox.Wake())

    def tell_progress(self, job: JobId) -> None:
        """Tell followers that there are new readings of a job."""
        self._watch.tell(Topic.PROGRESS, job)

    def close(self) -> None:
        """Stop, and fail every job that has not ended; its pods are the launcher's to end."""
        self._is_closing.set()
        self._inbox.put(inbox.Wake())
        self._threads[0].join(timeout=10)
        for job in self._state.jobs.unfinished():
            self._state.pods.set_stopped(job.id, at=self._clock.now())
            self._state.jobs.change_phase(job.id, job.phase, Phase.FAILED, message=STOP_MESSAGE)
            logger.warning("Unfinished job is failed", extra={"job": job.id, "why": STOP_MESSAGE})

    def _run(self) -> None:
        while not self._is_closing.is_set():
            try:
                self._turn()
            except StaleWriterError:
                logger.critical("Another management has taken over; this one ends", exc_info=True)
                self._is_closing.set()
                self._on_superseded()
            except Exception:  # outermost loop of the thread that moves every job
                logger.exception("Reconciler failed in one turn; it goes on with the next")

    def _turn(self) -> None:
        item = self._next_item()
        with self._turn_written():
            for _ in range(_MAX_ITEMS):
                if item is not None:
                    self._take_guarded(item)
                if self._inbox.empty():
                    break
                item = self._inbox.get()
            self._look_at_clock()
            if self._is_queue_dirty:
                self._is_queue_dirty = False
                self._schedule()

    @contextmanager
    def _turn_written(self) -> Iterator[None]:
        """Write what happens in the block as one transaction, then do what follows from it."""
        with self._state.database.batch():
            yield
        errands, self._errands = self._errands, []
        for errand in errands:
            errand()

    def _look_at_clock(self) -> None:
        now = self._clock.monotonic_seconds()
        for job, alarm in self._reminders.take_due(now):
            match alarm:
                case Alarm.GRACE:
                    self._apply(job, machine.TimeElapsed())
                case Alarm.LIMIT:
                    self._apply(job, machine.LimitReached(seconds=self._limit_of(job) or 0.0))
                case _:
                    assert_never(alarm)
        if now >= self._next_lease_check:
            self._next_lease_check = now + _LEASE_CHECK_SECONDS
            self._expire_leases()

    def _next_item(self) -> inbox.Item | None:
        now = self._clock.monotonic_seconds()
        due = self._reminders.next_seconds()
        wake_at = self._next_lease_check if due is None else min(due, self._next_lease_check)
        try:
            return self._inbox.get(timeout=max(wake_at - now, 0.0) or 0.001)
        except queue.Empty:
            return None

    def _take_guarded(self, item: inbox.Item) -> None:
        """Take an item; one that fails leaves no trace, so that the others of the turn count."""
        job = getattr(item, "job", None)
        live = self._live.get(JobId(job)) if isinstance(job, str) else None
        before = None if live is None else (live.state, live.grant)
        num_errands = len(self._errands)
        try:
            with self._state.database.step():
                self._take(item)
        except StaleWriterError:
            raise
        except Exception:  # one job's trouble must not undo what happened to others
            logger.exception("Something that happened was not taken in", extra={"item": str(item)})
            del self._errands[num_errands:]
            if live is not None and before is not None:
                live.state, live.grant = before
                self._live[live.job.id] = live

    def _take(self, item: inbox.Item) -> None:
        match item:
            case inbox.Happened(job=job_id, event=event, is_kept=is_kept):
                self._apply(job_id, event)
                if is_kept is not None:
                    self._errands.append(lambda: is_kept.set_result(None))
            case inbox.PodsLaunched(job=job_id, pids=pids):
                self._take_launch(job_id, pids)
            case PodExit():
                self._take_exit(item)
            case JobStopped(job=job_id):
                self._take_stop(job_id)
            case LauncherLost(jobs=jobs, reason=reason):
                for job_id in jobs:
                    self._lose(job_id, reason)
            case inbox.Question(job=pending, answer=answer):
                with _answering(answer):
                    answer.set_result(self._dispatcher.would_start(pending))
            case _:
                self._take_wish(item)

    def _take_wish(self, wish: inbox.Wish) -> None:
        self._is_queue_dirty = True
        match wish:
            case inbox.Submitted(job=job):
                self._begin(job)
            case inbox.Reprioritised(job=job_id, priority=priority):
                self._dispatcher.reprioritise(job_id, priority)
            case inbox.Holds(workflow=workflow):
                self._reservations.hold(workflow, (live.grant for live in self._held.values()))
            case inbox.Releases(workflow=workflow):
                self._reservations.release(workflow)
            case inbox.Wake():
                pass
            case _:
                assert_never(wish)

    def _begin(self, job: JobRecord) -> None:
        self._live[job.id] = _Live(state_of(job), job)
        if job.type is JobType.DRIVER:  # it needs no system: its jobs wait for theirs
            self._apply(job.id, machine.Admitted(systems=()))
            return
        self._dispatcher.add(job)

    def _take_launch(self, job: JobId, pids: dict[PodName, int]) -> None:
        self._state.pods.set_running(pids)
        logger.info("Pods launched", extra={"job": job, "pods": len(pids)})
        self._apply(job, machine.Launched())

    def _take_exit(self, end: PodExit) -> None:
        live = self._live.get(end.job)
        is_expected = live is None or live.state.is_stopping or end.exit_code == 0
        message = "stopped with its job" if is_expected and end.exit_code else end.reason
        exit_code = 0 if is_expected else end.exit_code
        is_news = self._state.pods.set_ended(
            end.pod, exit_code=exit_code, message=message, at=self._clock.now()
        )
        if is_news and not is_expected:
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
            self._errands.append(lambda: self._launcher.forget(job))

    def _lose(self, job: JobId, reason: str) -> None:
        coordinator = pod_name(job, Role.COORDINATOR, 0)
        event = machine.PodExited(
            pod=coordinator, role=Role.COORDINATOR, exit_code=137, reason=f"{NODE_LOST}{reason}"
        )
        self._apply(job, event)
        self._apply(job, machine.Stopped())

    def _apply(self, job: JobId, event: machine.Event) -> None:
        live = self._live.get(job)
        if live is None:
            return
        before = live.state
        live.state, actions = machine.step(before, event)
        verdict = live.state.verdict
        if verdict is not None and verdict != before.verdict and not live.state.phase.is_terminal:
            self._state.jobs.set_verdict(job, verdict.to_dict())
        previous = before.phase
        for action in actions:
            if isinstance(action, machine.Enter):
                self._enter(live, previous, action)
                previous = action.phase
            else:
                self._act(live, action)

    def _act(self, live: _Live, action: machine.Errand) -> None:
        job = live.job.id
        match action:
            case machine.Explain(message=message):
                self._state.jobs.set_message(job, message)
                self._watch_later(job)
            case machine.Launch():
                self._prepare_launch(live)
            case machine.TellCoordinator():
                self._errands.append(lambda: self._tell_coordinator(job, action))
            case machine.StopPods():
                self._reminders.clear(job)
                self._errands.append(lambda: self._launcher.stop(job))
            case machine.Remind(seconds=seconds):
                at = self._clock.monotonic_seconds() + seconds
                self._reminders.set(job, Alarm.GRACE, at)
            case _:
                assert_never(action)

    def _enter(self, live: _Live, previous: Phase, action: machine.Enter) -> None:
        job, phase = live.job.id, action.phase
        is_granted = action.systems is not None and live.grant is not None
        self._state.jobs.change_phase(
            job,
            previous,
            phase,
            message=action.message,
            systems=action.systems,
            holding=holding_of(live.grant) if is_granted and live.grant else None,
        )
        if is_granted and live.grant is not None:
            self._held[job] = live
            self._reservations.keep(live.grant)
            self._set_limit(live, elapsed_seconds=0.0)
        metrics.PHASE_CHANGES.labels(phase.value).inc()
        logger.info(
            "Job changed phase", extra={"job": job, "phase": phase.value, "why": action.message}
        )
        self._is_queue_dirty = True
        self._watch_later(job)
        if phase.is_terminal or phase is Phase.QUEUED:
            self._give_back(live, phase)
        if phase.is_terminal:
            self._live.pop(job, None)
            self._state.leases.end(job)
            self._reservations.job_ended(live.job.workflow, self._live_workflows())
        self._dispatcher.remove(job)
        if phase is Phase.QUEUED:
            live.job = replace(live.job, phase=phase)
            self._dispatcher.add(live.job)

    def _live_workflows(self) -> Iterator[WorkflowId]:
        return (live.job.workflow for live in self._live.values())

    def _give_back(self, live: _Live, phase: Phase) -> None:
        job = live.job.id
        self._held.pop(job, None)
        self._reminders.clear(job)
        self._errands.append(lambda: self._launcher.forget(job))
        if live.grant is not None:
            self._dispatcher.account_for(live.job, live.grant, phase)
        live.grant = None

    def _set_limit(self, live: _Live, *, elapsed_seconds: float) -> None:
        limit = live.job.requirements.limit_seconds
        if limit is not None:
            at = self._clock.monotonic_seconds() + limit - elapsed_seconds
            self._reminders.set(live.job.id, Alarm.LIMIT, at)

    def _limit_of(self, job: JobId) -> float | None:
        live = self._live.get(job)
        return None if live is None else live.job.requirements.limit_seconds

    def _prepare_launch(self, live: _Live) -> None:
        job = live.job.id
        try:
            specs = self._plan_pods(live.job)
            self._state.pods.create(_pod_record(spec, self._launcher.node) for spec in specs)
        except (ClusterError, OSError) as error:
            self._launch_failed(job, error)
            return
        self._errands.append(lambda: self._launch(job, specs))

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
        )

    def _expire_leases(self) -> None:
        for lease in self._state.leases.expired():
            logger.warning("Lease expired", extra={"lease": lease.id, "holder": lease.holder})
            self._state.leases.end(lease.id)
            self._watch_later(JobId(lease.id))
            if self._reservations.expire(WorkflowId(lease.id)):
                self._is_queue_dirty = True
            self._apply(JobId(lease.id), machine.LeaseExpired(seconds=lease.seconds))

    def _schedule(self) -> None:
        before = self.published
        with metrics.CYCLE_SECONDS.time():
            decisions = self._dispatcher.run_cycle()
        self._watch.tell(Topic.QUEUE)
        for job in self._watch.followed():
            if before.find(job) != self.published.find(job):
                self._watch_later(job)
        for decision in decisions:
            metrics.DECISIONS.labels(type(decision).__name__.lower()).inc()
            match decision:
                case Admit(job=job, grant=grant):
                    self._live[job].grant = grant
                    self._time_start(self._live[job].job)
                    self._apply(job, machine.Admitted(systems=grant.systems))
                case Reject(job=job, error=error):
                    self._tell(job, "SchedulingFailed", str(error), subject=job)
                    self._apply(job, machine.Rejected(message=str(error)))
                case Preempt(job=job, reason=reason):
                    self._tell(job, "Preempted", reason, subject=job)
                    self._apply(job, machine.Preempted(message=reason))
                case _:
                    assert_never(decision)

    def _time_start(self, job: JobRecord) -> None:
        delay = self._clock.now() - job.created_at
        metrics.START_DELAY_SECONDS.labels(job.type.value).observe(delay.total_seconds())

    def _resume(self, job: JobRecord, survivor: Survivor | None) -> None:
        """Go on with a job of an earlier management."""
        plan = resume(job, survivor)
        live = self._live[job.id] = _Live(plan.state, job)
        if plan.forgets:
            self._launcher.forget(job.id)
        if plan.waits:
            self._begin(job)
            return
        if job.type is not JobType.DRIVER:
            live.grant = grant_of(job, self._dispatcher.estimate(job))
            self._held[job.id] = live
        elapsed = self._clock.now() - (job.started_at or job.created_at)
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
                yield replace(live.grant, is_ending=live.state.is_ending)

    def _watch_later(self, job: JobId) -> None:
        """Wake whoever follows a job, once the change is kept."""
        self._errands.append(lambda: self._watch.notify(job))

    def _tell(self, job: JobId, reason: str, message: str, *, subject: str) -> None:
        event = EventRecord(
            job=job,
            at=self._clock.now(),
            reason=reason,
            message=message,
            subject=subject,
            is_warning=True,
        )
        self._state.jobs.add_event(event)

    def _forward_exits(self) -> None:
        while not self._is_closing.is_set():
            try:
                self._inbox.put(self._launcher.exits.get(timeout=1.0))
            except queue.Empty:
                continue


@contextmanager
def _answering(answer: "Future[Admit | Reject | Wait]") -> Iterator[None]:
    """Hand an exception to whoever waits for the answer, and on to the thread's own loop."""
    try:
        yield
    except BaseException as error:
        answer.set_exception(error)
        raise


def _pod_record(spec: PodSpec, node: str) -> PodRecord:
    return PodRecord(name=spec.name, job=spec.job, role=spec.role, index=spec.index, node=node)
