"""Reading and writing elements by index."""

import math
from collections.abc import Sequence

import torch

from appliance.core.errors import InternalError
from appliance.core.graph import Node
from appliance.core.tensors import TensorType
from appliance.numerics.attributes import flag, integer, number, resolve_axis, text
from appliance.numerics.elements import torch_dtype
from appliance.numerics.kernels.kernel import Builders, Kernel


def _gather(node: Node, types: Sequence[TensorType]) -> Kernel:
    rank, shape = len(types[0].shape), node.types[0].shape
    axis = resolve_axis(integer(node, "axis"), rank)
    batch_dims = integer(node, "batch_dims", 0)
    if batch_dims:
        raise InternalError(f"Gather at {node.location}: batch_dims {batch_dims} is not 0.")
    if is_elementwise_gather(node, types):
        return Kernel(call=lambda table, index: table.gather(axis, index.long()))

    def call(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.index_select(table, axis, index.reshape(-1)).reshape(shape)

    return Kernel(call=call)


def is_elementwise_gather(node: Node, types: Sequence[TensorType]) -> bool:
    """Return whether each index picks one element (as torch.gather) and not a whole slice.

    The client lowers both to the same operation; only the ranks tell them apart.
    """
    return len(types[1].shape) == len(types[0].shape) == len(node.types[0].shape) > 1


def _gather_nd(node: Node, types: Sequence[TensorType]) -> Kernel:
    if integer(node, "start_dim", 0):
        raise InternalError(f"GatherNd at {node.location}: start_dim is not 0.")
    depth, shape = types[1].shape[-1], node.types[0].shape
    inner = types[0].shape[depth:]
    strides = _row_strides(types[0].shape, depth)

    def call(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        rows = (index.reshape(-1, depth) * strides).sum(-1)
        return table.reshape(-1, *inner).index_select(0, rows).reshape(shape)

    return Kernel(call=call)


def _scatter(node: Node, types: Sequence[TensorType]) -> Kernel:
    axis = resolve_axis(integer(node, "axis"), len(types[0].shape))
    kind = text(node, "reduce_kind", "NONE")
    if kind == "NONE":
        return Kernel(call=lambda base, index, x: base.scatter(axis, index.long(), x))
    if kind == "ADD":
        return Kernel(call=lambda base, index, x: base.scatter_add(axis, index.long(), x))
    raise InternalError(f"Scatter at {node.location}: kind {kind!r} is not known.")


def _one_hot(node: Node, types: Sequence[TensorType]) -> Kernel:
    shape, dtype = node.types[0].shape, torch_dtype(node.types[0].dtype)
    axis = resolve_axis(integer(node, "axis", -1), len(shape))
    on, off = number(node, "on_value"), number(node, "off_value")
    classes = torch.arange(shape[axis]).reshape([-1] + [1] * (len(shape) - 1 - axis))
    on_value, off_value = torch.tensor(on, dtype=dtype), torch.tensor(off, dtype=dtype)

    def call(index: torch.Tensor) -> torch.Tensor:
        return torch.where(index.unsqueeze(axis) == classes, on_value, off_value)

    return Kernel(call=call)


def _top_k(node: Node, _types: Sequence[TensorType]) -> Kernel:
    axis, count = integer(node, "dimension"), integer(node, "k")
    largest = flag(node, "largest", default=True)

    def call(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, index = torch.sort(x, dim=axis, descending=largest, stable=True)
        return values.narrow(axis, 0, count), index.narrow(axis, 0, count)

    return Kernel(call=call)


def _row_strides(shape: tuple[int, ...], depth: int) -> torch.Tensor:
    return torch.tensor([math.prod(shape[axis + 1 : depth]) for axis in range(depth)])


def _scatter_nd(node: Node, types: Sequence[TensorType]) -> Kernel:
    """Return the kernel of scatter-add over the leading `depth` axes, flattened to one."""
    depth = types[1].shape[-1]
    base_shape = types[0].shape
    inner = base_shape[depth:]
    strides = _row_strides(base_shape, depth)

    def call(base: torch.Tensor, index: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
        rows = (index.reshape(-1, depth) * strides).sum(-1)
        table = base.reshape(-1, *inner) if depth else base.reshape(1, *inner)
        return table.index_add(0, rows, updates.reshape(-1, *inner)).reshape(base_shape)

    return Kernel(call=call)


BUILDERS: Builders = {
    "Gather": _gather,
    "GatherNd": _gather_nd,
    "OneHot": _one_hot,
    "Scatter": _scatter,
    "ScatterNd": _scatter_nd,
    "TopK": _top_k,
}
