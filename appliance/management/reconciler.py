"""The one thread that moves jobs: takes events, asks the job machine and the scheduler, acts.

Everybody else only posts events. So a job's phase has one writer, and what happens to it is an
order of events, not a race.
"""

import logging
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import assert_never

from appliance.cluster.launcher import Exit, JobStopped, Launcher, LauncherLost, PodExit
from appliance.core.clock import Clock
from appliance.core.errors import ClusterError, InternalError
from appliance.core.ids import JobId, Role, WorkflowId, pod_name
from appliance.core.jobs import JobType, Phase
from appliance.core.pods import PodSpec
from appliance.core.records import EventRecord, JobRecord, PodRecord, Reservation
from appliance.management import job_machine as machine
from appliance.management.cluster_model import ClusterModel
from appliance.management.coordinators import Coordinators
from appliance.management.dispatcher import Dispatcher, Published
from appliance.management.feed import Topic
from appliance.management.snapshots import holding_of
from appliance.management.state import State
from appliance.management.watch import JobWatch
from appliance.scheduler.admission import Admit, Preempt, Reject
from appliance.scheduler.explain import Wait
from appliance.scheduler.policy import Policy
from appliance.scheduler.queue import PendingJob
from appliance.scheduler.snapshot import Grant

logger = logging.getLogger(__name__)

RESTART_MESSAGE = "the appliance was restarted while the job was running; submit it again"

STOP_MESSAGE = "the appliance was stopped while the job was running; submit it again"

NODE_LOST = "was lost: "
"""In a job's message: not the job or a pod is at fault, what its pods ran on was lost."""

_LEASE_CHECK_SECONDS = 1.0

PlanPods = Callable[[JobRecord], tuple[PodSpec, ...]]


@dataclass(slots=True)
class _Live:
    """A job that has not ended."""

    state: machine.JobState
    job: JobRecord
    grant: Grant | None = None
    remind_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Happened:
    """An event for one job."""

    job: JobId
    event: machine.Event


@dataclass(frozen=True, slots=True, kw_only=True)
class _Submitted:
    """A new job."""

    job: JobRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reprioritised:
    """A job has another priority."""

    job: JobId
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wake:
    """Nothing but a reason to look again at who may start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Holds:
    """A workflow keeps what its jobs get."""

    workflow: WorkflowId


@dataclass(frozen=True, slots=True, kw_only=True)
class _Releases:
    """A workflow keeps nothing any more."""

    workflow: WorkflowId


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What would become of a job."""

    job: PendingJob
    answer: "Future[Admit | Reject | Wait]"


