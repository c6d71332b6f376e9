"""A data directory in which very many jobs wait, as an earlier management left them."""

import random
from pathlib import Path

from appliance.core.clock import SystemClock
from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import NewJob, User
from appliance.core.cluster.requirements import Requirements
from appliance.core.ids import new_job_id, new_workflow_id
from appliance.management.store.state import State
from appliance.storage.engine.database import Database

_PORTION = 2000
_NUM_USERS = 200
_SIZES = (1, 1, 2, 4, 8, 16)
_LIMITS_SECONDS = (900.0, 3600.0, 14400.0, 86400.0)
_PRIORITIES = (199, 299, 299, 399)
_LEASE_SECONDS = 86_400


def fill(data_dir: Path, count: int) -> None:
    """Keep so many execute jobs of many users, sizes, priorities and limits, all queued."""
    chance = random.Random(1)
    database = Database.open_sqlite(data_dir / "state.db")
    state = State.over(database, SystemClock())
    for start in range(0, count, _PORTION):
        with database.batch():
            for _ in range(min(_PORTION, count - start)):
                job = _job(data_dir, chance)
                state.workflows.ensure(job.workflow, session=job.session, user=job.user)
                state.jobs.create(job)
                state.leases.grant(job.id, seconds=_LEASE_SECONDS)
    database.close()


def _job(data_dir: Path, chance: random.Random) -> NewJob:
    number = chance.randrange(_NUM_USERS)
    job = new_job_id()
    return NewJob(
        id=job,
        type=JobType.EXECUTE,
        session="job-operator",
        workflow=new_workflow_id(),
        user=User(uid=2000 + number, gid=100, name=f"user{number}"),
        priority=chance.choice(_PRIORITIES),
        num_systems=chance.choice(_SIZES),
        workers_per_system=1,
        labels={"model": "gpt"},
        work_dir=str(data_dir / "jobs" / job),
        requirements=Requirements(limit_seconds=chance.choice(_LIMITS_SECONDS)),
    )
