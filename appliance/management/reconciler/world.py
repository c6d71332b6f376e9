"""What the functions of the reconciler's thread share: its jobs, its turn, and whom it asks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from appliance.cluster.launcher import Launcher
from appliance.core.clock import Clock
from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import EventRecord, JobRecord
from appliance.core.ids import JobId
from appliance.management.changes.watch import Awaited, JobWatch
from appliance.management.cluster.cluster_model import ClusterModel
from appliance.management.pods.coordinators import Coordinators
from appliance.management.pods.pod_planner import PlannedPods
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.launching import Launching
from appliance.management.reconciler.live_jobs import LiveJobs
from appliance.management.reconciler.mailbox import Mailbox
from appliance.management.reconciler.reminders import Reminders
from appliance.management.reconciler.scheduling.dispatcher import Dispatcher
from appliance.management.reconciler.scheduling.reservations import Reservations
from appliance.management.reconciler.turn import Turn
from appliance.management.store.state import State
from appliance.scheduler.policy import Policy

PlanPods = Callable[[JobRecord], PlannedPods]


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
