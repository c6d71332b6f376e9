"""A reconciler over a real database, with a launcher that starts no process."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appliance.cluster.launcher import Exits, JobStopped, Survivor
from appliance.coordinator.compile.artifacts import CompileCache
from appliance.core.errors import ClusterError
from appliance.core.ids import Role
from appliance.core.pods.pod_spec import PodSpec
from appliance.management.changes.watch import JobWatch
from appliance.management.cluster.session_service import SessionService
from appliance.management.jobs.driver_restarts import DriverRestarts
from appliance.management.jobs.job_edits import JobEdits
from appliance.management.jobs.job_service import JobService
from appliance.management.jobs.queue_view import QueueService
from appliance.management.pods.coordinators import Coordinators
from appliance.management.pods.pod_planner import PlannedPods
from appliance.management.reconciler.mailbox import Mailbox, Submitted, Wake, Write
from appliance.management.reconciler.reconciler import Reconciler, ReconcilerOptions
from appliance.management.reconciler.world import make_world
from appliance.scheduler.policy import Policy
from tests.support.management import make_model, opened_state

_MOST_TURNS, _TURN_SECONDS = 40, 0.25
"""What follows from one event is done within a few turns, or when a grace of seconds is over."""
_SECONDS = 300
"""For one turn, on a machine that is busy."""


class IdleLauncher:
    """Launches nothing and says that it did; what is stopped has stopped."""

    node = "here"
    is_far = False

    def __init__(self) -> None:
        self.exits = Exits()
        self.launched = []
        self.known = {}

    def runtime_dir(self, job):
        return Path("/nonexistent") / job

    def launch(self, pods, request=b""):
        self.launched.append(pods[0].job)
        pids = {spec.name: 1 for spec in pods}
        self.known[pods[0].job] = Survivor(pids=pids, exits=(), is_stopped=False)
        return pids

    def survivors(self):
        return self.known

    def forget(self, job):
        self.known.pop(job, None)

    def stop(self, job):
        self.exits.put(JobStopped(job=job))

    def close(self):
        pass


class FarLauncher(IdleLauncher):
    """Launches nothing either, and keeps those waiting who launch certain jobs."""

    is_far = True

    def __init__(self, *waits_for) -> None:
        super().__init__()
        self.waits_for, self.answers = waits_for, threading.Event()
        self.orders = queue.Queue()

    def launch(self, pods, request=b""):
        job = pods[0].job
        self.orders.put(("launch", job))
        if job in self.waits_for:
            assert self.answers.wait(60)
            raise ClusterError(f"Job {job} was not launched: its node does not answer.")
        return super().launch(pods, request)

    def stop(self, job):
        self.orders.put(("stop", job))
        super().stop(job)

    def forget(self, job):
        self.orders.put(("forget", job))
        super().forget(job)


class SilentCoordinators(Coordinators):
    """There is no coordinator to tell."""

    def __init__(self):
        pass

    def tell_end(self, job, runtime_dir, *, reason, is_failure, pod, is_preemption):
        pass


# `Any`: values of the fields.
def reconciler_options(**changes: Any) -> ReconcilerOptions:
    """Return options of a reconciler that nobody but the test listens to."""
    settings = {
        "lease_seconds": 30,
        "history_seconds": None,
        "on_lost": lambda: None,
        "on_refused": lambda: None,
    }
    return ReconcilerOptions(**{**settings, **changes})


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """Lets new jobs start, and has nobody hear of jobs that end."""

    restarts: DriverRestarts
    pod_lost: Callable[..., str] = lambda *_: ""
    held_from_start: Callable[..., str] = lambda _: ""

    def last_words(self, driver):
        return ""

    def script_ended(self, driver, how):
        self.restarts.script_ended(driver, how)

    def job_ended(self, job):
        pass


def one_pod(job):
    """A job is its coordinator alone."""
    spec = PodSpec(
        job=job.id,
        role=Role.COORDINATOR,
        index=0,
        runtime_dir=Path("/nonexistent"),
        work_dir=Path("/nonexistent"),
        management_address="",
    )
    return PlannedPods(pods=(spec,))


class Harness:
    """The services around one reconciler."""

    def __init__(
        self,
        state,
        model,
        *,
        policy=None,
        on_lost=lambda: None,
        on_refused=lambda: None,
        pod_lost=lambda *_: "",
        launcher=None,
        requeues_disrupted=False,
    ):
        self.state, self.model = state, model
        self.launcher = launcher or IdleLauncher()
        self.mailbox, self.watch = Mailbox(), JobWatch()
        self.jobs = JobService(
            state,
            self.mailbox,
            "",
            compile_cache=CompileCache(root=Path("/nowhere")),
            watch=self.watch,
        )
        self.world = make_world(
            mailbox=self.mailbox,
            state=state,
            launcher=self.launcher,
            coordinators=SilentCoordinators(),
            plan_pods=one_pod,
            watch=self.watch,
            clock=state.clock,
            model=model,
            policy=policy or Policy(),
            listener=Listener(restarts=DriverRestarts(state, self.mailbox), pod_lost=pod_lost),
            requeues_disrupted=requeues_disrupted,
        )
        options = reconciler_options(on_lost=on_lost, on_refused=on_refused)
        self.reconciler = Reconciler(self.world, options)
        model.on_change(lambda: self.mailbox.post(Wake()))
        self.sessions = SessionService(state, model)
        self.edits = JobEdits(state, self.jobs, self.mailbox)
        self.queue = QueueService(state, self.mailbox, model, self.sessions)

    def submit(self, new):
        """Keep a job and hand it to the reconciler, as the submission service does."""
        record = self.state.jobs.create(new)
        self.mailbox.post(Submitted(record=record))
        return record.id

    def is_queued(self, job):
        return self.queue.find(job) is not None

    def until(self, condition):
        """Have the reconciler take turns until a condition holds, a quarter of a second each."""
        for _ in range(_MOST_TURNS):
            if condition():
                return
            self.state.clock.advance(_TURN_SECONDS)
            committed = Future()
            self.mailbox.post(Write(write=lambda: None, committed=committed))
            committed.result(timeout=_SECONDS)
        raise AssertionError(f"{condition} does not hold after {_MOST_TURNS} turns")

    def advance(self, seconds):
        """Let time pass; what is due then is done in the next turn."""
        self.state.clock.advance(seconds)
        self.mailbox.post(Wake())


@contextmanager
def running_harness(
    path, *, num_systems=2, management_gib=0, policy=None, launcher=None, clock=None
):
    """Yield the services around a reconciler that runs; its time passes as a test says."""
    with opened_state(path, clock) as state:
        model = make_model(state, num_systems=num_systems, management_gib=management_gib)
        harness = Harness(state, model, policy=policy, launcher=launcher)
        harness.reconciler.start()
        yield harness
        harness.reconciler.close()
