"""What management hears of the job."""

import logging
import threading
from collections.abc import Callable, Sequence

import grpc

from appliance.coordinator.series import SeriesLog
from appliance.core.jobs import Phase
from appliance.core.pods import PodSpec
from protos.wsc.v1 import management_pb2, management_pb2_grpc

logger = logging.getLogger(__name__)

_INTERVAL_SECONDS = 2.0
_CALL_SECONDS = 3.0
_REGISTER_SECONDS = 30.0


class ManagementLink:
    """The coordinator's side of `wsc.v1.Management`.

    Args:
        spec: The coordinator pod.
        series: What training shows; travels with every report.
    """

    def __init__(self, spec: PodSpec, series: SeriesLog) -> None:
        self._spec = spec
        self._series = series
        self._channel = grpc.insecure_channel(spec.management_address)
        self._stub = management_pb2_grpc.ManagementStub(self._channel)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def register(self, service_address: str, pid: int) -> None:
        """Tell where the client finds this job; raises `grpc.RpcError` if nobody listens."""
        request = management_pb2.RegisterCoordinatorRequest(
            job=self._spec.job,
            service_address=service_address,
            control_address=self._spec.control_address(),
            pid=pid,
        )
        self._stub.RegisterCoordinator(request, timeout=_REGISTER_SECONDS, wait_for_ready=True)

    def report(
        self,
        phase: Phase | None = None,
        message: str = "",
        pods: Sequence[management_pb2.PodReport] = (),
        events: Sequence[management_pb2.JobEventReport] = (),
    ) -> None:
        """Report what has become of the job; a report that does not arrive is only logged."""
        request = management_pb2.JobReport(
            job=self._spec.job,
            phase="" if phase is None else phase.value,
            message=message,
            pods=pods,
            events=events,
            points=self._series.take(),
        )
        try:
            self._stub.ReportJob(request, timeout=_CALL_SECONDS)
        except grpc.RpcError as error:
            logger.warning("Report failed", extra={"reason": error.details()})

    def report_regularly(
        self,
        is_running: Callable[[], bool],
        pods: Callable[[], Sequence[management_pb2.PodReport]],
    ) -> None:
        """Report the pods every so often, from a thread.

        Args:
            is_running: Whether all pods are up; reported as phase RUNNING once.
            pods: Returns what is known of them.
        """
        self._thread = threading.Thread(
            target=self._report_regularly, args=(is_running, pods), name="reports", daemon=True
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
    ) -> None:
        was_running, interval_seconds = False, 0.2
        while not self._stopping.wait(interval_seconds):
            runs_now = is_running()
            if runs_now and not was_running:
                was_running, interval_seconds = True, _INTERVAL_SECONDS
                self.report(phase=Phase.RUNNING, pods=pods())
            elif runs_now:
                self.report(pods=pods())
