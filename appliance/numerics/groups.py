"""Nodes that run together as one call.

What a program executes is a list of groups. Most are single nodes with a kernel of their own; the
rest are several nodes for which there is something faster. A group means what its nodes mean, one
after the other: that is the definition its kernel is tested against. The plan, the timing of the
wafer and the accounting of its memory know nothing of groups.
"""

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import TensorType
from appliance.numerics.kernels import Kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Nodes with the kernel that computes them.

    Attributes:
        nodes: The nodes, in order.
        kernel: Called with the operands.
        operands: Names of the values it is called with, in its order.
        results: Names of the values it returns, in its order.
        elementwise: Names of operands and results whose elements meet at the same place only, so
            that a result may be written over an operand.
        memory_of_its_own: Whether no result is ever a view of an operand.
    """

    nodes: tuple[Node, ...]
    kernel: Kernel
    operands: tuple[str, ...]
    results: tuple[str, ...]
    types: tuple[TensorType, ...]
    elementwise: frozenset[str] = frozenset()
    memory_of_its_own: bool = False

    @property
    def title(self) -> str:
        """What it is and where it comes from, for people."""
        first = self.nodes[0]
        if len(self.nodes) == 1:
            return f"{first.op} at {first.location}"
        ops = " ".join(dict.fromkeys(node.op for node in self.nodes))
        return f"A group of {len(self.nodes)} nodes ({ops}) at {first.location}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Uses:
    """Who reads what in a list of nodes.

    Attributes:
        readers: For each value, the positions of the nodes that read it.
        producers: For each value that a node defines, its position.
        live_out: Values that are kept.
    """

    readers: Mapping[str, tuple[int, ...]]
    producers: Mapping[str, int]
    live_out: frozenset[str]

    def outside(self, members: Collection[int]) -> "frozenset[str]":
        """Return the values, defined by members, that somebody else reads or that live out."""
        inside = set(members)
        return frozenset(
            name
            for name, position in self.producers.items()
            if position in inside
            and (name in self.live_out or not inside.issuperset(self.readers.get(name, ())))
        )


def uses_of(nodes: Sequence[Node], live_out: Collection[str]) -> Uses:
    """Return who reads what."""
    readers: dict[str, list[int]] = {}
    producers: dict[str, int] = {}
    for position, node in enumerate(nodes):
        for name in dict.fromkeys(node.operands):
            readers.setdefault(name, []).append(position)
        producers.update(dict.fromkeys(node.results, position))
    return Uses(
        readers={name: tuple(found) for name, found in readers.items()},
        producers=producers,
        live_out=frozenset(live_out),
    )


def in_order(parts: Sequence[Sequence[int]], nodes: Sequence[Node]) -> list[tuple[int, ...]]:
    """Sort parts of a list of nodes topologically, each after those it reads from.

    Args:
        parts: Positions of nodes; every node is in one part.
        nodes: The nodes, in order.

    Returns:
        The parts; ties are broken by the position of a part's last node.

    Raises:
        ValueError: Two parts wait for each other.
    """
    part_of = {position: index for index, part in enumerate(parts) for position in part}
    producers = {name: part_of[at] for at, node in enumerate(nodes) for name in node.results}
    waits: list[set[int]] = []
    followers: list[set[int]] = [set() for _ in parts]
    for index, part in enumerate(parts):
        needed = {producers[n] for at in part for n in nodes[at].operands if n in producers}
        waits.append(needed - {index})
        for other in waits[-1]:
            followers[other].add(index)
    ready = [(max(part), index) for index, part in enumerate(parts) if not waits[index]]
    heapq.heapify(ready)
    ordered: list[tuple[int, ...]] = []
    while ready:
        _, index = heapq.heappop(ready)
        ordered.append(tuple(parts[index]))
        for other in followers[index]:
            waits[other].discard(index)
            if not waits[other]:
                heapq.heappush(ready, (max(parts[other]), other))
    if len(ordered) != len(parts):
        raise ValueError("groups of nodes wait for each other")
    return ordered
