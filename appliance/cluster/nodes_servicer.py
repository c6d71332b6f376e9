"""The service by which agents join management."""

import logging
import threading
from collections.abc import Iterator

import grpc

from appliance.cluster.agents import AgentLauncher
from appliance.cluster.node_links import NodeLink
from appliance.core.errors import ConflictError, UserError
from protos.wsc.v1 import nodes_pb2 as pb
from protos.wsc.v1 import nodes_pb2_grpc

logger = logging.getLogger(__name__)


class NodesServicer(nodes_pb2_grpc.NodesServicer):
    """Serves `wsc.v1.Nodes`; each agent that is joined takes one thread of the server.

    Args:
        launcher: Told what the agents report, and whose orders they get.
    """

    def __init__(self, launcher: AgentLauncher) -> None:
        self._launcher = launcher

    def Join(
        self, request_iterator: Iterator[pb.NodeReport], context: grpc.ServicerContext
    ) -> Iterator[pb.NodeOrder]:
        """Serve a joined node until its connection breaks, or it has joined again."""
        first = next(request_iterator, pb.NodeReport())
        if not first.HasField("hello") or not first.hello.name:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "An agent begins with its hello.")
        try:
            link = self._launcher.attach(first.hello)
        except ConflictError as error:
            context.abort(grpc.StatusCode.ALREADY_EXISTS, str(error))
            raise
        except UserError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            raise
        threading.Thread(
            target=self._read,
            args=(request_iterator, link),
            name=f"node-{first.hello.name}",
            daemon=True,
        ).start()
        try:
            yield from iter(link.orders.get, None)
        finally:
            self._launcher.detach(link)

    def _read(self, reports: Iterator[pb.NodeReport], link: NodeLink) -> None:
        """Take what a node reports; body of a thread that ends with the connection."""
        try:
            for report in reports:
                self._launcher.take(link, report)
        except grpc.RpcError as error:
            logger.info("Connection of a node broke", extra={"node": link.name, "why": str(error)})
        except Exception:  # outermost frame of a thread
            logger.exception("A node's report was not understood", extra={"node": link.name})
        finally:
            self._launcher.detach(link)
