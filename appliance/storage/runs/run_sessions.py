"""The sessions that execute jobs have run, with what their pods last reported of each."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import func, select

from appliance.core.cluster.run import PodReadings, RunSession
from appliance.core.ids import JobId, PodName
from appliance.core.sparsity.masked_weights import MaskedWeights
from appliance.storage.engine.database import Database
from appliance.storage.schema.tables import RunSessionRow


class RunSessionRepository:
    """All sessions of all execute jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, job: JobId, seen: RunSession) -> None:
        """Store how far a session is; its start stays as it was first heard of.

        A session that runs though it was over is another: the job was queued again, and its
        sessions are counted from 1 again.
        """
        with self._database.transaction() as session:
            row = session.get(RunSessionRow, (job, seen.number))
            if row is None:
                row = RunSessionRow(job=job, number=seen.number, started_at=seen.started_at)
                session.add(row)
            elif row.ended_at is not None and seen.ended_at is None:
                row.started_at = seen.started_at
            row.is_training, row.num_steps = seen.is_training, seen.num_steps
            row.completed_steps, row.step_seconds = seen.completed_steps, seen.step_seconds
            row.ended_at, row.readings = seen.ended_at, _values(seen.pods)
            masked = seen.masked_weights
            row.masked_weights = None if masked is None else asdict(masked)

    def count(self, job: JobId) -> int:
        """Return how many sessions a job has run."""
        query = select(func.count()).select_from(RunSessionRow).filter_by(job=job)
        with self._database.reading() as session:
            return session.scalar(query) or 0

    def of_job(self, job: JobId) -> Sequence[RunSession]:
        """Return a job's sessions in order."""
        query = select(RunSessionRow).filter_by(job=job).order_by(RunSessionRow.number)
        with self._database.reading() as session:
            return [_record(row) for row in session.scalars(query)]


# `Any`: JSON.
def _values(pods: Mapping[PodName, PodReadings]) -> dict[str, Any]:
    return {name: asdict(pod) for name, pod in pods.items()}


def _record(row: RunSessionRow) -> RunSession:
    return RunSession(
        number=row.number,
        is_training=row.is_training,
        num_steps=row.num_steps,
        completed_steps=row.completed_steps,
        step_seconds=row.step_seconds,
        started_at=row.started_at,
        ended_at=row.ended_at,
        pods={PodName(name): PodReadings(**values) for name, values in row.readings.items()},
        masked_weights=MaskedWeights(**row.masked_weights) if row.masked_weights else None,
    )
