"""What a traced program spells out in several nodes and torch has one kernel for.

Found by structure, whatever the program: every value between the nodes must be read within the
pattern alone. Only what computes the same numbers is a pattern; a program in which a value between
is rounded to 16 bits has none.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from appliance.core.ir.attributes import integers, resolve_axes, text
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import TensorType
from appliance.numerics.groups import Group, Uses
from appliance.numerics.kernels import Kernel


def find_patterns(
    nodes: Sequence[Node], types: Mapping[str, TensorType], uses: Uses
) -> dict[tuple[int, ...], Group]:
    """Return the groups of the patterns in a list of nodes, by the positions of their nodes.

    Args:
        nodes: The computation, in order.
        types: Type of every value.
        uses: Who reads what.
    """
    finder = _Finder(nodes, types, uses)
    found = (finder.softmax_gradient(at) for at, node in enumerate(nodes) if node.op == "Sub")
    return dict(match for match in found if match is not None)


@dataclass(frozen=True, slots=True)
class _Finder:
    """Looks for patterns around a node."""

    nodes: Sequence[Node]
    types: Mapping[str, TensorType]
    uses: Uses

    def softmax_gradient(self, at: int) -> tuple[tuple[int, ...], Group] | None:
        """Match `y * (dy - sum(dy * y))` around its difference; the sum is over one axis."""
        gradient, total = self.nodes[at].operands
        inner = self._sum_of_product(total, gradient)
        scaling = self._only_reader(self.nodes[at].results[0])
        if inner is None or scaling is None or self.nodes[scaling].op != "Mul":
            return None
        members = (*inner, at, scaling)
        output = _other(self.nodes[scaling], self.nodes[at].results[0])
        product, reduction = self.nodes[inner[0]], self.nodes[inner[1]]
        if output != _other(product, gradient) or self._has_halves(members):
            return None
        (axis,) = resolve_axes(integers(reduction, "dimensions"), len(product.types[0].shape))
        return members, Group(
            nodes=tuple(self.nodes[member] for member in members),
            kernel=_softmax_gradient_kernel(axis),
            operands=(gradient, output),
            results=self.nodes[scaling].results,
            types=self.nodes[scaling].types,
            memory_of_its_own=True,
        )

    def _sum_of_product(self, total: str, factor: str) -> tuple[int, ...] | None:
        """Match a product with a factor, summed over one axis and repeated along it.

        Returns:
            The positions of the product, the sum and what repeats it; None if it is not that.
        """
        chain: list[int] = []
        name = total
        for op in ("BroadcastInDim", "Reshape", "Reduce", "Mul"):
            at = self.uses.producers.get(name)
            if at is None or self._only_reader(name) is None:
                return None
            if self.nodes[at].op == op:
                chain.append(at)
                name = self.nodes[at].operands[0]
            elif op != "Reshape":
                return None
        product, reduction, *_ = ordered = tuple(reversed(chain))
        if factor not in self.nodes[product].operands or not self._leaves_axes(reduction, chain):
            return None
        return ordered

    def _leaves_axes(self, reduction: int, chain: Sequence[int]) -> bool:
        """Return whether a sum over one axis is repeated along that axis."""
        node, broadcast = self.nodes[reduction], self.nodes[chain[0]]
        shape = self.types[node.operands[0]].shape
        axes = resolve_axes(integers(node, "dimensions"), len(shape))
        if len(axes) != 1 or text(node, "reduce_kind") != "ADD":
            return False
        kept = tuple(axis for axis in range(len(shape)) if axis not in axes)
        unit = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
        reduced = tuple(shape[axis] for axis in kept)
        dimensions = integers(broadcast, "broadcast_dimensions")
        repeated = self.types[broadcast.operands[0]].shape
        return broadcast.types[0].shape == shape and (
            (repeated == unit and dimensions == tuple(range(len(shape))))
            or (repeated == reduced and dimensions == kept)
        )

    def _only_reader(self, name: str) -> int | None:
        readers = self.uses.readers.get(name, ())
        return readers[0] if len(readers) == 1 and name not in self.uses.live_out else None

    def _has_halves(self, members: Sequence[int]) -> bool:
        types: Iterator[TensorType] = (self.nodes[at].types[0] for at in members)
        return any(type_.dtype.is_half or not type_.dtype.is_float for type_ in types)


def _other(node: Node, name: str) -> str:
    """Return the operand of a product beside the named one."""
    first, second = node.operands
    return second if first == name else first


def _softmax_gradient_kernel(axis: int) -> Kernel:
    compute = torch.ops.aten._softmax_backward_data

    def call(gradient: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = compute.default(gradient, output, axis, gradient.dtype)
        return result

    def into(out: torch.Tensor, gradient: torch.Tensor, output: torch.Tensor) -> None:
        if not out.is_contiguous():  # torch would take it for contiguous
            out.copy_(call(gradient, output))
            return
        compute.out(gradient, output, axis, gradient.dtype, grad_input=out)

    return Kernel(call=call, into=into)
