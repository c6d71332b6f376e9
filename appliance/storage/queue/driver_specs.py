"""What drivers run, as rows: written with the driver, so that neither is ever without the other."""

from sqlalchemy import insert, select

from appliance.core.cluster.drivers import DriverSpec
from appliance.core.errors import NotFoundError
from appliance.core.ids import JobId
from appliance.storage.engine.database import Database
from appliance.storage.engine.writes import Statement, Write
from appliance.storage.queue.fresh_values import FreshValues
from appliance.storage.schema.tables import DriverSpecRow, table_of

_NEW = Statement(rank=12, clause=insert(table_of(DriverSpecRow)))


class DriverSpecRepository:
    """What drivers run."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._fresh: FreshValues[str] = FreshValues()

    def keep(self, job: JobId, spec: DriverSpec) -> None:
        """Store what a new driver runs, in the batch that creates it; one thread does that."""
        text = spec.to_json()
        self._fresh.put(job, text)
        self._database.write(Write(statement=_NEW, key=job, rows=({"job": job, "spec": text},)))

    def load(self, job: JobId) -> DriverSpec:
        """Return what a driver runs; raises `NotFoundError` if the job is no driver."""
        return DriverSpec.from_json(self._load_text(job))

    def take_text(self, job: JobId) -> str:
        """Return the same as JSON, for a launch: without asking the database for a new driver's."""
        text = self._fresh.take(job)
        return self._load_text(job) if text is None else text

    def _load_text(self, job: JobId) -> str:
        query = select(DriverSpecRow.spec).where(DriverSpecRow.job == job)
        with self._database.reading() as rows:
            text = rows.scalar(query)
        if text is None:
            raise NotFoundError(f"What job {job} runs is not kept; it is no detached run.")
        return text
