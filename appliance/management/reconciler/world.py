"""What the functions of the reconciler's thread share: its jobs, its turn, and whom it asks.

A live job is a frozen value: each change puts another one in its place, and an event that fails
puts the one from before back. Other threads see what is committed: the records of `JobRepository`.
"""

import heapq
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from appliance.cluster.launcher import Launcher
from appliance.core.changed_values import changed
from appliance.core.clock import Clock
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import EventRecord, JobRecord
from appliance.core.ids import JobId, Role, WorkflowId, pod_name
from appliance.core.pods.end_cause import EndCause
from appliance.core.quick_init import quick_init
from appliance.management.changes.watch import Awaited, JobWatch
from appliance.management.cluster.cluster_model import ClusterModel
from appliance.management.pods.coordinators import Coordinators
from appliance.management.pods.pod_planner import PlannedPods
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.mailbox import Mailbox
from appliance.management.reconciler.scheduling.dispatcher import Dispatcher
from appliance.management.reconciler.scheduling.reservations import Reservations
from appliance.management.reconciler.scheduling.run_progress import ProgressBook
from appliance.management.reconciler.turn import Launching, Turn
from appliance.management.reconciler.verdicts import Verdict
from appliance.management.store.state import State
from appliance.scheduler.policy import Policy
from appliance.scheduler.snapshot import Grant

PlanPods = Callable[[JobRecord], PlannedPods]


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class LiveJob:
    """A job that has not ended.

    Attributes:
        record: Its record, as the present turn leaves it; labels and the directory of artifacts,
            which others change, as they were when it was taken in.
        run: What the job machine decides by.
        grant: What it holds; None while it waits.
    """

    record: JobRecord
    run: machine.JobState
    grant: Grant | None = None

    @property
    def id(self) -> JobId:
        """The job's id."""
        return self.record.id


class LiveJobs:
    """The table of the jobs that have not ended, and which of them hold a grant.

    Args:
        progress: How far running jobs are.
    """

    def __init__(self, progress: ProgressBook) -> None:
        self._progress = progress
        self._jobs: dict[JobId, LiveJob] = {}
        self._holders: dict[JobId, Grant] = {}

    def __contains__(self, job: JobId) -> bool:
        return job in self._jobs

    def __getitem__(self, job: JobId) -> LiveJob:
        return self._jobs[job]

    def find(self, job: JobId) -> LiveJob | None:
        """Return a job; None if it has ended or never was."""
        return self._jobs.get(job)

    def put(self, live: LiveJob) -> LiveJob:
        """Keep a job as it is now, in place of what it was; one that has a grant holds it."""
        job = live.record.id
        self._jobs[job] = live
        if live.grant is not None:
            self._holders[job] = live.grant
        elif self._holders.pop(job, None) is not None:
            self._progress.forget(job)
        return live

    def put_record(self, record: JobRecord) -> LiveJob:
        """Keep another record of a job; what it holds and where it stands remain."""
        live = self._jobs[record.id]
        live = LiveJob(record=record, run=live.run, grant=live.grant)
        self._jobs[record.id] = live
        return live

    def remove(self, job: JobId) -> None:
        """Forget a job, and what it holds."""
        self._jobs.pop(job, None)
        self._holders.pop(job, None)
        self._progress.forget(job)

    def workflows(self) -> Iterator[WorkflowId]:
        """Yield the workflow of each job."""
        return (live.record.workflow for live in self._jobs.values())

    def held(self) -> Iterator[Grant]:
        """Yield what each job holds that holds something."""
        return iter(self._holders.values())

    def grants(self) -> Iterator[Grant]:
        """Return what each job holds, as the scheduler sees it."""
        return map(self._seen, self._holders.values())

    def _seen(self, grant: Grant) -> Grant:
        grant = self.with_progress(grant)
        is_ending = self._jobs[grant.job].run.is_ending
        return changed(grant, is_ending=True) if is_ending else grant

    def with_progress(self, grant: Grant) -> Grant:
        """Return what a job holds, with how far it is."""
        progress, completed = self._progress.sessions(grant.job)
        if progress is None and completed is None:
            return grant
        return changed(grant, progress=progress, completed=completed)


class Alarm(StrEnum):
    """Why a job is to be looked at again."""

    GRACE = "grace"
    LIMIT = "limit"


_ALARMS = tuple(Alarm)


class Reminders:
    """When which job is to be looked at again; one alarm of each kind for a job."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, JobId, Alarm]] = []
        self._due: dict[tuple[JobId, Alarm], int] = {}
        self._numbers = itertools.count()

    def set(self, job: JobId, alarm: Alarm, at_seconds: float) -> None:
        """Look at a job at a time, in place of the time set before."""
        number = next(self._numbers)
        self._due[job, alarm] = number
        heapq.heappush(self._heap, (at_seconds, number, job, alarm))

    def clear(self, job: JobId, *alarms: Alarm) -> None:
        """Forget a job's alarms of some kinds; of all kinds if none is named."""
        for alarm in alarms or _ALARMS:
            self._due.pop((job, alarm), None)

    def next_seconds(self) -> float | None:
        """Return when the next alarm is due; None if there is none."""
        while self._heap and self._due.get(self._heap[0][2:]) != self._heap[0][1]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take_due(self, now_seconds: float) -> list[tuple[JobId, Alarm]]:
        """Return and forget the alarms that are due, in order."""
        due = []
        while (at := self.next_seconds()) is not None and at <= now_seconds:
            _, _, job, alarm = heapq.heappop(self._heap)
            del self._due[job, alarm]
            due.append((job, alarm))
        return due


