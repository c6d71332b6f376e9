"""An SDK job's reports to management, and management's calls to its pod."""

import logging
import os
import threading
from collections.abc import Callable

import grpc

from appliance.core.clock import Clock
from appliance.core.pods.pod_spec import PodSpec
from appliance.observability.process_memory import own_memory
from appliance.observability.traced_calls import traced_channel
from appliance.pods.served_pod import register_job
from protos.wsc.v1 import management_pb2, management_pb2_grpc

logger = logging.getLogger(__name__)

_INTERVAL_SECONDS = 2.0
_CALL_SECONDS = 3.0
_MAX_EVENTS = 200
"""Events of one job at most, so that a client that fails in a loop does not fill the database."""
_MAX_EVENT_CHARACTERS = 2000


class ManagementLink:
    """The pod's side of `wsc.v1.Management`.

    Args:
        clock: Times how long to try.
        target: gRPC target of management's inner service.
        has_client: Whether the job's client has called since this was asked last.
    """

    def __init__(
        self, spec: PodSpec, clock: Clock, *, target: str, has_client: Callable[[], bool]
    ) -> None:
        self._spec, self._clock = spec, clock
        self._has_client = has_client
        self._channel = traced_channel(grpc.insecure_channel(target))
        self._stub = management_pb2_grpc.ManagementStub(self._channel)
        self._metadata = spec.job_key_metadata
        self._lock, self._sending = threading.Lock(), threading.Lock()
        self._events: list[management_pb2.JobEventReport] = []
        self._num_events = 0
        self._changed = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._report_regularly, name="reports", daemon=True)

    def register(self, service_address: str, control_address: str) -> None:
        """Tell where the client finds this job, and report from now on.

        Raises:
            grpc.RpcError: Nobody listens for too long, or the job is unknown.
        """
        request = management_pb2.RegisterCoordinatorRequest(
            job=self._spec.job,
            service_address=service_address,
            control_address=control_address,
            pid=os.getpid(),
        )
        register_job(self._stub, self._spec, self._clock, request)
        self._thread.start()

    def tell(self, reason: str, message: str, *, is_warning: bool) -> None:
        """Add an event to the job's list.

        A warning is there when this returns, if management is: the client, once it is told, may end
        the job, and the last warning is then what the job has failed of. Others are sent in the
        background.
        """
        event = management_pb2.JobEventReport(
            reason=reason,
            message=message[-_MAX_EVENT_CHARACTERS:].strip(),
            is_warning=is_warning,
            pod=self._spec.name,
        )
        with self._lock:
            if self._num_events >= _MAX_EVENTS:
                return
            self._num_events += 1
            self._events.append(event)
        if is_warning:
            self._report()
        else:
            self._changed.set()

    def close(self) -> None:
        """Send what is left, and nothing more."""
        self._is_closed = True
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join()
        self._channel.close()

    def _report_regularly(self) -> None:
        while not self._is_closed:
            self._changed.wait(_INTERVAL_SECONDS)
            self._changed.clear()
            self._report()

    def _report(self) -> None:
        with self._sending:
            self._send()

    def _send(self) -> None:
        with self._lock:
            events = list(self._events)
        memory = own_memory()
        pod = management_pb2.PodReport(
            pod=self._spec.name,
            role=self._spec.role.value,
            index=self._spec.index,
            pid=os.getpid(),
            is_ready=True,
            resident_bytes=memory.resident_bytes,
        )
        report = management_pb2.JobReport(
            job=self._spec.job, pods=[pod], events=events, has_client=self._has_client()
        )
        try:
            self._stub.ReportJob(report, timeout=_CALL_SECONDS, metadata=self._metadata)
        except grpc.RpcError as error:
            logger.info("Management is not reached", extra={"reason": error.details()})
            return
        with self._lock:
            del self._events[: len(events)]


class JobControlServicer(management_pb2_grpc.JobControlServicer):
    """Serves `wsc.v1.JobControl` to management.

    Args:
        shut_down: Ends the job, given the reason; returns at once.
        fail: Lets everything that the client asks for fail, given the reason; returns at once.
    """

    def __init__(self, shut_down: Callable[[str], None], fail: Callable[[str], None]) -> None:
        self._shut_down, self._fail = shut_down, fail

    def Shutdown(
        self, request: management_pb2.ShutdownRequest, context: grpc.ServicerContext
    ) -> management_pb2.ShutdownReply:
        """End the job; after a failure the client can still learn of it."""
        reason = request.reason or "management asked for it"
        if request.is_preemption or request.is_failure:
            self._fail(reason)
        else:
            self._shut_down(reason)
        return management_pb2.ShutdownReply()
