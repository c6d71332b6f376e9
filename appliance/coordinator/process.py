"""The coordinator's process: assembles its parts, serves the client and the pods, ends in order."""

import contextlib
import logging
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence

import grpc

from appliance.coordinator.client.codec import ChunkInterceptor
from appliance.coordinator.client.error_responses import AnswerInterceptor
from appliance.coordinator.client.monitor import Monitor
from appliance.coordinator.client.repeats import RepeatInterceptor
from appliance.coordinator.client.reports import ManagementLink
from appliance.coordinator.client.servicer import Handlers, appliance_servicer
from appliance.coordinator.compile.artifacts import ArtifactStore
from appliance.coordinator.compile.compilation import Compilation, Compiler
from appliance.coordinator.compile.compile_turn import CompileTurn
from appliance.coordinator.console import Console
from appliance.coordinator.options import CoordinatorOptions
from appliance.coordinator.run.execution import Execution
from appliance.coordinator.run.execution_context import ExecutionContext
from appliance.coordinator.run.gang import Gang
from appliance.coordinator.run.internal_services import CoordinatorServicer, JobControlServicer
from appliance.coordinator.run.kernel_selection import KernelTable
from appliance.coordinator.run.series import SeriesLog
from appliance.coordinator.starvation import StarvationWatch
from appliance.coordinator.weights.initializer import Initializer, is_expected
from appliance.core.addresses import host_and_port
from appliance.core.clock import Clock, SystemClock
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.plans.micro_batches import WaferLimits
from appliance.core.pods.pod_spec import PodSpec
from appliance.pods.allocator import use_one_arena
from appliance.pods.client.client_check import ClientCheck
from appliance.pods.peers import Peers
from appliance.pods.served_pod import (
    ClientServer,
    listen_for_hosts,
    run_served_pod,
    serve_client,
    serve_inside,
)
from appliance.pods.user_variables import user_variables
from appliance.user_code.client_programs import user_environment
from appliance.wire.requests.micro_batches import wafer_limits
from protos.appliance import appliance_service_pb2_grpc
from protos.cluster.cluster_pb2 import CompileJobRequest, ExecuteJobRequest
from protos.wsc.v1 import management_pb2_grpc, pods_pb2_grpc
from protos.wsc.v1.management_pb2 import JobEventReport, PodReport, RunSessionReport

logger = logging.getLogger(__name__)

_NUM_CLIENT_THREADS = 64
"""The client keeps up to a dozen calls waiting; each takes a thread."""
_NUM_INNER_THREADS = 16
_STOP_GRACE_SECONDS = 2.0
MOST_BYTES = 1 << 30
"""Limit of any message, and what a job's pickles may have."""
_PROGRAM_BYTES = 256 << 20
"""Of a program's text, or what is told with a compiled one; that of 100 layers has a few MB."""
_CHUNK_BYTES = (256 << 20) + (1 << 20)
"""Of a piece of a tensor, with its description: the public client cuts tensors at 256 MiB."""
METHOD_BYTES: Mapping[str, int] = {
    "UnaryCompile": _PROGRAM_BYTES,
    "UnaryCheckCompileCompatibility": _PROGRAM_BYTES,
    "UnaryLoad": _PROGRAM_BYTES,
    "UnaryReconfigure": _PROGRAM_BYTES,
    "StartWeightIngestion": _PROGRAM_BYTES,
    "UnaryRun": MOST_BYTES,
    "UnarySendDeferredInput": MOST_BYTES,
    "SendInputBidirStream": _CHUNK_BYTES,
}
"""Limits of messages that hold programs, pickles, or tensors."""
_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.http2.bdp_probe", 0),  # else each unread message may fill a window of megabytes
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 1 << 24),  # a compile error with its stack travels as status details
    ("grpc.so_reuseport", 0),
]


