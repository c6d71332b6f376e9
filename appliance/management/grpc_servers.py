"""Management's listeners: gRPC for clients, gRPC for pods, and the clients' one TLS port."""

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
import grpc.aio

from appliance.management.access.certificate_reload import CertificateReload
from appliance.management.foundation import Foundation
from appliance.management.front.call_queues import CallQueues, queue_sockets
from appliance.management.front.proxy_preface import TrustedProxies
from appliance.management.front.sni_proxy import Backends, SniProxy, listen
from appliance.management.options.combined_settings import ManagementOptions
from appliance.management.options.settings_by_group import PROCESSES, ListenOptions
from appliance.management.pod_side import PodSide
from appliance.management.rpc.admin_servicer import AdminServicer, MaintenanceServicer
from appliance.management.rpc.client.client_streams import ClientStreams
from appliance.management.rpc.client.job_methods import JobMethods
from appliance.management.rpc.client.lease_beats import LeaseBeats, Presence
from appliance.management.rpc.client.server_methods import ServerMethods
from appliance.management.rpc.client.submission_methods import SubmissionMethods
from appliance.management.rpc.connections import Connections
from appliance.management.rpc.csctl_servicer import CsctlServicer
from appliance.management.rpc.driver_servicer import (
    DriverControlServicer,
    DriverServicer,
    LogServicer,
)
from appliance.management.rpc.event_servicer import EventServicer
from appliance.management.rpc.inner_servicer import JobReports, PodPlaces
from appliance.management.rpc.queue_servicer import QueueServicer
from appliance.management.rpc.rpc_edge import CLIENT_OPTIONS, INNER_OPTIONS, RpcEdge, by_name
from appliance.management.rpc.run_servicer import RunServicer
from appliance.management.services import Services
from appliance.storage.users.proxy_key import ensure_proxy_key
from appliance.wire.connections.accepted import Accepted
from appliance.wire.connections.forwarder import Choose, Destination
from appliance.wire.joined_servicer import joined
from protos.cluster.cluster_pb2_grpc import (
    ClusterManagementServicer,
    add_ClusterManagementServicer_to_server,
)
from protos.csadm.csadm_pb2_grpc import add_CsAdmV1Servicer_to_server
from protos.csctl.api_pb2_grpc import add_CsCtlV1Servicer_to_server
from protos.wsc.v1.drivers_pb2_grpc import (
    add_DriverControlServicer_to_server,
    add_DriversServicer_to_server,
)
from protos.wsc.v1.events_pb2_grpc import add_EventsServicer_to_server
from protos.wsc.v1.logs_pb2_grpc import add_LogsServicer_to_server
from protos.wsc.v1.maintenance_pb2_grpc import add_MaintenanceServicer_to_server
from protos.wsc.v1.management_pb2_grpc import (
    ManagementServicer,
    add_ManagementServicer_to_server,
)
from protos.wsc.v1.queue_pb2_grpc import add_QueueServicer_to_server
from protos.wsc.v1.runs_pb2_grpc import add_RunsServicer_to_server


def open_one_port(where: ListenOptions) -> list[socket.socket]:
    """Bind the clients' port without accepting connections yet."""
    return listen(where.bind_host, where.port, option="--port")


def lead_on(listeners: Sequence[socket.socket], services: Services, *, has_rest: bool) -> SniProxy:
    """Lead clients' one port to management, to REST and to coordinators."""
    backends = Backends(
        management=CallQueues(queue_sockets(services.options.runtime_root)).address_of,
        rest=str(services.options.rest_socket) if has_rest else None,
        find_coordinator=services.jobs.coordinator,
    )
    key = ensure_proxy_key(services.state.database)
    proxies = TrustedProxies(key=key, networks=services.trusted_proxies)
    front = SniProxy(listeners, backends, services.accepted, proxies=proxies)
    front.start()
    return front


def to_management(options: ManagementOptions) -> Choose:
    """Return what leads every connection to management, whatever it begins with."""
    queues = CallQueues(queue_sockets(options.runtime_root))

    async def destination(connection: Accepted) -> Destination:
        return Destination(address=queues.address_of(connection))

    return lambda _, connection: destination(connection)


