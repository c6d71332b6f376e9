"""Everything management keeps, in one place."""

from dataclasses import dataclass

from appliance.core.clock import Clock
from appliance.storage.access import AccessRepository
from appliance.storage.database import Database
from appliance.storage.driver_specs import DriverSpecRepository
from appliance.storage.job_pages import JobPages
from appliance.storage.jobs import JobRepository
from appliance.storage.leases import LeaseRepository
from appliance.storage.notifications import NotificationRepository
from appliance.storage.pods import PodRepository
from appliance.storage.series import SeriesRepository
from appliance.storage.sessions import SessionRepository
from appliance.storage.system_events import SystemEventRepository
from appliance.storage.systems import SystemRepository
from appliance.storage.workflows import WorkflowRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The repositories over one database."""

    database: Database
    clock: Clock
    jobs: JobRepository
    driver_specs: DriverSpecRepository
    pods: PodRepository
    leases: LeaseRepository
    workflows: WorkflowRepository
    systems: SystemRepository
    access: AccessRepository
    job_pages: JobPages
    series: SeriesRepository
    sessions: SessionRepository
    system_events: SystemEventRepository
    notifications: NotificationRepository

    @classmethod
    def over(cls, database: Database, clock: Clock, *, lease_clock: Clock | None = None) -> "State":
        """Return the repositories over a database.

        Args:
            database: It.
            clock: Source of time.
            lease_clock: What leases go by, see `lease_clock`; None for `clock`.
        """
        return cls(
            database=database,
            clock=clock,
            jobs=JobRepository(database, clock),
            driver_specs=DriverSpecRepository(database),
            pods=PodRepository(database),
            leases=LeaseRepository(database, lease_clock or clock),
            workflows=WorkflowRepository(database, clock),
            systems=SystemRepository(database),
            access=AccessRepository(database, clock),
            job_pages=JobPages(database),
            series=SeriesRepository(database),
            sessions=SessionRepository(database, clock),
            system_events=SystemEventRepository(database),
            notifications=NotificationRepository(database),
        )
