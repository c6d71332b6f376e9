"""The coordinator's reports about its job to management."""

import logging
import threading
from collections.abc import Callable, Sequence

import grpc

from appliance.coordinator.run.series import SeriesLog
from appliance.core.clock import Clock
from appliance.core.cluster.jobs import Phase
from appliance.core.pods.pod_spec import PodSpec
from appliance.observability.traced_calls import traced_channel
from appliance.pods.served_pod import AWAY, register_job
from protos.wsc.v1 import management_pb2, management_pb2_grpc

logger = logging.getLogger(__name__)

_INTERVAL_SECONDS = 2.0
_CALL_SECONDS = 3.0


Progress = Callable[[], management_pb2.RunSessionReport | None]


class ManagementLink:
    """The coordinator's side of `wsc.v1.Management`.

    Args:
        spec: The coordinator pod.
        series: What training shows; travels with every report.
        clock: Times how long to try.
        target: gRPC target of management's inner service.
        has_client: Whether the job's client has called since this was asked last.
    """

    def __init__(
        self,
        spec: PodSpec,
        series: SeriesLog,
        clock: Clock,
        *,
        target: str,
        has_client: Callable[[], bool],
    ) -> None:
        self._spec = spec
        self._has_client = has_client
        self._series = series
        self._channel = traced_channel(grpc.insecure_channel(target))
        self._stub = management_pb2_grpc.ManagementStub(self._channel)
        self._metadata = spec.job_key_metadata
        self._clock = clock
        self._sending = threading.Lock()
        self._unsent: list[management_pb2.JobReport] = []
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def register(self, service_address: str, control_address: str, pid: int) -> None:
        """Register this job's address, also with a management that has just restarted.

        Args:
            service_address: host:port for the client.
            control_address: Where management and the job's pods reach the coordinator: a Unix
                socket as gRPC target, or host:port of its network server.
            pid: This process.

        Raises:
            grpc.RpcError: Nobody listens for too long, or the job is unknown.
        """
        request = management_pb2.RegisterCoordinatorRequest(
            job=self._spec.job,
            service_address=service_address,
            control_address=control_address,
            pid=pid,
        )
        register_job(self._stub, self._spec, self._clock, request)

    def report(
        self,
        phase: Phase | None = None,
        message: str = "",
        pods: Sequence[management_pb2.PodReport] = (),
        events: Sequence[management_pb2.JobEventReport] = (),
        session: Progress = lambda: None,
    ) -> None:
        """Report what has become of the job.

        A report of a phase, of an event or of a session's end that does not arrive is sent again
        later, in order; any other is only logged, as the next one says the same. A report that
        would say nothing is not sent: a coordinator that waits for its client costs nobody
        anything.

        Args:
            phase: The phase that the job has reached; None leaves it.
            message: Why, for people.
            pods: What is known of the pods.
            events: What to add to the job's list.
            session: Returns how far the present session is; asked once no other report is on its
                way, so that none overtakes the report of the session's end.
        """
        request = management_pb2.JobReport(
            job=self._spec.job,
            phase="" if phase is None else phase.value,
            message=message,
            pods=pods,
            events=[*events, *self._series.take_warnings()],
            points=self._series.take(pods),
            has_client=self._has_client(),
        )
        with self._sending:
            if (found := session()) is not None:
                request.session.CopyFrom(found)
            if not self._unsent and request == management_pb2.JobReport(job=self._spec.job):
                return
            if not self._send_unsent() or not self._send(request):
                logger.warning("Report failed", extra={"phase": request.phase})
                if request.phase or request.events or request.session.is_over:
                    self._unsent.append(request)

    def _send_unsent(self) -> bool:
        while self._unsent:
            if not self._send(self._unsent[0]):
                return False
            del self._unsent[0]
        return True

    def _send(self, request: management_pb2.JobReport) -> bool:
        try:
            self._stub.ReportJob(request, timeout=_CALL_SECONDS, metadata=self._metadata)
        except grpc.RpcError as error:
            logger.info("Management is not reached", extra={"reason": error.details()})
            return error.code() not in AWAY
        return True

    def request_compile(
        self, wait_seconds: float, num_systems: int, is_cached: bool
    ) -> "grpc.Future[management_pb2.RequestCompileReply]":
        """Request resources to compile; management answers when they are granted, or refused.

        Args:
            wait_seconds: It answers after so long at the latest.
            num_systems: Systems that the program is for.
            is_cached: Whether the program lies in the cache, so that only systems are reserved.
        """
        request = management_pb2.RequestCompileRequest(
            job=self._spec.job,
            wait_seconds=wait_seconds,
            num_systems=num_systems,
            is_cached=is_cached,
        )
        return self._stub.RequestCompile.future(
            request,
            timeout=wait_seconds + _CALL_SECONDS,
            wait_for_ready=True,
            metadata=self._metadata,
        )

    def report_regularly(
        self,
        is_running: Callable[[], bool],
        pods: Callable[[], Sequence[management_pb2.PodReport]],
        progress: Progress,
    ) -> None:
        """Report the pods every so often, from a thread.

        Args:
            is_running: Whether all pods are up; reported as phase RUNNING once.
            pods: Returns what is known of them.
            progress: Returns how far the present session is.
        """
        self._thread = threading.Thread(
            target=self._report_regularly,
            args=(is_running, pods, progress),
            name="reports",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """Report nothing more."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._channel.close()

    def _report_regularly(
        self,
        is_running: Callable[[], bool],
        pods: Callable[[], Sequence[management_pb2.PodReport]],
        progress: Progress,
    ) -> None:
        was_running, interval_seconds = False, 0.2
        while not self._stopping.wait(interval_seconds):
            runs_now = is_running()
            if runs_now and not was_running:
                was_running, interval_seconds = True, _INTERVAL_SECONDS
                self.report(phase=Phase.RUNNING, pods=pods())
            elif runs_now:
                self.report(pods=pods(), session=progress)
            elif self._unsent:
                with self._sending:
                    self._send_unsent()
