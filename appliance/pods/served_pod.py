"""The shell of a pod that serves a job's client: coordinator and SDK pod alike."""

import contextlib
import faulthandler
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import grpc

from appliance.core.clock import Clock
from appliance.core.pods.pod_spec import PodSpec
from appliance.observability.logging import configure_logging
from appliance.observability.traced_calls import traced_server
from appliance.observability.tracing import traced_pod
from appliance.pods.client.client_check import ClientCheck, by_name
from appliance.pods.client.client_front import open_front
from appliance.pods.error_status import ErrorStatusInterceptor
from appliance.streams.endpoint import network_options
from appliance.streams.network.server import NetworkServer
from appliance.streams.network.tunnel import CONTROL, TunnelService
from appliance.wire.connections.front_thread import FrontThread
from protos.wsc.v1 import management_pb2, management_pb2_grpc

AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
"""Status of a call while management is away; any other refusal will not change."""
_REGISTER_AGAIN_SECONDS = 0.2
_REGISTER_SECONDS = 120.0
"""Long enough for a management that was killed to start anew."""


class ServedPod(Protocol):
    """The part of a role that its process runs."""

    def run(self) -> None:
        """Serve until told to stop."""
        ...

    def stop(self, reason: str) -> None:
        """Ask the process to end; safe in a signal handler."""
        ...


def run_served_pod(spec: PodSpec, make: Callable[[], ServedPod]) -> int:
    """Be the pod until told to stop; return the process's exit code.

    Must run in the main thread, because it takes over SIGTERM.

    Args:
        make: Returns its role.
    """
    configure_logging(as_json=True, fields={"job": spec.job, "pod": spec.name})
    faulthandler.enable()
    with traced_pod(spec):
        pod = make()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: pod.stop("the process was told to end"))
        pod.run()
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientServer:
    """What serves a job's client.

    Attributes:
        port: Where its front listens.
    """

    port: int
    _server: grpc.Server
    _front: FrontThread

    def stop(self, grace_seconds: float) -> None:
        """Take no more calls, and leave those that are being answered so much time."""
        self._server.stop(grace_seconds).wait()
        self._front.close()


def serve_client(
    spec: PodSpec,
    add: Callable[[grpc.Server], None],
    *,
    check: ClientCheck,
    num_threads: int,
    interceptors: Sequence[grpc.ServerInterceptor],
    options: Sequence[tuple[str, int]],
    host: str,
    owner_uid: int,
    tls_cert: Path | None,
    tls_key: Path | None,
) -> ClientServer:
    """Return a running server for the job's client.

    Args:
        add: Adds the services to a server.
        check: Asks every call first.
        num_threads: Calls that are served at a time.
        interceptors: Of the role, after those of every pod.
        options: Of gRPC.
        host: Address to listen at.
        owner_uid: User id of the job's owner; -1 if that is the user we run as.
        tls_cert: Certificate; None for plain text.
    """
    server = grpc.server(
        ThreadPoolExecutor(num_threads, thread_name_prefix="client"),
        interceptors=[check, *traced_server(), *interceptors],
        options=options,
    )
    add(by_name(server))
    behind = spec.runtime_dir / "client.sock"
    is_encrypted = listen_behind_front(server, behind, tls_cert=tls_cert, tls_key=tls_key)
    front, port = open_front(
        host, behind, owner_uid=owner_uid, authority=check.authority, is_encrypted=is_encrypted
    )
    server.start()
    front.start()
    return ClientServer(port=port, _server=server, _front=front)


def listen_behind_front(
    server: grpc.Server, behind: Path, *, tls_cert: Path | None, tls_key: Path | None
) -> bool:
    """Let a server listen on a Unix socket, and return whether what it speaks is encrypted.

    Args:
        server: Not started yet.
        behind: The socket.
        tls_cert: Certificate chain, PEM; without it or the key nothing is encrypted.
        tls_key: Key of the certificate, PEM.
    """
    address = f"unix:{behind}"
    if tls_cert is None or tls_key is None:
        server.add_insecure_port(address)
        return False
    pair = (tls_key.read_bytes(), tls_cert.read_bytes())
    server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
    return True


def serve_inside(
    spec: PodSpec, num_threads: int, add: Callable[[grpc.Server], None]
) -> grpc.Server:
    """Return a running server for management and the job's pods, at the pod's Unix socket.

    Args:
        num_threads: Calls that are served at a time.
        add: Adds the services to a server.
    """
    server = grpc.server(
        ThreadPoolExecutor(num_threads, thread_name_prefix="inner"),
        interceptors=[*traced_server(), ErrorStatusInterceptor()],
    )
    add(server)
    server.add_insecure_port(spec.control_address())
    server.start()
    return server


def listen_for_hosts(spec: PodSpec, clock: Clock, stack: contextlib.ExitStack) -> str:
    """Open a port for other nodes, if there are any; return the address of `serve_inside` there.

    Args:
        stack: Closes the port.
    """
    target = spec.control_address()
    if not spec.is_networked:
        return target
    server = NetworkServer(network_options(spec), owner=spec.name, clock=clock)
    stack.callback(server.close)
    server.offer(CONTROL, TunnelService(target))
    return server.address


def register_job(
    stub: management_pb2_grpc.ManagementStub,
    spec: PodSpec,
    clock: Clock,
    request: management_pb2.RegisterCoordinatorRequest,
) -> None:
    """Register a job's address, also with a management that has just restarted.

    Args:
        clock: Times how long to try.
        request: Where client and management reach the pod.

    Raises:
        grpc.RpcError: Nobody listens for too long, or the job is unknown.
    """
    deadline = clock.monotonic_seconds() + _REGISTER_SECONDS
    metadata = spec.job_key_metadata
    while True:
        remaining = deadline - clock.monotonic_seconds()
        try:
            stub.RegisterCoordinator(
                request, timeout=remaining, wait_for_ready=True, metadata=metadata
            )
        except grpc.RpcError as error:
            # It ended during the call, or does not know yet where we are; or the clock was set.
            is_away = error.code() in AWAY
            if not is_away or clock.monotonic_seconds() >= deadline:
                raise
            threading.Event().wait(_REGISTER_AGAIN_SECONDS)
        else:
            return
