"""What every pass needs: fresh names, renamed operands, and a cleaned-up copy of a graph."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from appliance.core.ir.graph import Attribute, Graph, Location, Node, needed_nodes
from appliance.core.ir.ops import RANDOM_OPS
from appliance.core.ir.tensors import Constant, DType, TensorType


class Names:
    """Value names that are not in use yet.

    Args:
        taken: Names in use.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)

    def fresh(self, base: str) -> str:
        """Return `base`, or `base.2` and so on where that is taken, and take it.

        A part or a copy of a value is named after it; `formats.narrow_values` relies on that.
        """
        name, count = base, 1
        while name in self._taken:
            count += 1
            name = f"{base}.{count}"
        self._taken.add(name)
        return name


def splat(value: complex, type_: TensorType) -> Constant:
    """Return a constant with the same value everywhere."""
    return Constant(type_, np.array([value]).real.astype(type_.dtype.container).tobytes())


def constant_node(name: str, value: float, type_: TensorType, location: Location) -> Node:
    """Return a Const node with the same value everywhere."""
    return Node(
        op="Const",
        operands=(),
        results=(name,),
        types=(type_,),
        attributes={"value": splat(value, type_)},
        location=location,
    )


def simple_node(
    op: str,
    operands: tuple[str, ...],
    result: str,
    type_: TensorType,
    *,
    location: Location,
    attributes: Mapping[str, Attribute] | None = None,
) -> Node:
    """Return a node with one result."""
    return Node(
        op=op,
        operands=operands,
        results=(result,),
        types=(type_,),
        attributes=attributes or {},
        location=location,
    )


def renamed(node: Node, names: Mapping[str, str]) -> Node:
    """Return a node that reads other values in place of those in `names`."""
    operands = tuple(names.get(name, name) for name in node.operands)
    return node if operands == node.operands else replace(node, operands=operands)


def with_nodes(graph: Graph, nodes: Iterable[Node], names: Mapping[str, str]) -> Graph:
    """Return a graph with other nodes, its results renamed."""
    return replace(
        graph,
        nodes=tuple(nodes),
        results=tuple(
            replace(result, value=names.get(result.value, result.value)) for result in graph.results
        ),
    )


def without_dead_nodes(graph: Graph) -> Graph:
    """Drop nodes that no result depends on."""
    live = (result.value for result in graph.results)
    return replace(graph, nodes=needed_nodes(graph.nodes, live))


def constant_values(nodes: Iterable[Node]) -> frozenset[str]:
    """Return the values that depend on constants only and are the same in every step."""
    found: set[str] = set()
    for node in nodes:
        if node.op not in RANDOM_OPS and found.issuperset(node.operands):
            found.update(node.results)
    return frozenset(found)


F32_SCALAR = TensorType((), DType.F32)
