"""Management's services over a database of their own, without any process."""

from contextlib import contextmanager
from dataclasses import replace

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import NewJob, User
from appliance.core.cluster.systems import ClusterDescription, Node, System
from appliance.core.ids import JobId, WorkflowId
from appliance.management.cluster.cluster_model import ClusterModel
from appliance.management.store.state import State
from appliance.storage.engine.database import Database
from tests.support.clock import FakeClock


@contextmanager
def opened_state(path, clock=None):
    """Yield the repositories over a fresh SQLite file."""
    database = Database.open_sqlite(path / "state.db")
    yield State.over(database, clock or FakeClock())
    database.close()


def make_model(state, *, num_systems=4, management_gib=0):
    """Return the model of a cluster of so many systems, and of one node for management if any."""
    state.sessions.ensure()
    names = [f"systemf{index}" for index in range(num_systems)]
    node = Node(name="mgmt", roles=("management",), num_cores=8, memory_bytes=management_gib << 30)
    state.systems.replace(
        ClusterDescription(
            systems=tuple(System(name=name) for name in names),
            nodes=(node,) if management_gib else (),
        )
    )
    return ClusterModel(state)


def new_job(name="wsjob-a", **changes):
    """Return an execute job of two systems as it is submitted."""
    fields = {
        "id": JobId(name),
        "type": JobType.EXECUTE,
        "session": "job-operator",
        "workflow": WorkflowId("wflow-1"),
        "user": User(uid=1000, gid=100, name="ada"),
        "num_systems": 2,
        "workers_per_system": 1,
    }
    return NewJob(**{**fields, **changes})


def move(jobs, job, current, new, **more):
    """Move a job by its id, as somebody does who believes that it is in a phase."""
    return jobs.change_phase(replace(jobs.load(job), phase=current), new, **more)
