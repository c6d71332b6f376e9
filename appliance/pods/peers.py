"""How a pod reaches the gRPC services of management and of its job's other pods, wherever they run.

On its own node each listens on a Unix socket whose path follows from its name. Another node's is
reached over a bridge. Where its far end is, is found by registration: a coordinator tells
management where it listens, a pod asks management for its coordinator and tells that one where it
listens itself. So no port has to be known before a pod runs, and no name has to be resolved.
"""

import threading
from collections.abc import Callable
from pathlib import Path

import grpc

from appliance.core.clock import Clock
from appliance.core.ids import Role
from appliance.core.pods.pod_spec import MANAGEMENT, PodSpec, control_address, member_name
from appliance.streams.endpoint import network_options
from appliance.streams.network.tcp_frames import ChannelBrokenError
from appliance.streams.network.tunnel import Bridge, KnownOnce
from protos.wsc.v1 import management_pb2, management_pb2_grpc

_ASK_SECONDS = 5.0
_COORDINATOR = member_name(Role.COORDINATOR, 0)


class Peers:
    """The ways from one pod to the others; bridges are built when they are first asked for.

    Args:
        spec: The pod, and who runs on which node.
    """

    def __init__(self, spec: PodSpec, clock: Clock) -> None:
        self._spec, self._clock = spec, clock
        self._options = network_options(spec)
        self._bridges: dict[str, Bridge] = {}
        self._lock = threading.Lock()
        self._find_coordinator = KnownOnce(self._ask_management, what=_COORDINATOR)

    def management(self) -> str:
        """Return the gRPC target of management's inner service."""
        address = self._spec.management_address
        if not self._spec.is_elsewhere(MANAGEMENT):
            return address
        return self._bridge(MANAGEMENT, lambda: address)

    def coordinator(self) -> str:
        """Return the gRPC target of the job's coordinator."""
        if not self._spec.is_elsewhere(_COORDINATOR):
            return control_address(self._spec.runtime_dir, Role.COORDINATOR, 0)
        return self._bridge(_COORDINATOR, self._find_coordinator)

    def member(self, member: str, address: str) -> str:
        """Return the gRPC target of a pod on another node that has told where it listens.

        Args:
            member: Its name, as in `chief-0`.
            address: host:port of its network server.
        """
        return self._bridge(member, lambda: address)

    def trouble(self) -> str:
        """Return why the last attempt to reach another node failed; empty if none did."""
        bridges = list(self._bridges.values())
        return "; ".join(bridge.trouble for bridge in bridges if bridge.trouble)

    def close(self) -> None:
        """Take every bridge down."""
        with self._lock:
            bridges = list(self._bridges.values())
        for bridge in bridges:
            bridge.close()

    def _bridge(self, member: str, find: Callable[[], str]) -> str:
        with self._lock:
            if member not in self._bridges:
                self._bridges[member] = Bridge(
                    self._path(member),
                    find,
                    hello={"job": self._spec.job},
                    label=self._spec.name,
                    options=self._options,
                    clock=self._clock,
                )
            return self._bridges[member].target

    def _path(self, member: str) -> Path:
        # Pods that count as nodes of their own may yet share a runtime directory: both names count.
        return self._spec.runtime_dir / f"{self._spec.member}.{member}"

    def _ask_management(self) -> str:
        """Ask management where the coordinator listens; empty if it has not said so yet."""
        request = management_pb2.FindCoordinatorRequest(job=self._spec.job)
        with grpc.insecure_channel(self.management()) as channel:
            stub = management_pb2_grpc.ManagementStub(channel)
            try:
                reply = stub.FindCoordinator(
                    request,
                    timeout=_ASK_SECONDS,
                    wait_for_ready=True,
                    metadata=self._spec.job_key_metadata,
                )
            except grpc.RpcError as error:
                raise ChannelBrokenError(
                    f"management does not answer: {error.details()}"
                ) from error
        return str(reply.control_address)
