"""The port where agents of nodes join: authenticated by a join token, always encrypted."""

from concurrent.futures import ThreadPoolExecutor

import grpc

from appliance.cluster.nodes_servicer import NodesServicer
from appliance.core.clock import Clock
from appliance.core.pods.pod_spec import MANAGEMENT
from appliance.management.access.join_tokens import JoinTokens
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.server import NetworkServer
from appliance.streams.network.tunnel import NODES, TunnelService
from protos.wsc.v1.nodes_pb2_grpc import add_NodesServicer_to_server

_MAX_NODES = 1024
_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]


class NodeListener:
    """Listens from construction on.

    Args:
        host: An address of this node, or a name of it by which nodes know it.
        port: Where; 0 for any free port.
        socket: Path of the Unix socket at which the service itself listens.
        servicer: The service.
        tokens: What nodes prove themselves with.

    Raises:
        ClusterError: This node cannot listen there.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        socket: str,
        servicer: NodesServicer,
        tokens: JoinTokens,
        clock: Clock,
    ) -> None:
        self._server = grpc.server(
            ThreadPoolExecutor(_MAX_NODES, thread_name_prefix="agent"), options=_OPTIONS
        )
        add_NodesServicer_to_server(servicer, self._server)
        self._server.add_insecure_port(f"unix:{socket}")
        self._server.start()
        options = NetworkOptions(host=host, identity=tokens.identity, is_one_sided=True)
        self._network = NetworkServer(
            options, owner=MANAGEMENT, clock=clock, port=port, key_of=tokens.key_of
        )
        self._network.offer(NODES, TunnelService(f"unix:{socket}", tokens.check))

    @property
    def address(self) -> str:
        """host:port at which agents join."""
        return self._network.address

    def close(self) -> None:
        """Hang up on every agent."""
        self._network.close()
        self._server.stop(None).wait()
