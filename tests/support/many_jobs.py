"""Thousands of waiting jobs in the database of an appliance that has not started yet."""

from pathlib import Path

from appliance.core.clock import SystemClock
from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import DEFAULT_SESSION, NewJob, User
from appliance.core.cluster.sessions import SessionSpec
from appliance.core.ids import WorkflowId, new_job_id
from appliance.management.store.state import State
from appliance.storage.engine.database import Database

USERS = ("ada", "grace", "edsger", "barbara")


def fill_queue(data_dir: Path, num_jobs: int) -> list[str]:
    """Keep jobs that wait because their session is paused; return their ids, oldest first.

    Every tenth carries the label `run=` with its number.
    """
    data_dir.mkdir(parents=True, exist_ok=True)
    database = Database.open_sqlite(data_dir / "state.db")
    try:
        state = State.over(database, SystemClock())
        state.sessions.ensure()
        state.sessions.change(
            DEFAULT_SESSION, SessionSpec(is_paused=True), version=1, by="test", message="paused"
        )
        with database.batch():
            return [_queue(state, number) for number in range(num_jobs)]
    finally:
        database.close()


def _queue(state: State, number: int) -> str:
    name = USERS[number % len(USERS)]
    job = NewJob(
        id=new_job_id(),
        type=JobType.EXECUTE,
        session=DEFAULT_SESSION,
        workflow=WorkflowId(f"wflow-{number}"),
        user=User(uid=1000 + number % len(USERS), gid=100, name=name),
        num_systems=1,
        workers_per_system=1,
        labels={"run": str(number)} if number % 10 == 0 else {},
    )
    return state.jobs.create(job).id
