"""Everything management keeps, in one place."""

from dataclasses import dataclass

from appliance.core.clock import Clock
from appliance.storage.access import AccessRepository
from appliance.storage.database import Database
from appliance.storage.job_pages import JobPages
from appliance.storage.jobs import JobRepository
from appliance.storage.leases import LeaseRepository
from appliance.storage.pods import PodRepository
from appliance.storage.series import SeriesRepository
from appliance.storage.sessions import SessionRepository
from appliance.storage.systems import SystemRepository
from appliance.storage.workflows import WorkflowRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The repositories over one database."""

    database: Database
    clock: Clock
    jobs: JobRepository
    pods: PodRepository
    leases: LeaseRepository
    workflows: WorkflowRepository
    systems: SystemRepository
    access: AccessRepository
    job_pages: JobPages
    series: SeriesRepository
    sessions: SessionRepository

    @classmethod
    def over(cls, database: Database, clock: Clock) -> "State":
        """Return the repositories over a database."""
        return cls(
            database=database,
            clock=clock,
            jobs=JobRepository(database, clock),
            pods=PodRepository(database),
            leases=LeaseRepository(database, clock),
            workflows=WorkflowRepository(database, clock),
            systems=SystemRepository(database),
            access=AccessRepository(database, clock),
            job_pages=JobPages(database),
            series=SeriesRepository(database),
            sessions=SessionRepository(database, clock),
        )
