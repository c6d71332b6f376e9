"""All of management's stored state, in one place."""

from dataclasses import dataclass

from appliance.core.clock import Clock
from appliance.storage.cluster.sessions import SessionRepository
from appliance.storage.cluster.system_events import SystemEventRepository
from appliance.storage.cluster.systems import SystemRepository
from appliance.storage.engine.database import Database
from appliance.storage.queue.driver_specs import DriverSpecRepository
from appliance.storage.queue.job_pages import JobPages
from appliance.storage.queue.job_requests import JobRequestRepository
from appliance.storage.queue.jobs import JobRepository
from appliance.storage.queue.leases import LeaseRepository
from appliance.storage.queue.pods import PodRepository
from appliance.storage.queue.series import SeriesRepository
from appliance.storage.queue.workflows import WorkflowRepository
from appliance.storage.runs.run_pages import RunRepository
from appliance.storage.runs.run_sessions import RunSessionRepository
from appliance.storage.users.access import AccessRepository
from appliance.storage.users.notifications import NotificationRepository


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The repositories over one database."""

    database: Database
    clock: Clock
    jobs: JobRepository
    requests: JobRequestRepository
    driver_specs: DriverSpecRepository
    pods: PodRepository
    leases: LeaseRepository
    workflows: WorkflowRepository
    systems: SystemRepository
    access: AccessRepository
    job_pages: JobPages
    series: SeriesRepository
    run_sessions: RunSessionRepository
    runs: RunRepository
    sessions: SessionRepository
    system_events: SystemEventRepository
    notifications: NotificationRepository

    @classmethod
    def over(cls, database: Database, clock: Clock, *, lease_clock: Clock | None = None) -> "State":
        """Return the repositories over a database.

        Args:
            lease_clock: What leases go by, see `lease_clock`; None for `clock`.
        """
        return cls(
            database=database,
            clock=clock,
            jobs=JobRepository(database, clock),
            requests=JobRequestRepository(database),
            driver_specs=DriverSpecRepository(database),
            pods=PodRepository(database),
            leases=LeaseRepository(database, lease_clock or clock),
            workflows=WorkflowRepository(database, clock),
            systems=SystemRepository(database),
            access=AccessRepository(database, clock),
            job_pages=JobPages(database),
            series=SeriesRepository(database),
            run_sessions=RunSessionRepository(database),
            runs=RunRepository(database, clock),
            sessions=SessionRepository(database, clock),
            system_events=SystemEventRepository(database),
            notifications=NotificationRepository(database),
        )
