"""Creates all parts of management, each from what it needs, and each once."""

from dataclasses import dataclass

from appliance.management.access.allowances import Allowances
from appliance.management.access.authorization import WriteBatched
from appliance.management.access.single_sign_on import SingleSignOn, open_single_sign_on
from appliance.management.background.activity_service import ActivityService
from appliance.management.background.background_services import BackgroundServices
from appliance.management.background.coordinator_watch import CoordinatorWatch
from appliance.management.background.estimates import Estimates
from appliance.management.background.storage_watch import StorageWatch
from appliance.management.cluster.cluster_model import ClusterModel
from appliance.management.cluster.collector import ApplianceCollector
from appliance.management.cluster.inventory import Inventory, set_up_cluster, this_node
from appliance.management.cluster.session_service import SessionService
from appliance.management.cluster.system_service import SystemService
from appliance.management.foundation import Foundation
from appliance.management.job_listeners import JobListeners
from appliance.management.jobs.driver_restarts import DriverRestarts
from appliance.management.jobs.driver_service import DriverService
from appliance.management.jobs.job_edits import JobEdits
from appliance.management.jobs.job_lists import JobLists
from appliance.management.jobs.job_service import JobService
from appliance.management.jobs.queue_view import QueueService
from appliance.management.jobs.run_service import RunService
from appliance.management.jobs.submissions import SubmissionOptions, SubmissionService
from appliance.management.logs.job_logs import LogService
from appliance.management.logs.log_exports import LogExports
from appliance.management.logs.log_retention import LogLimits
from appliance.management.options.settings_by_group import DAY_SECONDS, PROCESSES, KeepingOptions
from appliance.management.pod_side import PodSide
from appliance.management.pods.pod_planner import PodPlanner
from appliance.management.pods.pod_specs import PodEnvironment
from appliance.management.reconciler.mailbox import Mailbox, Stops, Wake, Write
from appliance.management.reconciler.reconciler import Reconciler, ReconcilerOptions
from appliance.management.reconciler.world import make_world
from appliance.management.rpc.access_edge import Gate
from appliance.management.rpc.resource_views import ResourceViews
from appliance.management.services import Services
from appliance.management.store.databases import sqlite_path
from appliance.management.store.disk import DiskReserve
from appliance.management.store.own_process import end_at_once, start_again
from appliance.scheduler.policy import Policy

