"""The requests that submitted jobs, as rows: written with the job, so none is without the other."""

from dataclasses import dataclass

from sqlalchemy import insert, select

from appliance.core.errors import NotFoundError
from appliance.core.ids import JobId
from appliance.storage.engine.database import Database
from appliance.storage.engine.writes import Statement, Write
from appliance.storage.queue.fresh_values import FreshValues
from appliance.storage.schema.tables import JobRequestRow, table_of

_NEW = Statement(rank=13, clause=insert(table_of(JobRequestRow)))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """The request that submitted a job.

    Attributes:
        message: It, serialised as the client sent it.
        trace: The job's place in a trace; empty for a job that is not traced.
        trace_parent: The place of what submitted it; may be empty.
    """

    message: bytes
    trace: str = ""
    trace_parent: str = ""


class JobRequestRepository:
    """The requests that submitted jobs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._fresh: FreshValues[JobRequest] = FreshValues()

    def keep(self, job: JobId, request: JobRequest) -> None:
        """Store the request of a new job, in the batch that creates it; one thread does that."""
        self._fresh.put(job, request)
        trace = f"{request.trace}\n{request.trace_parent}" if request.trace else ""
        row = {"job": job, "request": request.message, "trace": trace}
        self._database.write(Write(statement=_NEW, key=job, rows=(row,)))

    def load(self, job: JobId) -> JobRequest:
        """Return the request of a job; raises `NotFoundError` if none is kept."""
        query = select(JobRequestRow.request, JobRequestRow.trace).where(JobRequestRow.job == job)
        with self._database.reading() as rows:
            found = rows.execute(query).first()
        if found is None:
            raise NotFoundError(f"The request of job {job} is not kept.")
        trace, _, parent = found.trace.partition("\n")
        return JobRequest(message=found.request, trace=trace, trace_parent=parent.rstrip("\n"))

    def take_fresh(self, job: JobId) -> JobRequest | None:
        """Return the request of a new job for its first launch, without asking the database.

        Returns:
            None if the job was launched before, or is not one of the newest.
        """
        return self._fresh.take(job)
