"""Management's listeners: gRPC for clients, gRPC for pods, and the clients' one TLS port."""

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc
import grpc.aio

from appliance.core.ids import JobId
from appliance.management.access.certificate_reload import CertificateReload
from appliance.management.foundation import Foundation
from appliance.management.front.passages import Choose, Destination
from appliance.management.front.proxy_preface import TrustedProxies
from appliance.management.front.sni_proxy import Backends, SniProxy, listen
from appliance.management.options.combined_settings import ManagementOptions
from appliance.management.options.settings_by_group import PROCESSES, ListenOptions
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


def open_one_port(where: ListenOptions) -> socket.socket:
    """Bind the clients' port without accepting connections yet."""
    return listen(where.bind_host, where.port, option="--port")


def lead_on(listener: socket.socket, services: Services, *, has_rest: bool) -> SniProxy:
    """Lead clients' one port to management, to REST and to coordinators."""
    backends = Backends(
        management=str(services.options.client_socket),
        rest=str(services.options.rest_socket) if has_rest else None,
        find_coordinator=services.jobs.coordinator,
    )
    key = ensure_proxy_key(services.state.database)
    proxies = TrustedProxies(key=key, networks=services.trusted_proxies)
    front = SniProxy([listener], backends, services.accepted, proxies=proxies)
    front.start()
    return front


def to_management(options: ManagementOptions) -> Choose:
    """Return what leads every connection to management, whatever it begins with."""

    async def destination() -> Destination:
        return Destination(address=str(options.client_socket))

    return lambda _, __: destination()


async def serve_clients(
    services: Services, presence: Presence, threads: ThreadPoolExecutor
) -> grpc.aio.Server:
    """Serve clients, csctl and administrators, whose connections a front passes on."""
    connections = Connections(services.clock)
    # Without tokens the kernel says of every stream whose it is.
    told = connections if services.options.trust.needs_token else None
    edge = RpcEdge(threads, services.gate, services.accepted, told)
    server = grpc.aio.server(interceptors=[edge], options=CLIENT_OPTIONS)
    _add_client_services(server, services, presence, connections)
    address = f"unix:{services.options.client_socket}"
    if services.tls is None:
        server.add_insecure_port(address)
    else:
        server.add_secure_port(address, CertificateReload(services.tls).credentials())
    await server.start()
    return server


def _add_client_services(
    server: grpc.aio.Server, services: Services, presence: Presence, connections: Connections
) -> None:
    outer, needs_token = by_name(server), services.options.trust.needs_token
    leases = LeaseBeats(services.state, services.inventory, presence)
    streams = ClientStreams(services.jobs, services.watch, connections, leases)
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
    add_ClusterManagementServicer_to_server(cluster, outer)
    add_CsCtlV1Servicer_to_server(csctl, outer)
    add_CsAdmV1Servicer_to_server(admin, outer)
    add_MaintenanceServicer_to_server(MaintenanceServicer(services.systems), outer)
    add_QueueServicer_to_server(queue, outer)
    add_EventsServicer_to_server(EventServicer(services.jobs), outer)
    add_RunsServicer_to_server(RunServicer(services.runs, services.sessions), outer)
    add_DriversServicer_to_server(DriverServicer(services.drivers), outer)
    add_LogsServicer_to_server(LogServicer(services.logs, services.watch), outer)


async def serve_pods(
    foundation: Foundation,
    services: Services,
    presence: Presence,
    threads: ThreadPoolExecutor,
    *,
    may_start: Callable[[JobId], bool],
) -> grpc.aio.Server:
    """Serve the pods of this node, and through the internal listener those of others."""
    server = grpc.aio.server(interceptors=[RpcEdge(threads)], options=INNER_OPTIONS)
    inner, is_alone = by_name(server), foundation.options.nodes.launcher == PROCESSES
    key_of = None if is_alone else foundation.job_keys.text_of
    servicer = joined(
        ManagementServicer,  # type: ignore[type-abstract]  # in its stubs alone
        JobReports(services.jobs, services.watch, services.clock, presence, key_of=key_of),
        PodPlaces(services.jobs, foundation.addresses, may_start=may_start, key_of=key_of),
    )
    add_ManagementServicer_to_server(servicer, inner)
    add_DriverControlServicer_to_server(DriverControlServicer(services.driver_restarts), inner)
    server.add_insecure_port(foundation.inner_address)
    await server.start()
    return server
