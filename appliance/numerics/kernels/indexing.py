"""Reading and writing elements by index.

No kernel here depends on the order in which threads finish: torch's `index_add` and `scatter_add`
take the updates in their order on the CPU.
"""

import math
from collections.abc import Sequence

import torch

from appliance.core.errors import InternalError
from appliance.core.ir.attributes import integer, resolve_axis, text
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import TensorType
from appliance.numerics.elements import scalar_attribute, torch_dtype
from appliance.numerics.kernels.kernel import Builders, Kernel


def is_elementwise_gather(node: Node, types: Sequence[TensorType]) -> bool:
    """Return whether each index picks one element (as torch.gather) and not a whole slice.

    The client lowers both to the same operation; only the ranks tell them apart.
    """
    no_batch = not integer(node, "batch_dims", 0)
    return no_batch and len(types[1].shape) == len(types[0].shape) == len(node.types[0].shape) > 1


def _gather(node: Node, types: Sequence[TensorType]) -> Kernel:
    axis = resolve_axis(integer(node, "axis"), len(types[0].shape))
    batch_dims, shape = integer(node, "batch_dims", 0), node.types[0].shape
    if is_elementwise_gather(node, types):
        return Kernel(call=lambda table, index: table.gather(axis, index.long()))
    if batch_dims:
        return _batched_gather(types, axis, batch_dims, shape)

    def into(out: torch.Tensor, table: torch.Tensor, index: torch.Tensor) -> None:
        if not out.is_contiguous():
            out.copy_(call(table, index))
            return
        flat = out.view(*table.shape[:axis], -1, *table.shape[axis + 1 :])
        torch.index_select(table, axis, index.reshape(-1), out=flat)

    def call(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return torch.index_select(table, axis, index.reshape(-1)).view(shape)

    return Kernel(call=call, into=into)


def _batched_gather(
    types: Sequence[TensorType], axis: int, batch_dims: int, shape: tuple[int, ...]
) -> Kernel:
    """Return the kernel of a gather whose leading dims are the same in table and indices."""
    table_shape, index_shape = types[0].shape, types[1].shape
    batch = math.prod(table_shape[:batch_dims])
    outer = math.prod(table_shape[batch_dims:axis])
    inner = math.prod(table_shape[axis + 1 :])
    count = math.prod(index_shape[batch_dims:])

    def call(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        rows = table.reshape(batch, outer, table_shape[axis], inner)
        chosen = index.reshape(batch, 1, count, 1).long().expand(batch, outer, count, inner)
        return rows.gather(2, chosen).reshape(shape)

    return Kernel(call=call)


def _gather_nd(node: Node, types: Sequence[TensorType]) -> Kernel:
    batch_dims, shape = integer(node, "start_dim", 0), node.types[0].shape
    table_shape, depth = types[0].shape, types[1].shape[-1]
    addressed = table_shape[batch_dims : batch_dims + depth]
    inner = table_shape[batch_dims + depth :]
    batch, volume = math.prod(table_shape[:batch_dims]), math.prod(addressed)
    rows = RowNumbers(addressed)
    first = (torch.arange(batch) * volume)[:, None]

    def call(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        chosen = rows.of(index.reshape(-1, depth)).reshape(batch, -1) + first
        return table.reshape(-1, *inner).index_select(0, chosen.reshape(-1)).reshape(shape)

    return Kernel(call=call)


class RowNumbers:
    """Turns index vectors into row numbers of the addressed dims seen as one; checks the range.

    Args:
        sizes: Sizes of the addressed dims.
    """

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self._sizes = sizes
        self._bounds = torch.tensor(sizes, dtype=torch.int64)
        strides = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
        self._strides = torch.tensor(strides, dtype=torch.int64)

    def of(self, vectors: torch.Tensor) -> torch.Tensor:
        """Return the row number of each vector along the last axis.

        Raises:
            ValueError: An index is negative or too large.
        """
        if len(self._sizes) == 1:
            return vectors.squeeze(-1)  # the kernel that takes the rows checks them
        outside = (vectors < 0) | (vectors >= self._bounds)
        if bool(outside.any()):
            where = outside.any(-1).nonzero()[0]
            found = vectors[tuple(where)].tolist()
            raise ValueError(f"index {found} is out of range for sizes {list(self._sizes)}")
        return (vectors * self._strides).sum(-1)


def _scatter_nd(node: Node, types: Sequence[TensorType]) -> Kernel:
    """Return the kernel that adds slices at index vectors."""
    depth, base_shape = types[1].shape[-1], types[0].shape
    inner, rows = base_shape[depth:], RowNumbers(base_shape[:depth])
    target = torch_dtype(node.types[0].dtype)

    def call(base: torch.Tensor, index: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
        out = torch.empty(base_shape, dtype=target)
        into(out, base, index, updates)
        return out

    def into(
        out: torch.Tensor, base: torch.Tensor, index: torch.Tensor, updates: torch.Tensor
    ) -> None:
        if not out.is_contiguous():
            out.copy_(call(base, index, updates))
            return
        chosen = rows.of(index.reshape(-1, depth))
        out.copy_(base)
        out.view(-1, *inner).index_add_(0, chosen, updates.reshape(-1, *inner))

    return Kernel(call=call, into=into)


_SCATTERS = {"MUL": "prod", "MAX": "amax", "MIN": "amin"}


def _scatter(node: Node, types: Sequence[TensorType]) -> Kernel:
    axis = resolve_axis(integer(node, "axis"), len(types[0].shape))
    match kind := text(node, "reduce_kind", "NONE"):
        case "NONE":
            return Kernel(call=lambda base, index, x: base.scatter(axis, index.long(), x))
        case "ADD":
            return Kernel(call=lambda base, index, x: base.scatter_add(axis, index.long(), x))
        case "MUL" | "MAX" | "MIN":
            name = _SCATTERS[kind]
            return Kernel(
                call=lambda base, index, x: base.scatter_reduce(axis, index.long(), x, name)
            )
        case _:
            raise InternalError(f"Scatter at {node.location}: kind {kind!r} is not known.")


def _one_hot(node: Node, _types: Sequence[TensorType]) -> Kernel:
    shape, dtype = node.types[0].shape, torch_dtype(node.types[0].dtype)
    axis = resolve_axis(integer(node, "axis", -1), len(shape))
    classes = torch.arange(shape[axis]).reshape([-1] + [1] * (len(shape) - 1 - axis))
    on = torch.tensor(scalar_attribute(node, "on"), dtype=dtype)
    off = torch.tensor(scalar_attribute(node, "off"), dtype=dtype)
    return Kernel(call=lambda index: torch.where(index.unsqueeze(axis) == classes, on, off))


BUILDERS: Builders = {
    "Gather": _gather,
    "GatherNd": _gather_nd,
    "OneHot": _one_hot,
    "Scatter": _scatter,
    "ScatterNd": _scatter_nd,
}
