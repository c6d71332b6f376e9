"""The process of an SDK job's pod: assembles, serves and ends its parts in order."""

import contextlib
import faulthandler
import logging
import queue
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc

from appliance.core.clock import Clock, SystemClock
from appliance.core.pods.pod_spec import PodSpec
from appliance.files.beneath import Beneath
from appliance.observability.logging import configure_logging
from appliance.observability.traced_calls import traced_server
from appliance.observability.tracing import traced_pod
from appliance.pods.client_check import ClientCheck, by_name
from appliance.pods.client_port import add_client_port
from appliance.pods.error_status import ErrorStatusInterceptor
from appliance.pods.peers import Peers
from appliance.streams.endpoint import network_options
from appliance.streams.network.server import NetworkServer
from appliance.streams.network.tunnel import CONTROL, TunnelService
from protos.sdk import sdk_appliance_pb2_grpc
from protos.wsc.v1 import management_pb2_grpc
from workers.sdk.artifacts import Artifacts
from workers.sdk.cache import ProgramCache
from workers.sdk.commands import Commands
from workers.sdk.compiler import Compilation
from workers.sdk.device import Device
from workers.sdk.errors import SdkError
from workers.sdk.files import JobFiles
from workers.sdk.management import JobControlServicer, ManagementLink
from workers.sdk.options import SdkOptions
from workers.sdk.programs import Programs
from workers.sdk.servicer import Handlers, SdkServicer
from workers.sdk.traces import Traces

logger = logging.getLogger(__name__)

_MOST_BYTES = (1 << 31) - 1
"""Limit of any message; the public client cuts data of copies at that."""
_NUM_CLIENT_THREADS = 16
_NUM_INNER_THREADS = 4
_STOP_GRACE_SECONDS = 1.0
_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", _MOST_BYTES),
    ("grpc.http2.bdp_probe", 0),  # else each unread message may fill a window of megabytes
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
]


class SdkPod:
    """One SDK job's pod.

    Args:
        spec: The pod.
        clock: Source of time.
    """

    def __init__(self, spec: PodSpec, clock: Clock) -> None:
        self._spec, self._clock = spec, clock
        self._options = options = SdkOptions.of(spec)
        self._stop_reasons: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._peers = Peers(spec, clock)
        self._check = ClientCheck(options.service_authority, options.owner_uid, {})
        self._link = ManagementLink(
            spec,
            clock,
            target=self._peers.management(),
            has_client=self._check.was_client_here,
        )
        self._programs = Programs(spec, options)
        self._files = JobFiles(self._programs, options.limits)
        place = Beneath.parse(options.compile_dir, options.compile_root, what="compile directory")
        cache = ProgramCache(place.path / "programs", options.user_uid, options.limits.cache_bytes)
        traces = Traces(
            self._files,
            self._programs,
            spec.work_dir,
            options.limits,
            self._note_event,
        )
        artifacts = Artifacts(spec.work_dir, options.limits, self._note_event)
        self._handlers = Handlers(
            files=self._files,
            compilation=Compilation(
                self._programs, self._files, cache, options.limits, artifacts.keep
            ),
            commands=Commands(self._programs, self._files, options.limits, options.system_address),
            device=Device(self._programs, self._files, options.system_address),
            keep_trace=traces.take,
            on_error=self._note_error,
            on_event=self._note_event,
        )

    def stop(self, reason: str) -> None:
        """Ask the process to end; safe in a signal handler."""
        self._stop_reasons.put(reason)

    def run(self) -> None:
        """Serve until told to stop; leaves nothing behind but the logs."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._programs.remove)
            stack.callback(self._peers.close)
            stack.callback(self._link.close)
            inner = self._inner_server()
            stack.callback(lambda: inner.stop(_STOP_GRACE_SECONDS).wait())
            control_address = self._listen_for_hosts(stack)
            server, port = self._client_server()
            stack.callback(lambda: server.stop(_STOP_GRACE_SECONDS).wait())
            stack.callback(self._fail, "the job ends")
            logger.info("SDK pod serves", extra={"port": port})
            threading.Thread(target=self._programs.prepare_machine_code, daemon=True).start()
            self._link.register(f"{self._options.public_host}:{port}", control_address)
            reason = self._stop_reasons.get()
            logger.info("SDK pod ends", extra={"reason": reason})

    def _client_server(self) -> tuple[grpc.Server, int]:
        server = grpc.server(
            ThreadPoolExecutor(_NUM_CLIENT_THREADS, thread_name_prefix="client"),
            interceptors=[self._check, *traced_server()],
            options=_CHANNEL_OPTIONS,
        )
        servicer = SdkServicer(self._handlers)
        sdk_appliance_pb2_grpc.add_sdk_applianceServicer_to_server(servicer, by_name(server))
        port = add_client_port(
            server,
            host=self._options.bind_host,
            tls_cert=self._options.tls_cert,
            tls_key=self._options.tls_key,
        )
        self._check.serve_at(self._options.bind_host, port)
        server.start()
        return server, port

    def _inner_server(self) -> grpc.Server:
        server = grpc.server(
            ThreadPoolExecutor(_NUM_INNER_THREADS, thread_name_prefix="inner"),
            interceptors=[*traced_server(), ErrorStatusInterceptor()],
        )
        control = JobControlServicer(self.stop, self._fail)
        management_pb2_grpc.add_JobControlServicer_to_server(control, server)
        server.add_insecure_port(self._spec.control_address())
        server.start()
        return server

    def _listen_for_hosts(self, stack: contextlib.ExitStack) -> str:
        """Open a port for management on another node, if it is; return where we are reached."""
        target = self._spec.control_address()
        if not self._spec.is_networked:
            return target
        options = network_options(self._spec)
        server = NetworkServer(options, owner=self._spec.name, clock=self._clock)
        stack.callback(server.close)
        server.offer(CONTROL, TunnelService(target))
        return server.address

    def _fail(self, reason: str) -> None:
        """End all programs: what the client waits for, and asks for, fails with the reason."""
        self._files.close(reason)
        self._handlers.device.close(reason)
        self._programs.close(reason)

    def _note_event(self, reason: str, text: str) -> None:
        self._link.tell(reason, text, is_warning=False)

    def _note_error(self, error: SdkError) -> None:
        logger.warning("Request failed", extra={"reason": error.message[-500:]})
        self._link.tell("SdkRequestFailed", error.message, is_warning=True)


def run_sdk(spec: PodSpec) -> int:
    """Be the pod until told to stop; return the process's exit code.

    Must run in the main thread, because it takes over SIGTERM.
    """
    configure_logging(as_json=True, fields={"job": spec.job, "pod": spec.name})
    faulthandler.enable()
    with traced_pod(spec):
        pod = SdkPod(spec, SystemClock())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: pod.stop("the process was told to end"))
        pod.run()
    return 0
