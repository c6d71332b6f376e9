"""The process of an SDK job's pod: assembles, serves and ends its parts in order."""

import contextlib
import logging
import queue
import threading

import grpc

from appliance.core.addresses import host_and_port
from appliance.core.clock import Clock, SystemClock
from appliance.core.pods.pod_spec import PodSpec
from appliance.files.beneath import Beneath
from appliance.pods.client.client_check import ClientCheck
from appliance.pods.peers import Peers
from appliance.pods.served_pod import (
    ClientServer,
    listen_for_hosts,
    run_served_pod,
    serve_client,
    serve_inside,
)
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
    """One SDK job's pod."""

    def __init__(self, spec: PodSpec, clock: Clock) -> None:
        self._spec, self._clock = spec, clock
        self._options = options = SdkOptions.of(spec)
        self._stop_reasons: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._peers = Peers(spec, clock)
        self._check = ClientCheck(options.service_authority, {})
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
            control_address = listen_for_hosts(self._spec, self._clock, stack)
            client = self._client_server()
            stack.callback(lambda: client.stop(_STOP_GRACE_SECONDS))
            stack.callback(self._fail, "the job ends")
            logger.info("SDK pod serves", extra={"port": client.port})
            threading.Thread(target=self._programs.prepare_machine_code, daemon=True).start()
            address = host_and_port(self._options.public_host, client.port)
            self._link.register(address, control_address)
            reason = self._stop_reasons.get()
            logger.info("SDK pod ends", extra={"reason": reason})

    def _client_server(self) -> ClientServer:
        servicer = SdkServicer(self._handlers)
        return serve_client(
            self._spec,
            lambda server: sdk_appliance_pb2_grpc.add_sdk_applianceServicer_to_server(
                servicer, server
            ),
            check=self._check,
            num_threads=_NUM_CLIENT_THREADS,
            interceptors=[],
            options=_CHANNEL_OPTIONS,
            host=self._options.bind_host,
            owner_uid=self._options.owner_uid,
            tls_cert=self._options.tls_cert,
            tls_key=self._options.tls_key,
        )

    def _inner_server(self) -> grpc.Server:
        control = JobControlServicer(self.stop, self._fail)
        return serve_inside(
            self._spec,
            _NUM_INNER_THREADS,
            lambda server: management_pb2_grpc.add_JobControlServicer_to_server(control, server),
        )

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
    """Be the pod until told to stop, in the main thread; return the process's exit code."""
    return run_served_pod(spec, lambda: SdkPod(spec, SystemClock()))