INNER_HOST = "127.0.0.1"
"""Where what is behind clients' one port listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicAddresses:
    """Where the appliance is, as others know it.

    Attributes:
        dashboard_root: URL of REST and the dashboard.
        one_port: host:port of clients' one port; empty without TLS, where there are several.
        remote_inner_address: host:port for pods on other nodes; empty where all are on this one.
    """

    dashboard_root: str
    one_port: str = ""
    remote_inner_address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wired:
    """What management consists of.

    Attributes:
        services: What it offers.
        reconciler: Moves jobs.
        background: Looks at jobs from beside.
        storage_watch: Lets nothing start where there is no space.
        coordinator_watch: Tells of coordinators that are frozen.
    """

    services: Services
    reconciler: Reconciler
    background: BackgroundServices
    storage_watch: StorageWatch
    coordinator_watch: CoordinatorWatch


def wire(foundation: Foundation, pods: PodSide, addresses: PublicAddresses) -> Wired:
    """Make management; nothing of it is started yet.

    Args:
        foundation: What everything is built on.
        pods: Where pods run.
        addresses: Where the appliance is reached.
    """
    state, options, clock = foundation.state, foundation.options, foundation.clock
    model = _make_model(foundation, pods)
    services = _make_services(foundation, pods, addresses, model)
    background = BackgroundServices(
        state,
        data_dir=options.data_dir,
        notify=foundation.notify,
        log_limits=_log_limits(options.keeping),
        otlp=options.telling.otlp,
        page_of=services.jobs.dashboard,
    )
    planner = PodPlanner(
        pod_environment=_pod_environment(foundation, pods, addresses),
        state=state,
        model=model,
        addresses=foundation.addresses,
        runtime_dir=pods.launcher.runtime_dir,
        nodes=pods.nodes,
    )
    world = make_world(
        mailbox=foundation.mailbox,
        state=state,
        launcher=pods.launcher,
        coordinators=pods.coordinators,
        plan_pods=planner.plan,
        watch=foundation.watch,
        clock=clock,
        model=model,
        policy=_policy(foundation),
        listener=JobListeners(
            restarts=services.driver_restarts,
            traces=background.job_traces,
            ports=foundation.ports,
            wsjobs=pods.kubernetes.jobs if pods.kubernetes is not None else None,
        ),
        requeues_disrupted=pods.requeues_disrupted,
    )
    reconciler = Reconciler(
        world,
        ReconcilerOptions(
            lease_seconds=options.queue.lease_seconds,
            history_seconds=options.keeping.history_seconds,
            on_lost=end_at_once,
            on_refused=start_again,
        ),
    )
    storage_watch = StorageWatch(
        options.data_dir,
        DiskReserve(num_bytes=options.keeping.disk_reserve_bytes),
        sqlite_path(options.data_dir, options.keeping.database),
        lambda reason: foundation.mailbox.post(Stops(reason=reason)),
    )
    return Wired(
        services=services,
        reconciler=reconciler,
        background=background,
        storage_watch=storage_watch,
        coordinator_watch=CoordinatorWatch(state),
    )


def _make_model(foundation: Foundation, pods: PodSide) -> ClusterModel:
    options, nodes = foundation.options, pods.nodes
    foundation.state.sessions.ensure()
    model = ClusterModel(foundation.state, nodes.launcher.nodes if nodes else None)
    set_up_cluster(model, options.cluster, options.num_systems)
    model.on_change(lambda: foundation.mailbox.post(Wake()))
    if nodes is not None:
        nodes.on_change(model.reload)
    return model


def _make_services(
    foundation: Foundation, pods: PodSide, addresses: PublicAddresses, model: ClusterModel
) -> Services:
    state, mailbox, clock = foundation.state, foundation.mailbox, foundation.clock
    options, access = foundation.options, foundation.access
    sessions = SessionService(state, model)
    drivers = _make_drivers(foundation, pods, model, sessions)
    jobs = _make_jobs(foundation, pods, addresses)
    inventory = Inventory(state, model, pods.nodes)
    exports = LogExports(
        state, options.data_dir / "exports", clock, compile_cache=options.compile_cache
    )
    return Services(
        options=options,
        clock=clock,
        tls=foundation.tls,
        state=state,
        watch=foundation.watch,
        access=access,
        gate=Gate(access, state, _writing(mailbox), Allowances(clock), exports),
        trusted_proxies=options.trust.proxies,
        jobs=jobs,
        lists=JobLists(state=state),
        edits=JobEdits(state, jobs, mailbox),
        runs=RunService(state, jobs, _dashboard_root(addresses)),
        submissions=SubmissionService(
            state,
            mailbox,
            _submission_options(foundation),
            drivers=drivers,
            model=model,
            sessions=sessions,
        ),
        drivers=drivers,
        driver_restarts=DriverRestarts(state, mailbox),
        queue=QueueService(state, mailbox, model, sessions),
        activity=ActivityService(state, _policy(foundation)),
        inventory=inventory,
        sessions=sessions,
        systems=SystemService(state, model),
        logs=LogService(state),
        exports=exports,
        views=ResourceViews(
            state,
            jobs,
            JobLists(state=state),
            inventory,
            sessions=sessions,
            machine=options.runs.simulated_machine.name,
            data_dir=options.data_dir,
            is_one_machine=options.nodes.launcher == PROCESSES,
        ),
        collector=ApplianceCollector(state, inventory, clock),
        estimates=Estimates(),
        single_sign_on=_make_single_sign_on(foundation, addresses),
    )


def _make_drivers(
    foundation: Foundation, pods: PodSide, model: ClusterModel, sessions: SessionService
) -> DriverService:
    options = foundation.options
    return DriverService(
        foundation.state,
        foundation.mailbox,
        foundation.driver_tokens,
        sessions,
        options.data_dir,
        model=model,
        max_drivers=options.queue.max_drivers,
        on_kubernetes=pods.kubernetes is not None,
    )


def _writing(mailbox: Mailbox) -> WriteBatched:
    """Return what has the reconciler write something with whatever else it writes."""
    return lambda write, committed: mailbox.post(Write(write=write, committed=committed))


def _make_single_sign_on(foundation: Foundation, addresses: PublicAddresses) -> SingleSignOn | None:
    file = foundation.options.trust.oidc
    root = f"https://{addresses.one_port}"  # tokens need TLS, and so there is one port
    return open_single_sign_on(file, root, foundation.access, foundation.clock) if file else None


def _make_jobs(foundation: Foundation, pods: PodSide, addresses: PublicAddresses) -> JobService:
    return JobService(
        foundation.state,
        foundation.mailbox,
        _dashboard_root(addresses),
        compile_cache=foundation.options.compile_cache,
        watch=foundation.watch,
        shared_address=addresses.one_port,
        namespace_of=pods.namespace_of,
    )


def _dashboard_root(addresses: PublicAddresses) -> str:
    return f"https://{addresses.one_port}" if addresses.one_port else addresses.dashboard_root


def _submission_options(foundation: Foundation) -> SubmissionOptions:
    options = foundation.options
    return SubmissionOptions(
        data_dir=options.data_dir,
        lease_seconds=options.queue.lease_seconds,
        notifies=foundation.notify.targets,
        compile_cache=options.compile_cache,
    )


def _policy(foundation: Foundation) -> Policy:
    return Policy(allows_preemption=foundation.options.queue.allows_preemption)


def _log_limits(keeping: KeepingOptions) -> LogLimits:
    return LogLimits(
        pod_bytes=keeping.pod_log_bytes,
        total_bytes=keeping.log_bytes,
        age_seconds=keeping.log_days * DAY_SECONDS,
    )


def _pod_environment(
    foundation: Foundation, pods: PodSide, addresses: PublicAddresses
) -> PodEnvironment:
    """Return what pods need to know of the appliance, all but what the cluster says."""
    options, tls = foundation.options, foundation.tls
    is_on_kubernetes = pods.kubernetes is not None
    return PodEnvironment(
        management_address=addresses.remote_inner_address or foundation.inner_address,
        is_remote=bool(addresses.remote_inner_address),
        has_pod_limits=is_on_kubernetes,
        compile_cache=options.compile_cache,
        machine_code=options.compile_cache.root.parent / "machine-code",
        runs=options.runs,
        bind_host=INNER_HOST if tls else options.listen.bind_host,
        public_host=INNER_HOST if tls else options.listen.public_host,
        tls_cert=tls.certificate if tls else None,
        tls_key=tls.key if tls else None,
        num_cores=this_node().num_cores,
        driver_tokens=foundation.driver_tokens,
        stream_secret=foundation.stream_secret,
        stream_identity=foundation.job_keys.identity,
        otlp=options.telling.otlp,
        client_config=options.config_path if is_on_kubernetes else None,
    )
