"""Pass: remove what computes nothing, and compute equal things once.

Identities (casts to the same type, reshapes to the same shape) disappear, broadcasts that only
insert dims of size 1 become reshapes, chains of reshapes one reshape. Equal nodes are shared where
that costs no memory later: constants, and views of arguments. Sharing anything else could undo an
activation checkpoint, in which the user pays time for memory.
"""

from dataclasses import replace

from appliance.compiler.passes.rewriting import renamed, with_nodes, without_dead_nodes
from appliance.core.ir.attributes import integers
from appliance.core.ir.graph import Attribute, Graph, Node
from appliance.core.ir.ops import RANDOM_OPS, VIEW_OPS
from appliance.core.ir.tensors import TensorType

_Key = tuple[str, tuple[str, ...], tuple[TensorType, ...], tuple[tuple[str, Attribute], ...]]


def canonicalise(graph: Graph) -> Graph:
    """Simplify a graph in normal form; every value that stays keeps its bits."""
    return without_dead_nodes(_Canonicaliser(graph).run())


class _Canonicaliser:
    """One walk over a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._types = graph.types()
        self._renamed: dict[str, str] = {}
        self._producers: dict[str, Node] = {}
        self._shareable = {argument.name for argument in graph.arguments}
        self._constant: set[str] = set()
        self._seen: dict[_Key, Node] = {}

    def run(self) -> Graph:
        nodes: list[Node] = []
        for original in self._graph.nodes:
            node = self._simplified(renamed(original, self._renamed))
            if self._is_identity(node):
                self._renamed[node.results[0]] = node.operands[0]
                continue
            if self._is_shared(node):
                continue
            self._producers.update(dict.fromkeys(node.results, node))
            nodes.append(node)
        return with_nodes(self._graph, nodes, self._renamed)

    def _simplified(self, node: Node) -> Node:
        if node.op == "BroadcastInDim" and self._keeps_elements(node):
            node = replace(node, op="Reshape", attributes={})
        if node.op == "Reshape":
            source = self._producers.get(node.operands[0])
            if source is not None and source.op == "Reshape":
                node = replace(node, operands=source.operands)
        return node

    def _keeps_elements(self, node: Node) -> bool:
        return self._types[node.operands[0]].num_elements == node.types[0].num_elements

    def _is_identity(self, node: Node) -> bool:
        if node.op == "Transpose":
            permutation = integers(node, "permutation")
            return list(permutation) == sorted(permutation)
        if node.op == "Concat":
            return len(node.operands) == 1
        if node.op not in ("Cast", "Reshape", "BroadcastInDim", "StridedSlice"):
            return False
        return self._types[node.operands[0]] == node.types[0]

    def _is_shared(self, node: Node) -> bool:
        is_constant = node.op not in RANDOM_OPS and self._constant.issuperset(node.operands)
        is_view = node.op in VIEW_OPS and self._shareable.issuperset(node.operands)
        if not (is_constant or is_view):
            return False
        key = (node.op, node.operands, node.types, tuple(sorted(node.attributes.items())))
        first = self._seen.setdefault(key, node)
        if first is not node:
            self._renamed.update(zip(node.results, first.results, strict=True))
            return True
        (self._constant if is_constant else self._shareable).update(node.results)
        return False
