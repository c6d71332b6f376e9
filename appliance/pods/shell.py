"""The process around a pod's role.

It serves the pod's inner service, registers with the job's coordinator, sends heartbeats, reports
failures, and ends in order: when the coordinator says so, on SIGTERM, or when the coordinator is
gone.
"""

import argparse
import contextlib
import faulthandler
import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path

import grpc

from appliance.core.clock import Clock, SystemClock
from appliance.core.cluster.liveness import ListenedTime, Silence
from appliance.core.cluster.readings import POD_ANONYMOUS, POD_PROCESSORS, POD_SHARED
from appliance.core.errors import PodFailedError, WscError
from appliance.core.ids import Role, pod_name
from appliance.core.pods.pod_spec import (
    EXIT_COORDINATOR_FROZEN,
    EXIT_COORDINATOR_LOST,
    EXIT_FAILED,
    PodSpec,
    member_name,
)
from appliance.observability.logging import configure_logging
from appliance.observability.process_memory import own_memory
from appliance.observability.processor_use import ProcessorUse
from appliance.observability.traced_calls import traced_channel, traced_server
from appliance.observability.tracing import traced_pod
from appliance.pods.error_status import ErrorStatusInterceptor
from appliance.pods.peers import Peers
from appliance.pods.pod_sessions import PodRole, SessionServicer
from appliance.pods.process_state import SilentProcess
from appliance.pods.role_context import Failure, PodContext, failure_of
from appliance.wire.deadlines import answered
from protos.wsc.v1 import pods_pb2, pods_pb2_grpc

logger = logging.getLogger(__name__)

_REGISTER_SECONDS = 60.0
_CALL_SECONDS = 5.0
_BEAT_SECONDS = 8.0
"""A heartbeat with its call that takes longer than this: the pod itself was frozen."""
_NUM_SERVER_THREADS = 8
_STOP_GRACE_SECONDS = 2.0
# A plan's text may exceed gRPC's default limit of 4 MiB by far.
_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A socket that is not there yet is tried again soon; by default, after a second.
    ("grpc.initial_reconnect_backoff_ms", 50),
    # Despite its name the limit of one attempt, which may lead over a slow line to another node.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 300),
]


class Heartbeat(Enum):
    """What became of a heartbeat."""

    ANSWERED = "answered"
    REFUSED = "refused"
    """Nobody took it."""
    UNANSWERED = "unanswered"
    """It was taken, or may have been, and not answered in time."""


class CoordinatorLink:
    """This pod's side of the `Coordinator` service.

    Args:
        peers: Where the coordinator is.
    """

    def __init__(self, spec: PodSpec, peers: Peers, clock: Clock) -> None:
        self._spec, self._peers, self._clock = spec, peers, clock
        self._processors = ProcessorUse(clock)
        target = peers.coordinator()
        self._channel = traced_channel(grpc.insecure_channel(target, options=_CHANNEL_OPTIONS))
        self._stub = pods_pb2_grpc.CoordinatorStub(self._channel)

    def register(self, stream_address: str) -> pods_pb2.RegisterReply:
        """Announce the pod and return what the coordinator answers.

        Args:
            stream_address: host:port for its streams; empty if every pod is on this node.

        Raises:
            PodFailedError: The coordinator did not answer in time.
        """
        request = pods_pb2.RegisterRequest(
            pod=self._spec.name,
            role=self._spec.role.value,
            index=self._spec.index,
            pid=os.getpid(),
            control_address=self._spec.control_address(),
            stream_address=stream_address,
        )
        try:
            reply = answered(
                self._stub.Register,
                request,
                seconds=_REGISTER_SECONDS,
                clock=self._clock,
                wait_for_ready=True,
            )
        except grpc.RpcError as error:
            why = self._peers.trouble() or error.details()
            raise PodFailedError(
                f"{self._spec.name} could not register with "
                f"{pod_name(self._spec.job, Role.COORDINATOR, 0)} within "
                f"{_REGISTER_SECONDS:g} s: {why}."
            ) from error
        assert isinstance(reply, pods_pb2.RegisterReply)
        return reply

    def heartbeat(self, context: PodContext) -> Heartbeat:
        """Report progress; return what became of it."""
        session, step, readings = context.progress.snapshot()
        memory = own_memory()
        request = pods_pb2.HeartbeatRequest(
            pod=self._spec.name,
            session=session,
            step=step,
            resident_bytes=memory.resident_bytes,
            readings={
                **readings,
                POD_ANONYMOUS: memory.anonymous_bytes,
                POD_SHARED: memory.shared_bytes,
                POD_PROCESSORS: self._processors.since_last(),
                "wsc_pod_peak_bytes": memory.peak_bytes,
            },
        )
        try:
            self._stub.Heartbeat(request, timeout=_CALL_SECONDS)
        except grpc.RpcError as error:
            logger.warning("Heartbeat failed", extra={"reason": error.details()})
            is_refused = error.code() is grpc.StatusCode.UNAVAILABLE
            return Heartbeat.REFUSED if is_refused else Heartbeat.UNANSWERED
        return Heartbeat.ANSWERED

    def report_failure(self, failure: Failure) -> None:
        """Tell the coordinator that the pod cannot go on."""
        report = pods_pb2.FailureReport(
            pod=self._spec.name,
            message=failure.message,
            detail=failure.detail,
            is_user_error=failure.is_user_error,
        )
        try:
            answered(self._stub.ReportFailure, report, seconds=_CALL_SECONDS, clock=self._clock)
        except grpc.RpcError as error:
            logger.warning("Failure report failed", extra={"reason": error.details()})

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()


