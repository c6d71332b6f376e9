"""Everything that management offers, as one value for REST's routes and gRPC's servicers."""

from dataclasses import dataclass, field

from appliance.core.clock import Clock
from appliance.management.access.authorization import Access
from appliance.management.access.certificates import Certificates
from appliance.management.access.single_sign_on import SingleSignOn
from appliance.management.background.activity_service import ActivityService
from appliance.management.background.estimates import Estimates
from appliance.management.changes.watch import ChangeFeed, JobWatch
from appliance.management.cluster.collector import ApplianceCollector
from appliance.management.cluster.inventory import Inventory
from appliance.management.cluster.session_service import SessionService
from appliance.management.cluster.system_service import SystemService
from appliance.management.jobs.driver_restarts import DriverRestarts
from appliance.management.jobs.driver_service import DriverService
from appliance.management.jobs.job_edits import JobEdits
from appliance.management.jobs.job_lists import JobLists
from appliance.management.jobs.job_service import JobService
from appliance.management.jobs.queue_view import QueueService
from appliance.management.jobs.run_service import RunService
from appliance.management.jobs.submissions import SubmissionService
from appliance.management.logs.job_logs import LogService
from appliance.management.logs.log_exports import LogExports
from appliance.management.options.combined_settings import ManagementOptions
from appliance.management.rpc.access_edge import Gate
from appliance.management.rpc.resource_views import ResourceViews
from appliance.management.store.state import State
from appliance.wire.connections.accepted import AcceptedConnections
from appliance.wire.networks import Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Management's services; `wiring` makes them.

    Attributes:
        options: How the appliance is set up.
        clock: Time for everything.
        tls: What the appliance proves itself with; None without TLS.
        state: The appliance's database.
        watch: Where waiters hear of changes.
        access: Who callers are, and what they may do.
        gate: Asks that for every entry point, and how often they may.
        accepted: Whose connections are.
        trusted_proxies: Networks of those who may say where a request comes from.
        jobs: Reads jobs, ends them, follows them.
        lists: Lists of jobs, and what they report.
        edits: Changes jobs that wait or run.
        runs: Scripts, each with all its jobs.
        submissions: Takes jobs in.
        drivers: Detached runs.
        driver_restarts: Whether a driver that was lost begins again.
        queue: What waits, for what and how long.
        activity: Who uses how much.
        inventory: What the cluster has.
        sessions: The namespaces of users.
        systems: Takes systems away and gives them back.
        logs: What pods have printed.
        exports: Archives of that.
        views: What csctl shows.
        collector: What is read at each scrape of metrics.
        estimates: Asks the planner.
        single_sign_on: Logins at an identity provider; None where there is none.
    """

    options: ManagementOptions
    clock: Clock
    tls: Certificates | None
    state: State
    watch: JobWatch
    access: Access
    gate: Gate
    accepted: AcceptedConnections = field(default_factory=AcceptedConnections)
    trusted_proxies: tuple[Network, ...]
    jobs: JobService
    lists: JobLists
    edits: JobEdits
    runs: RunService
    submissions: SubmissionService
    drivers: DriverService
    driver_restarts: DriverRestarts
    queue: QueueService
    activity: ActivityService
    inventory: Inventory
    sessions: SessionService
    systems: SystemService
    logs: LogService
    exports: LogExports
    views: ResourceViews
    collector: ApplianceCollector
    estimates: Estimates
    single_sign_on: SingleSignOn | None

    @property
    def feed(self) -> ChangeFeed:
        """The feed of changes, for all followers."""
        return self.watch.feed

    @property
    def has_tls(self) -> bool:
        """Whether clients talk TLS."""
        return self.tls is not None
