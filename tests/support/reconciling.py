"""A reconciler over a real database, with a launcher that starts no process."""

import queue
from contextlib import contextmanager
from pathlib import Path

from appliance.cluster.launcher import JobStopped, Survivor
from appliance.core.clock import SystemClock
from appliance.core.ids import Role
from appliance.core.pods import PodSpec
from appliance.management.coordinators import Coordinators
from appliance.management.jobs import JobService
from appliance.management.queue_view import QueueService
from appliance.management.reconciler import Reconciler
from appliance.management.sessions import SessionService
from appliance.management.watch import JobWatch
from tests.support.management import make_model, opened_state


class IdleLauncher:
    """Launches nothing and says that it did; what is stopped has stopped."""

    node = "here"

    def __init__(self) -> None:
        self.exits = queue.Queue()
        self.launched = []
        self.known = {}

    def runtime_dir(self, job):
        return Path("/nonexistent") / job

    def launch(self, pods):
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


class SilentCoordinators(Coordinators):
    """There is no coordinator to tell."""

    def tell_end(self, job, runtime_dir, *, reason, is_failure, pod):
        pass


def one_pod(job):
    """A job is its coordinator alone."""
    return (
        PodSpec(
            job=job.id,
            role=Role.COORDINATOR,
            index=0,
            runtime_dir=Path("/nonexistent"),
            work_dir=Path("/nonexistent"),
            management_address="",
        ),
    )


class Desk:
    """The services around one reconciler."""

    def __init__(self, state, model, *, policy=None, on_superseded=lambda: None):
        self.state, self.model = state, model
        self.launcher = IdleLauncher()
        self.reconciler = Reconciler(
            state=state,
            launcher=self.launcher,
            coordinators=SilentCoordinators(),
            plan_pods=one_pod,
            watch=JobWatch(),
            clock=state.clock,
            model=model,
            policy=policy,
            on_superseded=on_superseded,
        )
        model.on_change(self.reconciler.reschedule)
        self.jobs = JobService(state, self.reconciler, "")
        self.sessions = SessionService(state, model)
        self.queue = QueueService(state, self.reconciler, model, self.sessions)

    def submit(self, new):
        """Keep a job and hand it to the reconciler, as the submission service does."""
        record = self.state.jobs.create(new)
        self.reconciler.submit(record)
        return record.id

    def is_queued(self, job):
        return self.queue.find(job) is not None


@contextmanager
def running_desk(path, *, num_systems=2, policy=None):
    """Yield the services around a reconciler that runs."""
    with opened_state(path, SystemClock()) as state:
        desk = Desk(state, make_model(state, num_systems=num_systems), policy=policy)
        desk.reconciler.start()
        yield desk
        desk.reconciler.close()
