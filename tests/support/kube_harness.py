"""Management over a Kubernetes API server: all but the listeners and the programs of pods."""

import contextlib
from pathlib import Path

from appliance.cluster.kubernetes.options import OnDrain
from appliance.coordinator.compile.artifacts import CompileCache
from appliance.core.clock import SystemClock
from appliance.core.cluster.jobs import JobType
from appliance.core.ids import Role
from appliance.core.pods.pod_options import PodOptions
from appliance.core.pods.pod_spec import PodSpec
from appliance.management.access.authorization import open_access
from appliance.management.access.driver_tokens import open_driver_tokens
from appliance.management.changes.watch import JobWatch, Topic
from appliance.management.cluster.inventory import Inventory
from appliance.management.cluster.session_service import SessionService
from appliance.management.cluster.system_service import SystemService
from appliance.management.jobs.driver_restarts import DriverRestarts
from appliance.management.jobs.driver_service import DriverService
from appliance.management.jobs.job_edits import JobEdits
from appliance.management.jobs.job_service import JobService
from appliance.management.kubernetes.namespaced_jobs import NamespacedJobs
from appliance.management.kubernetes.wscsystems import WscSystems
from appliance.management.kubernetes.wsjobs import JobServices
from appliance.management.pods.pod_planner import PlannedPods
from appliance.management.reconciler.mailbox import Mailbox, Submitted, Wake
from appliance.management.reconciler.reconciler import Reconciler
from appliance.management.reconciler.world import make_world
from appliance.scheduler.policy import Policy
from tests.support.management import make_model, opened_state
from tests.support.reconciling import Listener, SilentCoordinators, reconciler_options


class KubeHarness:
    """The services around one reconciler whose pods are pods of a cluster."""

    def __init__(self, state, model, api, options, directory: Path) -> None:
        self.state, self.directory = state, directory
        self.mailbox = Mailbox()
        clock = SystemClock()
        restarts = DriverRestarts(state, self.mailbox)
        self.wsjobs = NamespacedJobs(api, options, state, clock)
        self.launcher = self.wsjobs.launcher
        self.watch = JobWatch()
        world = make_world(
            mailbox=self.mailbox,
            state=state,
            launcher=self.launcher,
            coordinators=SilentCoordinators(),
            plan_pods=self._plan,
            watch=self.watch,
            clock=clock,
            model=model,
            policy=Policy(),
            listener=Listener(
                restarts=restarts,
                pod_lost=restarts.pod_lost,
                held_from_start=self.wsjobs.held_from_start,
            ),
            requeues_disrupted=options.on_drain is OnDrain.REQUEUE,
        )
        self.reconciler = Reconciler(world, reconciler_options())
        model.on_change(lambda: self.mailbox.post(Wake()))
        self.jobs = JobService(
            state,
            self.mailbox,
            "http://dashboard",
            compile_cache=CompileCache(root=directory / "compile"),
            watch=self.watch,
        )
        self.edits = JobEdits(state, self.jobs, self.mailbox)
        self.sessions = SessionService(state, model)
        self.access = open_access(directory, state.database, clock, needs_token=False)
        self.access.on_change(lambda kind, name: self.wsjobs.look_at(name))
        self.drivers = DriverService(
            state,
            self.mailbox,
            open_driver_tokens(directory),
            self.sessions,
            directory,
            model=model,
            max_drivers=64,
            on_kubernetes=True,
        )
        self.systems = SystemService(state, model)
        self.wscsystems = WscSystems(api, Inventory(state, model), self.systems, clock)
        model.on_change(self.wscsystems.look)

    def start(self) -> None:
        self.watch.listen(self.wsjobs.look_at)
        self.watch.listen(self.wscsystems.look)
        self.reconciler.start()
        services = JobServices(
            state=self.state,
            jobs=self.jobs,
            edits=self.edits,
            drivers=self.drivers,
            access=self.access,
            sessions=self.sessions,
        )
        self.wsjobs.start(services)
        self.wscsystems.start()

    def submit(self, new):
        """Keep a job and hand it to the reconciler, as the submission service does."""
        record = self.state.jobs.create(new)
        self.mailbox.post(Submitted(record=record))
        self.watch.tell(Topic.JOB, record.id)  # as servicers do with the audit record
        return record.id

    def close(self) -> None:
        self.reconciler.pause()
        self.wscsystems.close()
        self.wsjobs.close()

    def _plan(self, job):
        members = (
            [(Role.DRIVER, 0)]
            if job.type is JobType.DRIVER
            else [(Role.COORDINATOR, 0), (Role.CHIEF, 0)]
        )
        pods = tuple(
            PodSpec(
                job=job.id,
                role=role,
                index=index,
                runtime_dir=self.directory / "run" / job.id,
                work_dir=self.directory / "jobs" / job.id,
                management_address="",
                options=PodOptions(user_uid=job.user.uid),
            )
            for role, index in members
        )
        return PlannedPods(pods=pods)


@contextlib.contextmanager
def running_kube_harness(directory, api, options, *, num_systems=2):
    """Yield the services, begun; as often as wished over one directory."""
    with opened_state(directory, SystemClock()) as state:
        state.database.claim()
        harness = KubeHarness(
            state, make_model(state, num_systems=num_systems), api, options, directory
        )
        harness.start()
        try:
            yield harness
        finally:
            harness.close()
