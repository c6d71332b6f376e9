"""The management process without its REST shell: everything wired together, started and stopped."""

import asyncio
import logging
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import grpc
import grpc.aio

from appliance.cluster.launcher import Launcher
from appliance.cluster.processes import ProcessLauncher, ProcessOptions
from appliance.core.clock import Clock
from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.pods import Device, PodSpec
from appliance.core.cluster.records import JobRecord
from appliance.core.errors import ClusterError
from appliance.core.ids import JobId, Role
from appliance.core.plans.shard_count import MemoryNodes
from appliance.files.private import make_private
from appliance.management.access.allowances import Allowances
from appliance.management.access.authorization import open_access
from appliance.management.access.certificate_reload import Renewal
from appliance.management.access.certificates import (
    Certificates,
    ensure_certificates,
    find_certificates,
)
from appliance.management.access.driver_tokens import open_driver_tokens
from appliance.management.access.local_users import LocalPeers
from appliance.management.access.stream_secrets import ensure_identity, ensure_secret
from appliance.management.background.activity_service import ActivityService
from appliance.management.background.background_services import Attendants
from appliance.management.background.messengers import NotifyOptions, read_notify_options
from appliance.management.background.storage_watch import StorageWatch
from appliance.management.changes.feed import ChangeFeed, Topic
from appliance.management.changes.watch import JobWatch
from appliance.management.cluster.cluster_model import ClusterModel
from appliance.management.cluster.collector import ApplianceCollector
from appliance.management.cluster.demands import memory_nodes
from appliance.management.cluster.inventory import Inventory, set_up_cluster, this_node
from appliance.management.cluster.node_pool import NodePool
from appliance.management.cluster.session_service import SessionService
from appliance.management.cluster.system_service import SystemService
from appliance.management.front.client_config import write_client_config
from appliance.management.front.sni_proxy import Address, Backends, FrontPort, listen
from appliance.management.jobs.driver_restarts import DriverRestarts
from appliance.management.jobs.driver_service import DriverService
from appliance.management.jobs.job_edits import JobEdits
from appliance.management.jobs.job_service import JobService
from appliance.management.jobs.queue_view import QueueService
from appliance.management.jobs.submissions import SubmissionOptions, SubmissionService
from appliance.management.kubernetes.kubernetes_side import Candidacy, KubernetesSide
from appliance.management.kubernetes.wsjobs import Services
from appliance.management.logs.job_logs import LogService
from appliance.management.logs.log_exports import LogExports
from appliance.management.options import (
    AGENTS,
    LOOPBACK,
    NETWORK_STREAMS,
    PROCESSES,
    ManagementOptions,
)
from appliance.management.pods.coordinators import (
    CoordinatorAddresses,
    Coordinators,
    FarCoordinators,
)
from appliance.management.pods.inner_listener import JobKeys, open_inner_door
from appliance.management.pods.pod_specs import Surroundings, plan_pods
from appliance.management.reconciler.mailbox import Mailbox
from appliance.management.reconciler.reconciler import Reconciler, ReconcilerOptions
from appliance.management.reconciler.transitions import Hooks
from appliance.management.rpc.access_edge import Gate
from appliance.management.rpc.admin_servicer import AdminServicer, MaintenanceServicer
from appliance.management.rpc.client_streams import ClientStreams, Presence
from appliance.management.rpc.cluster_servicer import ClusterServicer
from appliance.management.rpc.connections import Connections
from appliance.management.rpc.csctl_servicer import CsctlServicer
from appliance.management.rpc.driver_servicer import (
    DriverControlServicer,
    DriverServicer,
    LogServicer,
)
from appliance.management.rpc.event_servicer import EventServicer
from appliance.management.rpc.inner_servicer import InnerServicer
from appliance.management.rpc.queue_servicer import QueueServicer
from appliance.management.rpc.resource_views import ResourceViews
from appliance.management.rpc.rpc_edge import CLIENT_OPTIONS, INNER_OPTIONS, RpcEdge, by_name
from appliance.management.store.databases import STREAMS_KEY, open_own_database, sqlite_path
from appliance.management.store.disk import DiskReserve
from appliance.management.store.kept_ports import Ports
from appliance.management.store.lease_clock import LeaseClock
from appliance.management.store.own_process import end_at_once, spare_the_collector, start_again
from appliance.management.store.state import State
from appliance.management.store.versions import NEWEST_CLIENT, client_build
from appliance.scheduler.policy import Policy
from appliance.streams.network.server import NetworkServer
from appliance.wafer.machine import parse_machine
from protos.cluster.cluster_pb2_grpc import add_ClusterManagementServicer_to_server
from protos.csadm.csadm_pb2_grpc import add_CsAdmV1Servicer_to_server
from protos.csctl.api_pb2_grpc import add_CsCtlV1Servicer_to_server
from protos.wsc.v1.drivers_pb2_grpc import (
    add_DriverControlServicer_to_server,
    add_DriversServicer_to_server,
)
from protos.wsc.v1.events_pb2_grpc import add_EventsServicer_to_server
from protos.wsc.v1.logs_pb2_grpc import add_LogsServicer_to_server
from protos.wsc.v1.maintenance_pb2_grpc import add_MaintenanceServicer_to_server
from protos.wsc.v1.management_pb2_grpc import add_ManagementServicer_to_server
from protos.wsc.v1.queue_pb2_grpc import add_QueueServicer_to_server