class Coordinator:
    """One job's coordinator.

    Args:
        compiler: Compiles programs and reads plans.
    """

    def __init__(self, spec: PodSpec, compiler: Compiler, clock: Clock) -> None:
        self._spec, self._clock = spec, clock
        self._options = CoordinatorOptions.of(spec)
        self._stop_reasons: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._series = SeriesLog(clock)
        self._peers = Peers(spec, clock)
        target = self._peers.management()
        self._check = ClientCheck(self._options.service_authority, METHOD_BYTES)
        self._link = ManagementLink(
            spec, self._series, clock, target=target, has_client=self._check.was_client_here
        )
        self._console = Console()
        self._turn = CompileTurn(self._link.request_compile, self._console, clock)
        artifacts = ArtifactStore(self._options.compile_root, self._options.user_uid)
        self._compilation = Compilation(
            self._options,
            artifacts,
            self._console,
            compiler=compiler,
            limits=self._limits(),
            on_failure=self._announce_failure,
            wait_for_turn=self._wait_for_turn,
        )
        self._execution = (
            self._make_execution(artifacts, compiler)
            if self._options.job_type is JobType.EXECUTE
            else None
        )
        wait = self._execution.wait_until_over if self._execution is not None else _never
        self._monitor = Monitor(clock, wait)

    def stop(self, reason: str) -> None:
        """Ask the process to end; safe in a signal handler."""
        self._stop_reasons.put(reason)

    def run(self) -> None:
        """Serve until told to stop."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._peers.close)
            stack.callback(self._link.close)
            inner = self._inner_server()
            stack.callback(lambda: inner.stop(_STOP_GRACE_SECONDS).wait())
            control_address = listen_for_hosts(self._spec, self._clock, stack)
            client = self._client_server()
            stack.callback(lambda: client.stop(_STOP_GRACE_SECONDS))
            stack.callback(self._close)
            logger.info("Coordinator serves", extra={"port": client.port})
            service_address = host_and_port(self._options.public_host, client.port)
            self._link.register(service_address, control_address, os.getpid())
            self._link.report_regularly(self._is_running, self._pod_reports, self._progress)
            reason = self._stop_reasons.get()
            logger.info("Coordinator ends", extra={"reason": reason})
            self._stop_reasons.put(reason)

    def _wait_for_turn(self, num_systems: int, is_answered: Callable[[], bool]) -> None:
        if self._execution is None:  # an execute job has all that it takes
            self._turn.wait(num_systems, is_answered)

    def _close(self) -> None:
        reason = self._stop_reasons.get() if not self._stop_reasons.empty() else "it is stopped"
        self._turn.close(f"The job ends: {reason}.")
        self._monitor.close()
        self._console.close()
        if self._execution is not None:
            self._execution.close(f"The job ends: {reason}.")

    def _limits(self) -> WaferLimits:
        kind = ExecuteJobRequest if self._options.job_type is JobType.EXECUTE else CompileJobRequest
        request = kind.FromString(self._options.request_path.read_bytes())
        options = self._options
        return wafer_limits(
            request.debug_args, wafer_bytes=options.wafer_bytes, execution=options.execution
        )

    def _make_execution(self, artifacts: ArtifactStore, compiler: Compiler) -> Execution:
        options = self._options
        request = ExecuteJobRequest.FromString(options.request_path.read_bytes())
        initializer = None
        if request.user_sidecar_env.python_path:
            environment = user_environment(
                request,
                uid=options.user_uid,
                gid=options.user_gid,
                variables=user_variables(self._spec.options),
            )
            initializer = Initializer(self._spec, request, options.gang, environment)
            if is_expected(request):
                initializer.warm_up()
        context = ExecutionContext(
            spec=self._spec,
            clock=self._clock,
            artifacts=artifacts,
            parse_plan=compiler.parse_plan,
            initializer=initializer,
            announce_failure=self._announce_failure,
            machine=options.machine,
            announce_event=self._announce_event,
            announce_session=self._announce_session,
            console=self._console,
            starvation=StarvationWatch(stall_seconds=options.stall_seconds),
            series=self._series,
            kernels=KernelTable(options.kernel_tables) if options.kernel_tables else None,
        )
        return Execution(
            context,
            lambda on_failure, on_silence: Gang(
                self._spec,
                options.gang,
                self._peers,
                clock=self._clock,
                fan_out=options.fan_out,
                stall_seconds=options.stall_seconds,
                on_failure=on_failure,
                on_silence=on_silence,
            ),
        )

    def _announce_failure(self, text: str, events: Sequence[JobEventReport] = ()) -> None:
        pods = self._execution.gang.reports() if self._execution is not None else []
        self._link.report(phase=Phase.FAILED, message=text, pods=pods, events=events)

    def _announce_event(self, event: JobEventReport) -> None:
        self._link.report(pods=self._pod_reports(), events=[event])

    def _announce_session(self, session: RunSessionReport, event: JobEventReport | None) -> None:
        events = [] if event is None else [event]
        self._link.report(pods=self._pod_reports(), events=events, session=lambda: session)

    def _client_server(self) -> ClientServer:
        handlers = Handlers(
            options=self._options,
            console=self._console,
            compilation=self._compilation,
            execution=self._execution,
            monitor=self._monitor,
            on_done=self._client_is_done,
        )
        servicer = appliance_servicer(handlers)
        return serve_client(
            self._spec,
            lambda server: appliance_service_pb2_grpc.add_ApplianceServicer_to_server(
                servicer, server
            ),
            check=self._check,
            num_threads=_NUM_CLIENT_THREADS,
            interceptors=[
                AnswerInterceptor(self._monitor.note_carried),
                RepeatInterceptor(),
                ChunkInterceptor(),
            ],
            options=_CHANNEL_OPTIONS,
            host=self._options.bind_host,
            owner_uid=self._options.owner_uid,
            tls_cert=self._options.tls_cert,
            tls_key=self._options.tls_key,
        )

    def _inner_server(self) -> grpc.Server:
        return serve_inside(self._spec, _NUM_INNER_THREADS, self._add_inner_services)

    def _add_inner_services(self, server: grpc.Server) -> None:
        control = JobControlServicer(self.stop, self._fail, self._preempt)
        management_pb2_grpc.add_JobControlServicer_to_server(control, server)
        if self._execution is not None:
            servicer = CoordinatorServicer(self._execution.gang, self._execution.watch_input)
            pods_pb2_grpc.add_CoordinatorServicer_to_server(servicer, server)

    def _fail(self, reason: str, pod: str) -> None:
        if self._execution is None:
            self.stop(reason)
        else:
            self._execution.failures.report(self._execution.gang.failure_of(pod, reason))

    def _preempt(self, reason: str) -> None:
        advice = "" if self._execution is None else f". {self._execution.how_to_go_on()}"
        self._fail(f"{reason}{advice}", "")

    def _client_is_done(self) -> None:
        if self._execution is not None:
            # The pods may go; the phase is for the client to say, by its cancel call.
            self._execution.close("The client is done.")
        else:
            self.stop("the client is done")

    def _is_running(self) -> bool:
        return self._execution is None or self._execution.gang.is_complete

    def _progress(self) -> RunSessionReport | None:
        return None if self._execution is None else self._execution.progress()

    def _pod_reports(self) -> list[PodReport]:
        return [] if self._execution is None else self._execution.gang.reports()


def _never(timeout_seconds: float) -> bool:
    threading.Event().wait(timeout_seconds)
    return False


def run_coordinator(spec: PodSpec, compiler: Compiler) -> int:
    """Be the pod until told to stop, in the main thread; return the process's exit code."""
    use_one_arena()
    return run_served_pod(spec, lambda: Coordinator(spec, compiler, SystemClock()))
