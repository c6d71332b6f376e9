"""Chooses the memory layout of results: the order of their axes from outermost to innermost.

A traced program transposes around every product of attention. If a result is stored in the layout
of its reader, each transposition is a view; otherwise it is a copy, and a strided one costs as much
as the product. A result without an *order* is row-major. Orders are hints: every kernel accepts
operands in any layout.
"""

from collections.abc import Collection, Mapping, Sequence

from appliance.core.ir.attributes import integers
from appliance.core.ir.graph import Node
from appliance.core.ir.ops import ELEMENTWISE
from appliance.core.ir.tensors import TensorType
from appliance.numerics.groups import Group

Order = tuple[int, ...]


def memory_orders(groups: Sequence[Group], types: Mapping[str, TensorType]) -> dict[str, Order]:
    """Return the order of each result that should not be row-major.

    Args:
        groups: The computation, in order.
        types: Type of every value.
    """
    planner = _Planner(groups, types)
    return planner.run()


class _Planner:
    """Collects the layouts that readers want, backwards, and then assigns orders forwards."""

    def __init__(self, groups: Sequence[Group], types: Mapping[str, TensorType]) -> None:
        self._groups, self._types = groups, types
        self._wanted_orders: dict[str, Order] = {}
        self._seen: dict[str, Order] = {}
        self._in_loops = {
            name for group in groups if group.kernel.fill is not None for name in group.operands
        }

    def run(self) -> dict[str, Order]:
        """Return the orders of results that get memory of their own."""
        for group in reversed(self._groups):
            if len(group.nodes) == 1:
                self._note_wanted_order(group.nodes[0])
        found: dict[str, Order] = {}
        for group in self._groups:
            order = self._order(group)
            if order is not None and not _is_plain(order):
                found[group.results[0]] = order
        return found

    def _note_wanted_order(self, node: Node) -> None:
        """Record the layout in which a node reads its operands best."""
        wanted = self._wanted_orders.get(node.results[0])
        if node.op == "Transpose":
            permutation = integers(node, "permutation")
            order = tuple(permutation[axis] for axis in wanted or range(len(permutation)))
            self._wanted_orders.setdefault(node.operands[0], order)
        elif node.op in ELEMENTWISE and wanted is not None:
            for name in self._alike(node):
                self._wanted_orders.setdefault(name, wanted)

    def _order(self, group: Group) -> Order | None:
        """Return the order of a group's result, and remember how views of it lie."""
        node, result = group.nodes[0], group.results[0]
        if len(group.nodes) > 1:
            return None
        if node.op == "Transpose":
            permutation = integers(node, "permutation")
            lies = self._seen.get(node.operands[0], tuple(range(len(permutation))))
            self._seen[result] = tuple(permutation.index(axis) for axis in lies)
            return None
        order = self._wanted_orders.get(result) if _takes_any_order(group) else None
        if order is None and _takes_any_order(group) and result not in self._in_loops:
            lying = [self._seen[name] for name in self._alike(node) if name in self._seen]
            order = lying[0] if lying and node.op in ELEMENTWISE else None
        if order is not None:
            self._seen[result] = order
        return order

    def _alike(self, node: Node) -> Collection[str]:
        """Return the operands of a node that have its result's shape."""
        shape = node.types[0].shape
        return [name for name in node.operands if self._types[name].shape == shape]


def _takes_any_order(group: Group) -> bool:
    """Return whether the kernel of a node writes into memory however it lies."""
    kernel, op = group.kernel, group.nodes[0].op
    return (op in ELEMENTWISE or op == "DotGeneral") and kernel.into is not None


def _is_plain(order: Order) -> bool:
    return order == tuple(range(len(order)))