async def serve_clients(
    services: Services, presence: Presence, threads: ThreadPoolExecutor
) -> Sequence[grpc.aio.Server]:
    """Serve clients, csctl and administrators, whose connections a front passes on."""
    connections = Connections(services.clock)
    # Without tokens the kernel says of every stream whose it is.
    told = connections if services.options.trust.needs_token else None
    edge = RpcEdge(threads, services.gate, services.accepted, told)
    add_services = _client_services(services, presence, connections)
    servers = []
    for socket_ in queue_sockets(services.options.runtime_root):
        server = grpc.aio.server(interceptors=[edge], options=CLIENT_OPTIONS)
        add_services(by_name(server))
        if services.tls is None:
            server.add_insecure_port(f"unix:{socket_}")
        else:
            server.add_secure_port(f"unix:{socket_}", CertificateReload(services.tls).credentials())
        await server.start()
        servers.append(server)
    return servers


def _client_services(
    services: Services, presence: Presence, connections: Connections
) -> Callable[[grpc.aio.Server], None]:
    """Return what adds the services of clients to a server; all servers share them."""
    needs_token = services.options.trust.needs_token
    leases = LeaseBeats(services.state, services.inventory, presence)
    streams = ClientStreams(
        services.jobs, services.watch, connections, leases, services.access.still
    )
    cluster = joined(
        ClusterManagementServicer,  # type: ignore[type-abstract]  # in its stubs alone
        ServerMethods(needs_token=needs_token),
        SubmissionMethods(
            services.jobs, services.submissions, services.inventory, services.watch, streams
        ),
        JobMethods(services.jobs, services.submissions, services.watch, streams),
    )
    csctl = CsctlServicer(
        jobs=services.jobs,
        views=services.views,
        watch=services.watch,
        exports=services.exports,
        systems=services.systems,
        needs_token=needs_token,
    )
    admin = AdminServicer(
        sessions=services.sessions,
        systems=services.systems,
        access=services.access,
        clock=services.clock,
    )
    queue = QueueServicer(services.queue, services.jobs, services.edits, services.activity)
    events, drivers = EventServicer(services.jobs), DriverServicer(services.drivers)
    runs = RunServicer(services.runs, services.sessions)
    logs, maintenance = (
        LogServicer(services.logs, services.watch),
        MaintenanceServicer(services.systems),
    )

    def add(server: grpc.aio.Server) -> None:
        add_ClusterManagementServicer_to_server(cluster, server)
        add_CsCtlV1Servicer_to_server(csctl, server)
        add_CsAdmV1Servicer_to_server(admin, server)
        add_MaintenanceServicer_to_server(maintenance, server)
        add_QueueServicer_to_server(queue, server)
        add_EventsServicer_to_server(events, server)
        add_RunsServicer_to_server(runs, server)
        add_DriversServicer_to_server(drivers, server)
        add_LogsServicer_to_server(logs, server)

    return add


async def serve_pods(
    foundation: Foundation,
    services: Services,
    presence: Presence,
    threads: ThreadPoolExecutor,
    pods: PodSide,
) -> grpc.aio.Server:
    """Serve the pods of this node, and through the internal listener those of others."""
    server = grpc.aio.server(interceptors=[RpcEdge(threads)], options=INNER_OPTIONS)
    inner, is_alone = by_name(server), foundation.options.nodes.launcher == PROCESSES
    key_of = None if is_alone else foundation.job_keys.text_of
    servicer = joined(
        ManagementServicer,  # type: ignore[type-abstract]  # in its stubs alone
        JobReports(services.jobs, services.watch, services.clock, presence, key_of=key_of),
        PodPlaces(
            services.jobs,
            foundation.addresses,
            foundation.ports,
            pods,
            key_of=key_of,
        ),
    )
    add_ManagementServicer_to_server(servicer, inner)
    add_DriverControlServicer_to_server(
        DriverControlServicer(services.driver_restarts, key_of=key_of), inner
    )
    server.add_insecure_port(foundation.inner_address)
    await server.start()
    return server
