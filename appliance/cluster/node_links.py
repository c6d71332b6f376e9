"""A node that has joined: its description, and the connection over which it takes orders."""

import itertools
import queue
from dataclasses import dataclass

from appliance.cluster.node_cores import NodeCores
from appliance.core.addresses import is_loopback
from appliance.core.errors import UserError
from appliance.wire.networks import address_of
from protos.wsc.v1 import nodes_pb2 as pb


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node as it is known.

    Attributes:
        address: Where its pods are reached.
        roles: What its pods may be.
        cores: Its CPU cores.
        public_host: What clients call it; empty if that is the address.
        cpu_percent: How busy its cores are.
        memory_percent: How full its memory is.
    """

    name: str
    address: str
    roles: tuple[str, ...]
    cores: NodeCores
    memory_bytes: int
    public_host: str = ""
    cpu_percent: float = 0.0
    memory_percent: float = 0.0

    @property
    def hosts(self) -> frozenset[str]:
        """By what its pods are reached, by others and by clients."""
        return frozenset({self.address, self.public_host} - {""})

    def check_hosts(self, *, takes_loopback: bool) -> None:
        """Refuse hosts at which others cannot reach a node, and management finds another thing.

        A name is believed: who says what it means is the name service of management.

        Args:
            takes_loopback: Whether nodes may be on management's own machine, known by its loopback.

        Raises:
            UserError: There is one.
        """
        for host in self.hosts:
            address = address_of(host)
            is_nowhere = address is not None and (
                address.is_link_local or address.is_multicast or address.is_unspecified
            )
            if is_nowhere or (is_loopback(host) and not takes_loopback):
                raise UserError(
                    f"Node {self.name!r} says that it is at {host}, where others cannot reach it.",
                    hint="Give it an address of its own with --address.",
                )


class NodeLink:
    """The connection of a node that has joined.

    Args:
        name: The node.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.orders: queue.SimpleQueue[pb.NodeOrder | None] = queue.SimpleQueue()
        self._numbers = itertools.count(1)
        self._replies: dict[int, queue.SimpleQueue[pb.OrderReply]] = {}
        self._is_closed = False

    def tell(self, order: pb.NodeOrder) -> None:
        """Send an order that needs no answer."""
        self.orders.put(order)

    def begin(self, order: pb.NodeOrder) -> int:
        """Send an order and return its number, for `wait`."""
        order.number = next(self._numbers)
        self._replies[order.number] = queue.SimpleQueue()
        self.orders.put(order)
        if self._is_closed:
            self._refuse(order.number)
        return order.number

    def wait(self, number: int, seconds: float) -> pb.OrderReply:
        """Return the answer to an order; one that says so if there is none in time."""
        try:
            return self._replies[number].get(timeout=seconds)
        except queue.Empty:
            return pb.OrderReply(order=number, error=f"it has not answered within {seconds:g} s")
        finally:
            del self._replies[number]

    def take_reply(self, reply: pb.OrderReply) -> None:
        """Pass an answer to its waiting caller."""
        if (replies := self._replies.get(reply.order)) is not None:
            replies.put(reply)

    def close(self) -> None:
        """End the connection, and release all callers that wait."""
        self._is_closed = True
        self.orders.put(None)
        for number in list(self._replies):
            self._refuse(number)

    def _refuse(self, number: int) -> None:
        self.take_reply(pb.OrderReply(order=number, error="its agent's connection broke"))