_Wish = _Submitted | _Reprioritised | _Holds | _Releases | _Wake
_Item = _Happened | _Wish | _Question | Exit


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
    ) -> None:
        self._state = state
        self._launcher = launcher
        self._coordinators = coordinators
        self._plan_pods = plan_pods
        self._watch = watch
        self._clock = clock
        self._model = model
        self._reserving: set[WorkflowId] = set()
        self._inbox: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        self._live: dict[JobId, _Live] = {}
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
        """Fail what an earlier management left unfinished, then begin."""
        self._dispatcher.remember(self._state.jobs.past_runs(self._dispatcher.history_start()))
        for job in self._state.jobs.unfinished():
            self._abandon(job, RESTART_MESSAGE)
        self._state.leases.end_all()
        for kept in self._model.facts.reservations:
            self._state.workflows.release(kept.workflow.id)
        self._model.reload_reservations()
        for thread in self._threads:
            thread.start()

    def submit(self, job: JobRecord) -> None:
        """Take a new job, which is kept already, into the queue."""
        self._inbox.put(_Submitted(job=job))

    def post(self, job: JobId, event: machine.Event) -> None:
        """Tell of something that happened to a job."""
        self._inbox.put(_Happened(job=job, event=event))

    def reprioritise(self, job: JobId, priority: int) -> None:
        """Serve a job by another priority, which is kept already."""
        self._inbox.put(_Reprioritised(job=job, priority=priority))

    def would_start(self, job: PendingJob) -> "Future[Admit | Reject | Wait]":
        """Ask what would become of a job if it were submitted now; nothing is changed."""
        question = _Question(job=job, answer=Future())
        self._inbox.put(question)
        return question.answer

    def hold(self, workflow: WorkflowId) -> None:
        """Let a workflow keep what its jobs get; that it shall is kept already."""
        self._inbox.put(_Holds(workflow=workflow))

    def release(self, workflow: WorkflowId) -> None:
        """Take back what a workflow keeps; that it shall keep nothing is kept already."""
        self._inbox.put(_Releases(workflow=workflow))

    def reschedule(self) -> None:
        """Look again at who may start, as the cluster or somebody's quota has changed."""
        self._inbox.put(_Wake())

    def tell_progress(self, job: JobId) -> None:
        """Tell followers that there are new readings of a job."""
        self._watch.tell(Topic.PROGRESS, job)

    def close(self) -> None:
        """Stop, and fail every job that has not ended; its pods are the launcher's to end."""
        self._is_closing.set()
        self._inbox.put(_Wake())
        self._threads[0].join(timeout=10)
        for job in self._state.jobs.unfinished():
            self._abandon(job, STOP_MESSAGE)

    def _run(self) -> None:
        while not self._is_closing.is_set():
            try:
                self._turn()
            except Exception:  # outermost loop of the thread that moves every job
                logger.exception("Reconciler failed in one turn; it goes on with the next")

    def _turn(self) -> None:
        item = self._next_item()
        while item is not None:
            self._take(item)
            item = None if self._inbox.empty() else self._inbox.get()
        now = self._clock.monotonic_seconds()
        for job, live in list(self._live.items()):
            if live.remind_at is not None and now >= live.remind_at:
                live.remind_at = None
                self._apply(job, machine.TimeElapsed())
        if now >= self._next_lease_check:
            self._next_lease_check = now + _LEASE_CHECK_SECONDS
            self._expire_leases()
        if self._is_queue_dirty:
            self._is_queue_dirty = False
            self._schedule()

    def _next_item(self) -> _Item | None:
        now = self._clock.monotonic_seconds()
        times = [live.remind_at for live in self._live.values() if live.remind_at is not None]
        wake_at = min([*times, self._next_lease_check])
        try:
            return self._inbox.get(timeout=max(wake_at - now, 0.0) or 0.001)
        except queue.Empty:
            return None

    def _take(self, item: _Item) -> None:
        match item:
            case _Happened(job=job_id, event=event):
                self._apply(job_id, event)
            case PodExit():
                self._take_exit(item)
            case JobStopped(job=job_id):
                self._state.pods.set_stopped(job_id, at=self._clock.now())
                self._apply(job_id, machine.Stopped())
            case LauncherLost(jobs=jobs, reason=reason):
                for job_id in jobs:
                    self._lose(job_id, reason)
            case _Question(job=pending, answer=answer):
                with _answering(answer):
                    answer.set_result(self._dispatcher.would_start(pending))
            case _:
                self._take_wish(item)

    def _take_wish(self, wish: _Wish) -> None:
        self._is_queue_dirty = True
        match wish:
            case _Submitted(job=job):
                self._begin(job)
            case _Reprioritised(job=job_id, priority=priority):
                self._dispatcher.reprioritise(job_id, priority)
            case _Holds(workflow=workflow):
                self._hold(workflow)
            case _Releases(workflow=workflow):
                self._reserving.discard(workflow)
                self._model.reload_reservations()
            case _Wake():
                pass
            case _:
                assert_never(wish)

    def _begin(self, job: JobRecord) -> None:
        self._live[job.id] = _Live(_state_of(job), job)
        if job.type is JobType.DRIVER:  # it needs no system: its jobs wait for theirs
            self._apply(job.id, machine.Admitted(systems=()))
            return
        self._dispatcher.add(job)

    def _take_exit(self, end: PodExit) -> None:
        live = self._live.get(end.job)
        is_expected = live is None or live.state.is_stopping or end.exit_code == 0
        message = "stopped with its job" if is_expected and end.exit_code else end.reason
        exit_code = 0 if is_expected else end.exit_code
        self._state.pods.set_ended(
            end.pod, exit_code=exit_code, message=message, at=self._clock.now()
        )
        if not is_expected:
            logger.warning("Pod ended", extra={"job": end.job, "pod": end.pod, "how": end.reason})
            self._tell(end.job, "Error", f"{end.pod} {end.reason}", subject=end.pod)
        event = machine.PodExited(
            pod=end.pod, role=end.role, exit_code=end.exit_code, reason=end.reason
        )
        self._apply(end.job, event)

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
        previous = live.state.phase
        live.state, actions = machine.step(live.state, event)
        for action in actions:
            if isinstance(action, machine.Enter):
                self._enter(live, previous, action)
                previous = action.phase
            else:
                self._act(live, action)

    def _act(self, live: _Live, action: machine.Errand) -> None:
        job = live.state.job
        match action:
            case machine.Explain(message=message):
                self._state.jobs.set_message(job, message)
                self._watch.notify(job)
            case machine.Launch():
                self._launch(job)
            case machine.TellCoordinator(reason=reason, is_failure=is_failure, pod=pod):
                self._coordinators.tell_end(
                    job,
                    self._launcher.runtime_dir(job),
                    reason=reason,
                    is_failure=is_failure,
                    pod=pod,
                )
            case machine.StopPods():
                live.remind_at = None
                self._launcher.stop(job)
            case machine.Remind(seconds=seconds):
                live.remind_at = self._clock.monotonic_seconds() + seconds
            case _:
                assert_never(action)

    def _enter(self, live: _Live, previous: Phase, action: machine.Enter) -> None:
        job = live.state.job
        grant = live.grant if action.systems is not None else None
        self._state.jobs.change_phase(
            job,
            previous,
            action.phase,
            message=action.message,
            systems=action.systems,
            holding=None if grant is None else holding_of(grant),
        )
        if grant is not None and grant.workflow in self._reserving:
            self._keep(grant)
        logger.info(
            "Job changed phase",
            extra={"job": job, "phase": action.phase.value, "why": action.message},
        )
        self._dispatcher.remove(job)
        if action.phase.is_terminal:
            self._live.pop(job, None)
            if live.grant is not None:
                self._dispatcher.account_for(live.job, live.grant, action.phase)
            self._state.leases.end(job)
        self._is_queue_dirty = True
        self._watch.notify(job)

    def _launch(self, job: JobId) -> None:
        try:
            specs = self._plan_pods(self._state.jobs.load(job))
            self._state.pods.create(_pod_record(spec, self._launcher.node) for spec in specs)
            pids = self._launcher.launch(specs)
        except (ClusterError, OSError) as error:
            self.post(job, machine.LaunchFailed(message=f"job could not be launched: {error}"))
            return
        self._state.pods.set_running(pids)
        logger.info("Pods launched", extra={"job": job, "pods": len(pids)})
        self.post(job, machine.Launched())

    def _expire_leases(self) -> None:
        for lease in self._state.leases.expired():
            logger.warning("Lease expired", extra={"lease": lease.id, "holder": lease.holder})
            self._state.leases.end(lease.id)
            self._watch.notify(JobId(lease.id))
            if WorkflowId(lease.id) in self._reserving:
                self._state.workflows.release(WorkflowId(lease.id))
                self._take_wish(_Releases(workflow=WorkflowId(lease.id)))
            self._apply(JobId(lease.id), machine.LeaseExpired(seconds=lease.seconds))

    def _schedule(self) -> None:
        before = self.published
        decisions = self._dispatcher.run_cycle()
        self._watch.tell(Topic.QUEUE)
        for job in self._watch.followed():
            if before.find(job) != self.published.find(job):
                self._watch.notify(job)
        for decision in decisions:
            match decision:
                case Admit(job=job, grant=grant):
                    self._live[job].grant = grant
                    self._apply(job, machine.Admitted(systems=grant.systems))
                case Reject(job=job, error=error):
                    self._tell(job, "SchedulingFailed", str(error), subject=job)
                    self._apply(job, machine.Rejected(message=str(error)))
                case Preempt():
                    raise InternalError("The policy allows no preemption, as no job requeues yet.")
                case _:
                    assert_never(decision)

    def _hold(self, workflow: WorkflowId) -> None:
        self._reserving.add(workflow)
        for live in self._live.values():
            if live.grant is not None and live.grant.workflow == workflow:
                self._keep(live.grant)

    def _keep(self, grant: Grant) -> None:
        """Add what a job got to what its workflow keeps."""
        workflow = grant.workflow and self._state.workflows.find(grant.workflow)
        if not workflow:
            return
        old = [r for r in self._model.facts.reservations if r.workflow.id == workflow.id]
        systems = dict.fromkeys(name for r in old for name in r.systems)
        groups = dict.fromkeys(name for r in old for name in r.node_groups)
        kept = Reservation(
            workflow=workflow,
            systems=tuple(systems | dict.fromkeys((*grant.systems, *grant.reserved_systems))),
            node_groups=tuple(groups | dict.fromkeys(grant.node_groups)),
        )
        self._state.workflows.keep(kept)
        self._model.reload_reservations()

    def _grants(self) -> Iterator[Grant]:
        for live in self._live.values():
            if live.grant is not None:
                yield replace(live.grant, is_ending=live.state.is_stopping)

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

    def _abandon(self, job: JobRecord, message: str) -> None:
        now = self._clock.now()
        self._state.pods.set_stopped(job.id, at=now)
        self._state.jobs.change_phase(job.id, job.phase, Phase.FAILED, message=message)
        logger.warning("Unfinished job is failed", extra={"job": job.id, "why": message})

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


def _state_of(job: JobRecord) -> machine.JobState:
    return machine.JobState(job=job.id, type=job.type, phase=job.phase)


def _pod_record(spec: PodSpec, node: str) -> PodRecord:
    return PodRecord(name=spec.name, job=spec.job, role=spec.role, index=spec.index, node=node)
