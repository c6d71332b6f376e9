"""Management's side of the coordinators' internal service, and each coordinator's address."""

import itertools
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from appliance.core.clock import Clock
from appliance.core.ids import JobId, Role
from appliance.core.pods.pod_spec import MANAGEMENT, control_address
from appliance.files.beneath import Beneath, read_file
from appliance.files.kept_files import damaged, find_unsealed, replace_file, sealed
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.tunnel import Bridge
from protos.wsc.v1 import management_pb2, management_pb2_grpc

logger = logging.getLogger(__name__)

ADDRESS_FILE = "control_address"
"""Name, in a job's work directory, of the file with the address of a coordinator elsewhere."""

_HINT = "Cancel the job and submit it again."
_CALL_SECONDS = 2.0
_FAR_CALL_SECONDS = 5.0


class CoordinatorAddresses:
    """Where the coordinators of other nodes listen, for pods that ask and for management itself.

    It is kept beside the job's request, so that a management that starts anew knows it. What
    listens on a Unix socket of this node needs no entry.

    Args:
        jobs_dir: Directory of the jobs' work directories.
    """

    def __init__(self, jobs_dir: Path) -> None:
        self._jobs_dir = jobs_dir

    def note(self, job: JobId, address: str) -> None:
        """Store the address that a coordinator has registered; the job must be known."""
        if address and not address.startswith("unix:"):
            path = self._jobs_dir / job / ADDRESS_FILE
            replace_file(path, sealed(address.encode()))

    def forget(self, job: JobId) -> None:
        """Drop what an earlier run of a job has registered: its pods must not look there."""
        (self._jobs_dir / job / ADDRESS_FILE).unlink(missing_ok=True)

    def find(self, job: JobId) -> str:
        """Return host:port of a coordinator's network server; empty if there is none.

        Raises:
            UserError: That is no job's name.
            ClusterError: The file is not what was written.
        """
        path = Beneath(root=self._jobs_dir, parts=(job, ADDRESS_FILE))
        try:
            text = read_file(path)
        except FileNotFoundError:
            return ""
        address = find_unsealed(text)
        if address is None:
            raise damaged(path.path, "a coordinator's address", "it is not what was written", _HINT)
        return address.decode()


class FarCoordinators:
    """The way to coordinators on other nodes.

    Args:
        addresses: Where they are.
        runtime_root: Where sockets may be made.
        options_of: Returns how the nodes of a job speak to each other.
    """

    def __init__(
        self,
        addresses: CoordinatorAddresses,
        runtime_root: Path,
        options_of: Callable[[JobId], NetworkOptions],
        clock: Clock,
    ) -> None:
        self._addresses, self._runtime_root = addresses, runtime_root
        self._options_of, self._clock = options_of, clock
        self._numbers = itertools.count(1)

    def shut_down(self, job: JobId, request: management_pb2.ShutdownRequest) -> bool:
        """Send `Shutdown` to a job's coordinator; return False if it is not on another node.

        Raises:
            grpc.RpcError: It did not take it.
        """
        address = self._addresses.find(job)
        if not address:
            return False
        bridge = Bridge(
            self._runtime_root / f"tell-{next(self._numbers)}.sock",
            lambda: address,
            hello={"job": job},
            label=MANAGEMENT,
            options=self._options_of(job),
            clock=self._clock,
        )
        try:
            _shut_down(bridge.target, request, _FAR_CALL_SECONDS)
        finally:
            bridge.close()
        return True


class Coordinators:
    """Notifies coordinators that their job ends; never waits for them.

    Args:
        far: The way to those on other nodes; None if there are none.
    """

    def __init__(self, far: FarCoordinators | None = None) -> None:
        self._far = far
        self._pool = ThreadPoolExecutor(max_workers=16, thread_name_prefix="tell-coordinator")

    def tell_end(
        self,
        job: JobId,
        runtime_dir: Path,
        *,
        reason: str,
        is_failure: bool,
        pod: str,
        is_preemption: bool,
    ) -> None:
        """Send `Shutdown` to a job's coordinator, in the background.

        A coordinator that cannot be reached is stopped later anyway, so nothing is raised.
        """
        request = management_pb2.ShutdownRequest(
            reason=reason, is_failure=is_failure, pod=pod, is_preemption=is_preemption
        )
        self._pool.submit(self._call, job, runtime_dir, request)

    def close(self) -> None:
        """Give up on calls that have not begun."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _call(self, job: JobId, runtime_dir: Path, request: management_pb2.ShutdownRequest) -> None:
        try:
            if self._far is None or not self._far.shut_down(job, request):
                target = control_address(runtime_dir, Role.COORDINATOR, 0)
                _shut_down(target, request, _CALL_SECONDS)
        except grpc.RpcError as error:
            logger.info(
                "Coordinator did not take the shutdown", extra={"job": job, "error": error.code()}
            )


def _shut_down(target: str, request: management_pb2.ShutdownRequest, seconds: float) -> None:
    with grpc.insecure_channel(target) as channel:
        management_pb2_grpc.JobControlStub(channel).Shutdown(request, timeout=seconds)