class Heartbeats:
    """The thread that tells the coordinator every so often that this pod lives.

    Args:
        context: The pod; stopped when the coordinator is gone.
        registration: The coordinator's answer.
    """

    def __init__(
        self, link: CoordinatorLink, context: PodContext, registration: pods_pb2.RegisterReply
    ) -> None:
        self._link, self._context = link, context
        self._interval_seconds = registration.heartbeat_seconds
        self._is_far = context.spec.is_elsewhere(member_name(Role.COORDINATOR, 0))
        self._coordinator = SilentProcess(pid=0 if self._is_far else registration.pid)
        self._stall_seconds = context.spec.options.stall_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send no more."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        listened = ListenedTime(self._context.clock, most_seconds=_BEAT_SECONDS)
        num_refused, heard = 0, 0.0
        while not self._stopping.wait(self._interval_seconds):
            outcome = self._link.heartbeat(self._context)
            now = listened.tick()
            if outcome is Heartbeat.ANSWERED:
                num_refused, heard = 0, now
                self._coordinator.answered()
                continue
            num_refused = num_refused + 1 if outcome is Heartbeat.REFUSED else 0
            silence = Silence(
                seconds=now - heard,
                num_refused=num_refused,
                activity=self._coordinator.activity(now - heard),
                is_far=self._is_far,
            )
            if silence.is_too_long(stall_seconds=self._stall_seconds):
                self._give_up(silence)
                return

    def _give_up(self, silence: Silence) -> None:
        is_frozen = silence.activity.is_frozen
        logger.error(
            "Coordinator is given up",
            extra={"silent_seconds": silence.seconds, "activity": silence.activity.value},
        )
        reason = "the coordinator is frozen" if is_frozen else "the coordinator is gone"
        code = EXIT_COORDINATOR_FROZEN if is_frozen else EXIT_COORDINATOR_LOST
        self._context.stop(reason, exit_code=code)


def run_pod(
    spec: PodSpec, build: Callable[[PodContext], PodRole], *, clock: Clock | None = None
) -> int:
    """Be a pod until told to stop, and return the process's exit code.

    Must run in the main thread, because it takes over SIGTERM.

    Args:
        spec: Identity and context.
        build: Makes the role; runs after registration's channel exists, before the server listens.
    """
    configure_logging(as_json=True, fields={"job": spec.job, "pod": spec.name})
    faulthandler.enable()
    clock = clock or SystemClock()
    with contextlib.ExitStack() as stack:
        stack.enter_context(traced_pod(spec))
        peers = Peers(spec, clock)
        stack.callback(peers.close)
        link = CoordinatorLink(spec, peers, clock)
        stack.callback(link.close)
        context = PodContext(spec, clock=clock, report_failure=link.report_failure)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: context.stop(signal.Signals(number).name))
        try:
            servicer = _serve(context, build, link, stack)
        except WscError as error:
            logger.exception("Pod could not start")
            link.report_failure(failure_of(error, pod=spec.name, where="its start"))
            return EXIT_FAILED
        exit_code, reason = context.wait_for_stop()
        logger.info("Pod ends", extra={"reason": reason, "exit_code": exit_code})
        if reason in signal.Signals.__members__ and servicer.has_session:
            message = f"{spec.name} was ended by {reason} during a session."
            link.report_failure(Failure(message=message, detail="", is_user_error=False))
    return exit_code


def _serve(
    context: PodContext,
    build: Callable[[PodContext], PodRole],
    link: CoordinatorLink,
    stack: contextlib.ExitStack,
) -> SessionServicer:
    """Bring the pod up; `stack` takes it down again in reverse order."""
    context.streams.listen()
    stack.callback(context.streams.close)
    role = build(context)
    stack.callback(role.close)
    servicer = SessionServicer(context, role)
    stack.callback(servicer.close)
    server = grpc.server(
        ThreadPoolExecutor(_NUM_SERVER_THREADS, thread_name_prefix="service"),
        interceptors=[*traced_server(), ErrorStatusInterceptor()],
        options=_CHANNEL_OPTIONS,
    )
    pods_pb2_grpc.add_PodServicer_to_server(servicer, server)
    role.add_services(server)
    server.add_insecure_port(context.spec.control_address())
    server.start()
    context.streams.offer_control()
    stack.callback(lambda: server.stop(_STOP_GRACE_SECONDS).wait())
    logger.info("Pod serves", extra={"address": context.spec.control_address()})
    registration = link.register(context.streams.network_address)
    stack.callback(Heartbeats(link, context, registration).close)
    logger.info("Pod registered", extra={"pid": os.getpid()})
    return servicer


def pod_main(argv: Sequence[str] | None, run: Callable[[PodSpec], int], *, program: str) -> int:
    """Read the spec that the launcher wrote and be that pod; the body of a role's `main`.

    Args:
        argv: Command line without the program's name; None means this process's.
        run: The role's `run_pod`.
        program: How the program is called, as in `python -m workers.memoryx`.
    """
    parser = argparse.ArgumentParser(prog=program)
    parser.add_argument("--spec", type=Path, required=True, help="JSON file with the pod's spec")
    parser.add_argument(
        "--address", default="", help="where the pods of other nodes reach this one"
    )
    arguments = parser.parse_args(argv)
    return run(PodSpec.from_json(arguments.spec.read_text()).at(arguments.address))
