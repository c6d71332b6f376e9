"""The pods of jobs, as rows."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import bindparam, or_, select, update

from appliance.core.cluster.records import PodRecord
from appliance.core.ids import JobId, PodName, Role
from appliance.storage.engine.database import Database
from appliance.storage.engine.writes import Row, Statement, Write, replacing
from appliance.storage.schema.tables import PodRow, table_of

_ROLE_ORDER = list(Role)

_PODS = table_of(PodRow)
_OF_NAME = update(_PODS).where(_PODS.c.name == bindparam("of_name"))
_OF_JOB = update(_PODS).where(_PODS.c.job == bindparam("of_job"))

_NEW = replacing(_PODS, rank=40)
_RUNNING = Statement(rank=41, clause=_OF_NAME.where(_PODS.c.phase == "Pending"))
_ENDED = Statement(rank=42, clause=_OF_NAME.where(_PODS.c.ended_at.is_(None)))
_STOPPED = Statement(
    rank=43, clause=_OF_JOB.where(or_(_PODS.c.phase == "Pending", _PODS.c.phase == "Running"))
)


class PodRepository:
    """All pods of all jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, pods: Iterable[PodRecord]) -> None:
        """Store the pods of a job that is about to be launched, in place of those it had before."""
        for job, members in groupby(pods, key=lambda pod: pod.job):
            self._database.write(_write(_NEW, job, [_row(pod) for pod in members]))

    def of_job(self, job: JobId) -> Sequence[PodRecord]:
        """Return a job's pods, by role and number."""
        with self._database.reading() as session:
            records = [_record(row) for row in session.scalars(select(PodRow).filter_by(job=job))]
        return sorted(records, key=lambda pod: (_ROLE_ORDER.index(pod.role), pod.index))

    def running(self, jobs: Sequence[JobId]) -> Sequence[PodRecord]:
        """Return the pods of some jobs that run, by name."""
        query = select(PodRow).where(PodRow.job.in_(list(jobs)), PodRow.phase == "Running")
        with self._database.reading() as session:
            return [_record(row) for row in session.scalars(query.order_by(PodRow.name))]

    def set_running(self, pids: Mapping[PodName, int]) -> None:
        """Store the process ids of pods that were launched."""
        for job, names in groupby(pids, key=_job_of):
            rows = [{"of_name": name, "phase": "Running", "pid": pids[name]} for name in names]
            self._database.write(_write(_RUNNING, job, rows))

    def set_readings(
        self, name: PodName, *, step: int, resident_bytes: int, readings: Mapping[str, float]
    ) -> None:
        """Store what a pod last reported."""
        with self._database.transaction() as session:
            change = update(PodRow).where(PodRow.name == name)
            session.execute(
                change.values(step=step, resident_bytes=resident_bytes, readings=dict(readings))
            )

    def has_ended(self, name: PodName) -> bool:
        """Whether a pod's end is stored."""
        query = select(PodRow.ended_at).where(PodRow.name == name)
        with self._database.reading() as session:
            return session.scalar(query) is not None

    def set_ended(self, name: PodName, *, exit_code: int, message: str, at: dt.datetime) -> None:
        """Store how a pod ended, unless its end is stored already."""
        row = {
            "of_name": name,
            "phase": "Succeeded" if exit_code == 0 else "Failed",
            "exit_code": exit_code,
            "message": message,
            "ended_at": at,
        }
        self._database.write(_write(_ENDED, _job_of(name), [row]))

    def set_stopped(self, job: JobId, *, at: dt.datetime) -> None:
        """Mark a job's remaining pods as ended with it."""
        row = {"of_job": job, "message": "stopped with its job", "ended_at": at}
        self._database.write(_write(_STOPPED, job, [{**row, "phase": "Succeeded"}]))


def _job_of(pod: PodName) -> str:
    """Return the job of a pod; `pod_name` says how a pod's name is made."""
    return pod.rsplit("-", 2)[0]


def _write(statement: Statement, job: str, rows: Sequence[Row]) -> Write:
    return Write(statement=statement, key=f"pods of {job}", rows=rows)


# `Any`: values of columns.
def _row(pod: PodRecord) -> dict[str, Any]:
    return {
        "name": pod.name,
        "job": pod.job,
        "role": pod.role.value,
        "pod_index": pod.index,
        "node": pod.node,
        "pid": pod.pid,
        "phase": pod.phase,
        "exit_code": pod.exit_code,
        "message": pod.message,
        "step": pod.step,
        "resident_bytes": pod.resident_bytes,
        "readings": dict(pod.readings),
        "ended_at": pod.ended_at,
    }


def _record(row: PodRow) -> PodRecord:
    return PodRecord(
        name=PodName(row.name),
        job=JobId(row.job),
        role=Role(row.role),
        index=row.index,
        node=row.node,
        pid=row.pid,
        phase=row.phase,
        exit_code=row.exit_code,
        message=row.message,
        step=row.step,
        resident_bytes=row.resident_bytes,
        readings=row.readings,
        ended_at=row.ended_at,
    )
