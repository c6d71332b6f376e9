"""Operations whose result may be the operand's memory seen differently.

A program that writes a result straight into a caller's tensor looks through them: the gradient
`Reshape(MatMul(a, b))` is produced by having the product write into the tensor, reshaped back.
"""

import math
from collections.abc import Callable, Mapping

import torch

from appliance.core.ir.attributes import integers
from appliance.core.ir.graph import Node
from appliance.core.ir.ops import VIEW_OPS
from appliance.core.ir.tensors import TensorType
from appliance.numerics.elements import torch_dtype


def may_share_memory(node: Node) -> bool:
    """Return whether results may be views of the node's first operand."""
    return node.op in VIEW_OPS


def view_as_operand(
    node: Node, types: Mapping[str, TensorType]
) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """Return how a contiguous tensor for the result is seen as one for the operand.

    Args:
        node: The operation.
        types: Type of every value.

    Returns:
        A function from the result's tensor to a view of the operand's shape, such that writing the
        operand there puts the result in place; None if there is none.
    """
    if len(node.results) != 1 or not may_share_memory(node):
        return None
    source, target = types[node.operands[0]], node.types[0]
    if torch_dtype(source.dtype) != torch_dtype(target.dtype) or (
        target.dtype.is_half and source.dtype != target.dtype
    ):
        return None
    if node.op == "Cast":
        return lambda tensor: tensor
    if node.op == "Transpose":
        permutation = integers(node, "permutation")
        inverse = tuple(permutation.index(axis) for axis in range(len(permutation)))
        return lambda tensor: tensor.permute(inverse)
    if node.op == "Reshape" or _only_adds_unit_axes(node, source):
        shape = source.shape
        return lambda tensor: tensor.view(shape)
    return None


def _only_adds_unit_axes(node: Node, source: TensorType) -> bool:
    dimensions = integers(node, "broadcast_dimensions", ())
    return (
        node.op == "BroadcastInDim"
        and source.num_elements == math.prod(node.types[0].shape)
        and dimensions == tuple(sorted(dimensions))
    )


class SharedMemory:
    """Which values of a program may be views of one another."""

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def add(self, node: Node) -> None:
        """Take a node into account."""
        if may_share_memory(node):
            root = self.group(node.operands[0])
            for name in node.results:
                self._parent[name] = root

    def group(self, name: str) -> str:
        """Return the name of the value that stands for all that share memory with this one."""
        return self._parent.get(name, name)
