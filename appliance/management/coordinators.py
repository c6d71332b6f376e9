"""Management's side of the coordinators' inner service."""

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from appliance.core.ids import JobId, Role
from appliance.core.pods import control_address
from protos.wsc.v1 import management_pb2, management_pb2_grpc

logger = logging.getLogger(__name__)

_CALL_SECONDS = 2.0


class Coordinators:
    """Tells coordinators that their job ends; never waits for them."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=16, thread_name_prefix="tell-coordinator")

    def tell_end(
        self, job: JobId, runtime_dir: Path, *, reason: str, is_failure: bool, pod: str
    ) -> None:
        """Send `Shutdown` to a job's coordinator, in the background.

        A coordinator that cannot be reached is stopped later anyway, so nothing is raised.
        """
        request = management_pb2.ShutdownRequest(reason=reason, is_failure=is_failure, pod=pod)
        self._pool.submit(self._call, job, runtime_dir, request)

    def close(self) -> None:
        """Give up on calls that have not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _call(self, job: JobId, runtime_dir: Path, request: management_pb2.ShutdownRequest) -> None:
        target = control_address(runtime_dir, Role.COORDINATOR, 0)
        try:
            with grpc.insecure_channel(target) as channel:
                stub = management_pb2_grpc.JobControlStub(channel)
                stub.Shutdown(request, timeout=_CALL_SECONDS)
        except grpc.RpcError as error:
            logger.info(
                "Coordinator did not take the shutdown", extra={"job": job, "error": error.code()}
            )