logger = logging.getLogger(__name__)

_INNER_HOST = "127.0.0.1"
"""Where what is behind clients' one port listens."""
_NUM_THREADS = 16
_TOPICS = {topic.value: topic for topic in Topic}

_TRACING = ("appliance.observability.otlp",)
"""What the fork server imports too where pods are traced."""


class Management:
    """A running appliance, all but the REST shell.

    Args:
        options: See `ManagementOptions`.
        clock: Time for everything.
        candidacy: On a Kubernetes cluster, by which this management leads.
    """

    def __init__(
        self, options: ManagementOptions, clock: Clock, candidacy: Candidacy | None = None
    ) -> None:
        self.options = options
        self.port = options.port
        make_private(options.data_dir)
        options.runtime_root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._clock = clock
        self._database = open_own_database(options.data_dir, options.database)
        self._database.claim()
        self._state = State.over(self._database, clock, lease_clock=LeaseClock(clock))
        self._kubernetes = KubernetesSide(candidacy, self._state, clock) if candidacy else None
        self.access = open_access(
            options.data_dir,
            self._database,
            clock,
            needs_token=options.needs_token,
            serves_all=options.serves_local_users,
        )
        self.peers = LocalPeers()
        self._presence = Presence(clock, options.lease_seconds)
        self._tls = self._ensure_tls()
        self._stream_secret = ensure_secret(options.data_dir / STREAMS_KEY)
        self._job_keys = JobKeys(self._stream_secret, self._ensure_stream_identity())
        self._driver_tokens = open_driver_tokens(options.data_dir)
        self._notify = (
            read_notify_options(Path(options.notify)) if options.notify else NotifyOptions()
        )
        self.exports = LogExports(
            self._state, options.data_dir / "exports", clock, compile_root=options.compile_root
        )
        self._watch, self.mailbox = JobWatch(), Mailbox()
        self._addresses = CoordinatorAddresses(options.data_dir / "jobs")
        options_of = self._job_keys.options_of
        far = FarCoordinators(self._addresses, options.runtime_root, options_of, clock)
        self._coordinators = Coordinators(far)
        self._inner_door: NetworkServer | None = None
        self._nodes = self._make_nodes()
        self._surroundings = lru_cache(maxsize=1)(self._describe_surroundings)
        self.join_address = ""
        self._threads = ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="rpc")
        self._servers: list[grpc.aio.Server] = []
        self._front: FrontPort | None = None
        self._storage_watch: StorageWatch | None = None
        self.is_up = False  # before that, jobs of an earlier management are not its own

    @property
    def address(self) -> str:
        """host:port at which clients reach the appliance."""
        return f"{self.options.public_host}:{self.options.public_port or self.port}"

    @property
    def ports(self) -> Ports:
        """Where it listens, REST's aside."""
        inner = self._inner_door.address if self._inner_door else ""
        return Ports.at(self.port, inner=inner, node=self.join_address)

    @property
    def config_path(self) -> Path:
        """The client's configuration file."""
        return self.options.data_dir / "config_v2"

    async def start(self, dashboard_root: str, rest_address: Address | None = None) -> None:
        """Listen, then begin to run jobs.

        Args:
            dashboard_root: URL of the REST shell.
            rest_address: Where it listens, so that clients' one port leads there, too.

        Raises:
            ClusterError: A port is taken.
        """
        self._attendants = Attendants(
            self._state,
            data_dir=self.options.data_dir,
            notify=self._notify,
            log_limits=self.options.log_limits,
            otlp=self.options.otlp,
            page_of=self._page_of,
        )
        self._watch.bind(asyncio.get_running_loop())
        listener = self._listen_in_front() if self._tls else None
        self._state.sessions.ensure()
        nodes = self._nodes
        self.model = ClusterModel(self._state, nodes.launcher.nodes if nodes else None)
        set_up_cluster(self.model, self.options.cluster, self.options.num_systems)
        self.sessions = SessionService(self._state, self.model)
        self.systems = SystemService(self._state, self.model)
        self.launcher: Launcher = nodes.launcher if nodes else self._start_launcher()
        policy = Policy(allows_preemption=self.options.allows_preemption)
        self.activity = ActivityService(self._state, policy)
        self.reconciler = self._make_reconciler(policy)
        self.model.on_change(self.mailbox.reschedule)
        self.drivers = DriverService(
            self._state,
            self.mailbox,
            self._driver_tokens,
            self.sessions,
            self.options.data_dir,
            model=self.model,
            is_any_user=self._kubernetes is not None,
        )
        self.jobs = JobService(
            self._state,
            self.mailbox,
            f"https://{self.address}" if listener else dashboard_root,
            compile_root=self.options.compile_root,
            watch=self._watch,
            door=self.address if listener else "",
        )
        self.access.on_change(self._tell_of)
        self.edits = JobEdits(self._state, self.jobs, self.mailbox)
        self.inventory = Inventory(self._state, self.model, nodes)
        self.logs = LogService(self._state)
        self.collector = ApplianceCollector(self._state, self.inventory, self._clock)
        self.queue = QueueService(self._state, self.mailbox, self.model, self.sessions)
        self.views = ResourceViews(
            self._state,
            self.jobs,
            self.inventory,
            machine=parse_machine(self.options.machine).name,
            data_dir=self.options.data_dir,
        )
        await self._open_inner_doors()
        self._start_reconciler()
        self._attendants.start()
        inner_port = await self._listen()
        if listener is not None:
            self._start_front(listener, inner_port, rest_address)
        else:
            self.port = inner_port
        authority = self._tls.authority.read_bytes() if self._tls else None
        write_client_config(self.config_path, address=self.address, authority_pem=authority)
        spare_the_collector()
        self.is_up = True
        logger.info("Appliance is up", extra={"address": self.address})

    def _start_front(self, listener: socket.socket, port: int, rest: Address | None) -> None:
        """Lead clients' one port to management at an inner port, to REST and to coordinators."""
        backends = Backends(
            management=(_INNER_HOST, port), rest=rest, find_coordinator=self.jobs.coordinator
        )
        self._front = FrontPort([listener], backends)
        self.peers.follow(self._front.origin_of)
        self._front.start()

    def _start_reconciler(self) -> None:
        """Begin to move jobs; from the first cycle on none is started where there is no space."""
        self._storage_watch = StorageWatch(
            self.options.data_dir,
            DiskReserve(num_bytes=self.options.disk_reserve_bytes),
            sqlite_path(self.options.data_dir, self.options.database),
            self.mailbox.stop_admissions,
        )
        self._storage_watch.start()
        self.reconciler.start()

    def _make_gate(self) -> Gate:
        allowances = Allowances(self._clock)
        return Gate(self.access, self._state, self.mailbox.keep, allowances, self.exports)

    def _make_reconciler(self, policy: Policy) -> Reconciler:
        self._driver_restarts = DriverRestarts(self._state)
        return Reconciler(
            mailbox=self.mailbox,
            state=self._state,
            launcher=self.launcher,
            coordinators=self._coordinators,
            plan_pods=self._plan_pods,
            watch=self._watch,
            clock=self._clock,
            model=self.model,
            options=ReconcilerOptions(
                policy=policy,
                lease_seconds=self.options.lease_seconds,
                history_seconds=self.options.history_days * 86_400 or None,
                on_lost=end_at_once,
                on_refused=start_again,
                hooks=Hooks(
                    pod_lost=self._driver_restarts.pod_lost,
                    job_ended=self._attendants.job_ended,
                ),
            ),
        )

    async def _open_inner_doors(self) -> None:
        """Let other hosts in, and wait for those that had pods under an earlier management."""
        if self._nodes is not None and self._tls is None:
            logger.warning("Clients reach coordinators on other nodes with --tls alone")
        if self.options.inner_host:
            host, port = self.options.inner_host, self.options.inner_port
            self._inner_door = open_inner_door(
                host, port, self._inner_address, self._job_keys, self._clock
            )
        if self._nodes is not None:
            self.join_address = self._nodes.open(self.options.inner_host, self.options.node_port)
            await asyncio.to_thread(self._nodes.resume, self._state)

    @property
    def feed(self) -> ChangeFeed:
        """What changes, for whoever follows."""
        return self._watch.feed

    @property
    def state(self) -> State:
        """What is kept."""
        return self._state

    @property
    def rest_hosts(self) -> frozenset[str]:
        """Names by which REST may be called; none allows every name.

        Without tokens the appliance listens on loopback and believes whoever calls, so that a page
        of another site must not reach it by a name of its own.
        """
        if self.options.needs_token:
            return frozenset()
        return frozenset({*LOOPBACK, self.options.public_host})

    @property
    def certificates(self) -> Certificates | None:
        """What the appliance proves itself with; None without TLS."""
        return self._tls

    async def stop(self) -> None:
        """Refuse new calls; if it was up, end every job and every process."""
        if self._front is not None:
            await asyncio.to_thread(self._front.close)
        for server in self._servers:
            await server.stop(grace=0.5)
        if self._inner_door is not None:
            self._inner_door.close()
        await asyncio.to_thread(self._close)
        logger.info("Appliance is down", extra={"address": self.address})

    def _close(self) -> None:
        if hasattr(self, "reconciler"):
            if self._kubernetes is None and self.is_up:
                self.reconciler.close()
            else:
                self.reconciler.pause()
        if self._kubernetes is not None:
            self._kubernetes.close()
        if hasattr(self, "launcher"):
            is_left = not self.is_up and bool(self.launcher.survivors())
            (self.launcher.abandon if is_left else self.launcher.close)()
        if self._nodes is not None:
            self._nodes.close()
        self._coordinators.close()
        self.exports.close()
        self._threads.shutdown(wait=False)
        if self._storage_watch is not None:
            self._storage_watch.close()
        if hasattr(self, "_attendants"):
            self._attendants.close()
        self._database.close()

    def _page_of(self, job: JobId) -> str:
        return self.jobs.dashboard(job)

    def _tell_of(self, kind: str, name: str) -> None:
        if (topic := _TOPICS.get(kind)) is not None:
            self._watch.tell(topic, name)

    def _ensure_tls(self) -> Certificates | None:
        if not self.options.has_tls:
            return None
        if self.options.certificates:
            return find_certificates(
                Path(self.options.certificates), self.options.public_host, self._clock
            )
        directory = self.options.data_dir / "tls"
        return ensure_certificates(directory, self.options.public_host, self._clock)

    def _listen_in_front(self) -> socket.socket:
        listener = listen(self.options.bind_host, self.options.port, option="--port")
        self.port = listener.getsockname()[1]
        return listener

    def _ensure_stream_identity(self) -> str:
        if self.options.streams != "network-tls":
            return ""
        path = self.options.data_dir / "tls" / "streams.pem"
        return str(ensure_identity(path, self._clock))

    def _make_nodes(self) -> NodePool | None:
        if self.options.launcher != AGENTS:
            return None
        return NodePool(
            self.options.data_dir,
            self.options.runtime_root,
            identity=self._job_keys.identity,
            grace_seconds=self.options.node_grace_seconds,
            clock=self._clock,
            on_change=self._nodes_changed,
        )

    def _nodes_changed(self) -> None:
        if hasattr(self, "model"):
            self.model.reload()

    def _start_launcher(self) -> Launcher:
        if self._kubernetes is not None:
            return self._kubernetes.launcher
        return ProcessLauncher(
            ProcessOptions(
                runtime_root=self.options.runtime_root,
                log_path=self.options.data_dir / "fork-server.log",
                node=this_node().name,
                preload=self.options.preload + (_TRACING if self.options.otlp else ()),
                orphan_seconds=self.options.orphan_seconds,
                entry_modules={Role(role): module for role, module in self.options.entry_modules},
            )
        )

    def _make_streams(self, connections: Connections) -> ClientStreams:
        return ClientStreams(
            self._state,
            self.jobs,
            self.inventory,
            self._watch,
            connections=connections,
            presence=self._presence,
        )

    def _follow_kubernetes(self, kubernetes: KubernetesSide) -> None:
        services = Services(
            state=self._state,
            jobs=self.jobs,
            edits=self.edits,
            drivers=self.drivers,
            access=self.access,
        )
        kubernetes.start(services, self.inventory, self.systems, listen=self._watch.listen)

    async def _listen(self) -> int:
        self.access.accept(self.drivers.owner_of)
        if self._kubernetes is not None:
            self._follow_kubernetes(self._kubernetes)
        submissions = SubmissionService(
            self._state,
            self.mailbox,
            SubmissionOptions(
                data_dir=self.options.data_dir,
                lease_seconds=self.options.lease_seconds,
                notifies=self._notify.targets,
            ),
            drivers=self.drivers,
            model=self.model,
            sessions=self.sessions,
        )
        self.gate, connections = self._make_gate(), Connections(self._clock)
        edge = RpcEdge(self._threads, self.gate, self.peers, connections)
        outer_server = grpc.aio.server(interceptors=[edge], options=CLIENT_OPTIONS)
        outer = by_name(outer_server)
        # The stubs call every method abstract; at run time the generated base refuses those that
        # we do not serve, and `RpcEdge` says so in a sentence.
        cluster = ClusterServicer(  # type: ignore[abstract]
            jobs=self.jobs,
            submissions=submissions,
            inventory=self.inventory,
            watch=self._watch,
            streams=self._make_streams(connections),
            needs_token=self.options.needs_token,
        )
        csctl = CsctlServicer(
            jobs=self.jobs,
            views=self.views,
            watch=self._watch,
            exports=self.exports,
            systems=self.systems,
            clock=self._clock,
            needs_token=self.options.needs_token,
        )
        add_ClusterManagementServicer_to_server(cluster, outer)
        add_CsCtlV1Servicer_to_server(csctl, outer)
        admin = AdminServicer(
            sessions=self.sessions, systems=self.systems, access=self.access, clock=self._clock
        )
        add_CsAdmV1Servicer_to_server(admin, outer)
        add_MaintenanceServicer_to_server(MaintenanceServicer(self.systems), outer)
        add_QueueServicer_to_server(QueueServicer(self.queue, self.jobs, self.edits), outer)
        add_EventsServicer_to_server(EventServicer(self.jobs), outer)
        add_DriversServicer_to_server(DriverServicer(self.drivers), outer)
        add_LogsServicer_to_server(LogServicer(self.logs, self._watch), outer)
        behind = f"{_INNER_HOST}:0"
        address = behind if self._tls else f"{self.options.bind_host}:{self.options.port}"
        port = self._bind(outer_server, address)
        self.peers.serve_at(address.rpartition(":")[0], port)
        inner_server = grpc.aio.server(interceptors=[RpcEdge(self._threads)], options=INNER_OPTIONS)
        inner = by_name(inner_server)
        add_ManagementServicer_to_server(
            InnerServicer(
                self.jobs,
                self._watch,
                self._addresses,
                self._clock,
                self._presence,
                key_of=None if self.options.launcher == PROCESSES else self._job_keys.text_of,
            ),
            inner,
        )
        add_DriverControlServicer_to_server(DriverControlServicer(self._driver_restarts), inner)
        inner_server.add_insecure_port(self._inner_address)
        self._servers = [outer_server, inner_server]
        for server in self._servers:
            await server.start()
        return port

    def _bind(self, server: grpc.aio.Server, address: str) -> int:
        try:
            if self._tls is None:
                return server.add_insecure_port(address)
            return server.add_secure_port(address, Renewal(self._tls).credentials())
        except RuntimeError as error:
            raise ClusterError(
                f"Port {self.options.port} at {self.options.bind_host} cannot be used; most "
                "likely another program listens there.",
                hint="Choose another one with --port.",
            ) from error

    @property
    def _inner_address(self) -> str:
        return f"unix:{self.options.runtime_root}/management.sock"

    def _plan_pods(self, job: JobRecord) -> tuple[PodSpec, ...]:
        nodes, is_driver = self._nodes, job.type is JobType.DRIVER
        surroundings = self._surroundings(len(self.model.facts.systems))
        if not is_driver:  # that has no coordinator and no MemoryX
            surroundings = replace(surroundings, memory_nodes=self._memory_nodes(job))
            self._addresses.forget(job.id)
        if nodes is not None:
            surroundings = replace(surroundings, node_cores=nodes.cores())
        places = nodes.place(job, self.model.facts.description) if nodes else {}
        return plan_pods(
            job,
            self.launcher.runtime_dir(job.id),
            surroundings,
            places,
            driver=self._state.driver_specs.take_text(job.id) if is_driver else "",
        )

    def _memory_nodes(self, job: JobRecord) -> MemoryNodes:
        cluster, limit_bytes = self.model.facts.description, self.options.memoryx_bytes
        # A compile decides on the shards; and with one group no session's limit makes a difference.
        if job.type is not JobType.COMPILE or len(cluster.node_groups) < 2:
            return memory_nodes(cluster, limit_bytes)
        session = self._state.sessions.find(job.session)
        most = None if session is None else session.spec.max_node_groups
        return memory_nodes(cluster, limit_bytes, max_groups=most)

    def _describe_surroundings(self, num_systems: int) -> Surroundings:
        version, githash = client_build(NEWEST_CLIENT)
        door = self._inner_door
        return Surroundings(
            management_address=self._inner_address if door is None else door.address,
            is_remote=door is not None,
            has_pod_limits=self._kubernetes is not None,
            compile_root=self.options.compile_root,
            precision=self.options.precision,
            wafer_bytes=self.options.wafer_bytes,
            execution=self.options.execution,
            cluster_systems=num_systems,
            bind_host=_INNER_HOST if self._tls else self.options.bind_host,
            public_host=_INNER_HOST if self._tls else self.options.public_host,
            tls_cert=str(self._tls.certificate) if self._tls else "",
            tls_key=str(self._tls.key) if self._tls else "",
            client_githash=githash,
            client_version=version,
            num_cores=this_node().num_cores,
            machine=self.options.machine,
            pace=self.options.pace,
            driver_tokens=self._driver_tokens,
            stall_seconds=self.options.stall_seconds,
            streams=self.options.streams,
            csx_device=Device(self.options.csx_device),
            memoryx_bytes=self.options.memoryx_bytes,
            has_network=self.options.streams in NETWORK_STREAMS,
            stream_secret=self._stream_secret,
            stream_identity=str(self._job_keys.identity or ""),
            otlp=self.options.otlp,
            client_config=str(self.config_path) if self._kubernetes else "",
        )
