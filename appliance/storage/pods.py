"""The pods of jobs, as rows."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import select, update

from appliance.core.ids import JobId, PodName, Role
from appliance.core.records import PodRecord
from appliance.storage.database import Database
from appliance.storage.tables import PodRow

_ROLE_ORDER = list(Role)


class PodRepository:
    """All pods of all jobs.

    Args:
        database: Where they are kept.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, pods: Iterable[PodRecord]) -> None:
        """Keep the pods of a job that is about to be launched, in place of those it had before."""
        with self._database.transaction() as session:
            for pod in pods:
                session.merge(_row(pod))

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
        """Keep the process ids of pods that were launched."""
        with self._database.transaction() as session:
            for name, pid in pids.items():
                change = update(PodRow).where(PodRow.name == name, PodRow.phase == "Pending")
                session.execute(change.values(phase="Running", pid=pid))

    def set_readings(
        self, name: PodName, *, step: int, resident_bytes: int, readings: Mapping[str, float]
    ) -> None:
        """Keep what a pod last reported."""
        with self._database.transaction() as session:
            change = update(PodRow).where(PodRow.name == name)
            session.execute(
                change.values(step=step, resident_bytes=resident_bytes, readings=dict(readings))
            )

    def set_ended(self, name: PodName, *, exit_code: int, message: str, at: dt.datetime) -> bool:
        """Keep how a pod ended; False if its end was kept before."""
        phase = "Succeeded" if exit_code == 0 else "Failed"
        values = {"phase": phase, "exit_code": exit_code, "message": message, "ended_at": at}
        with self._database.transaction() as session:
            change = update(PodRow).where(PodRow.name == name, PodRow.ended_at.is_(None))
            return bool(session.execute(change.values(**values)).rowcount)  # type: ignore[attr-defined]  # CursorResult

    def set_stopped(self, job: JobId, *, at: dt.datetime) -> None:
        """Mark a job's remaining pods as ended with it."""
        change = update(PodRow).where(PodRow.job == job, PodRow.phase.in_(("Pending", "Running")))
        with self._database.transaction() as session:
            session.execute(
                change.values(phase="Succeeded", message="stopped with its job", ended_at=at)
            )


def _row(pod: PodRecord) -> PodRow:
    return PodRow(
        name=pod.name,
        job=pod.job,
        role=pod.role.value,
        index=pod.index,
        node=pod.node,
        pid=pod.pid,
        phase=pod.phase,
        exit_code=pod.exit_code,
        message=pod.message,
        step=pod.step,
        resident_bytes=pod.resident_bytes,
        readings=dict(pod.readings),
        ended_at=pod.ended_at,
    )


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