class JobListener(Protocol):
    """What others decide about jobs, or want to know of them."""

    def held_from_start(self, job: JobRecord) -> str:
        """Return what holds a new job that nobody holds; empty if it may start."""

    def pod_lost(self, driver: JobRecord, end: machine.PodExited) -> str:
        """Return why a driver whose pod has ended badly is started again; empty if it is not."""

    def last_words(self, driver: JobRecord) -> str:
        """Return the last error that the script of such a driver printed; may be empty."""

    def script_ended(self, driver: JobRecord, how: str) -> None:
        """Take note of the end of such a script, once committed and before it starts again."""

    def job_ended(self, job: JobId) -> None:
        """Take note, without waiting, that a job has ended, once that is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that a message to the reconciler may change or ask.

    Attributes:
        jobs: The jobs that have not ended.
        turn: Collects what follows from this turn after its commit.
        queue: The jobs that wait, and the scheduler.
        reservations: What workflows keep between their jobs.
        reminders: When jobs are looked at again.
        launching: Launches and stops pods.
        plan_pods: Says which pods a job consists of.
        state: The appliance's database.
        mailbox: Where everybody reads what was found.
        watch: Told of jobs whose place in the queue has changed.
        listener: What others decide or want to know.
        requeues_disrupted: Whether a job whose pod was taken away goes back into the queue, if it
            can, in place of failing.
    """

    jobs: LiveJobs
    turn: Turn
    queue: Dispatcher
    reservations: Reservations
    reminders: Reminders
    launching: Launching
    plan_pods: PlanPods
    state: State
    clock: Clock
    mailbox: Mailbox
    watch: JobWatch
    listener: JobListener
    requeues_disrupted: bool


def guarded(
    world: World,
    job: JobId | None,
    event: object,
    happen: Callable[[], None],
    *,
    awaited: Awaited | None = None,
) -> None:
    """Let an event happen to a job; if it fails, the job is as it was; see `Turn.guarded`."""
    before = None if job is None else world.jobs.find(job)

    def restore() -> None:
        if job is not None:
            world.jobs.remove(job)
            world.queue.remove(job)
        if before is not None:
            world.jobs.put(before)
            if before.grant is None and before.run.phase is Phase.QUEUED:
                world.queue.add(before.record)

    world.turn.guarded(event, happen, restore=restore, awaited=awaited)


def tell(
    world: World,
    job: JobId,
    reason: str,
    message: str,
    *,
    subject: str = "",
    is_warning: bool = True,
) -> None:
    """Write an event of a job."""
    event = EventRecord(
        job=job,
        at=world.clock.now(),
        reason=reason,
        message=message,
        subject=subject or job,
        is_warning=is_warning,
    )
    world.state.jobs.add_event(event)


def make_world(
    *,
    mailbox: Mailbox,
    state: State,
    launcher: Launcher,
    coordinators: Coordinators,
    plan_pods: PlanPods,
    watch: JobWatch,
    clock: Clock,
    model: ClusterModel,
    policy: Policy,
    listener: JobListener,
    requeues_disrupted: bool,
) -> World:
    """Return the world of a reconciler, with no jobs yet.

    Args:
        mailbox: Where everybody tells what has happened.
        state: The appliance's database.
        launcher: Where pods run.
        coordinators: How a coordinator is told that its job ends.
        plan_pods: Says which pods a job consists of.
        watch: Told of every change.
        clock: Times leases and grace periods.
        model: What the cluster has and who may use how much.
        policy: By which rules jobs are served.
        listener: What others decide or want to know.
        requeues_disrupted: See `World`.
    """
    jobs, turn = LiveJobs(mailbox.progress), Turn(state.database, watch)
    return World(
        jobs=jobs,
        turn=turn,
        queue=Dispatcher(model, policy, clock, jobs.grants),
        reservations=Reservations(state, model),
        reminders=Reminders(),
        launching=Launching(launcher, coordinators, mailbox, turn),
        plan_pods=plan_pods,
        state=state,
        clock=clock,
        mailbox=mailbox,
        watch=watch,
        listener=listener,
        requeues_disrupted=requeues_disrupted,
    )


def state_of(job: JobRecord) -> machine.JobState:
    """Return where a job stands, as far as the job machine is concerned."""
    return machine.JobState(
        job=job.id,
        type=job.type,
        phase=job.phase,
        verdict=Verdict.from_dict(job.verdict) if job.verdict else None,
        is_finalized=job.type is JobType.COMPILE and bool(job.artifact_dir),
    )


def lost_pod(job: JobRecord, reason: str) -> machine.PodExited:
    """Return the end of the pod that a job stands and falls with, as its launcher was lost."""
    role = Role.DRIVER if job.type is JobType.DRIVER else Role.COORDINATOR
    return machine.PodExited(
        pod=pod_name(job.id, role, 0),
        role=role,
        exit_code=137,
        reason=reason,
        cause=EndCause.NODE_LOST,
    )
