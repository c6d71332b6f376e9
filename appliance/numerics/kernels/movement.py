"""Kernels that rearrange elements or pick them by position, without computing with them."""

from collections.abc import Sequence

import torch

from appliance.core.errors import InternalError
from appliance.core.ir.attributes import (
    integer,
    integers,
    resolve_axis,
    text,
)
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import TensorType
from appliance.numerics.elements import scalar_attribute, torch_dtype
from appliance.numerics.kernels.kernel import Builders, Kernel
from appliance.numerics.windows import pad_parts


def same(x: torch.Tensor) -> torch.Tensor:
    """Return the operand."""
    return x


def _copy(_node: Node, _types: Sequence[TensorType]) -> Kernel:
    return Kernel(
        call=lambda x: x.clone(memory_format=torch.contiguous_format), into=torch.Tensor.copy_
    )


def _reshape(node: Node, _types: Sequence[TensorType]) -> Kernel:
    shape = node.types[0].shape
    return Kernel(call=lambda x: x.reshape(shape))


def _broadcast(node: Node, types: Sequence[TensorType]) -> Kernel:
    shape = node.types[0].shape
    dimensions = integers(node, "broadcast_dimensions")
    first = len(shape) - len(dimensions)
    if dimensions == tuple(range(first, len(shape))):
        return Kernel(call=lambda x: x.expand(shape))
    unit_shape = [1] * len(shape)
    for source, target in enumerate(dimensions):
        unit_shape[target] = types[0].shape[source]
    if tuple(unit_shape) == shape:
        return Kernel(call=lambda x: x.reshape(shape))
    return Kernel(call=lambda x: x.reshape(unit_shape).expand(shape))


def _transpose(node: Node, _types: Sequence[TensorType]) -> Kernel:
    permutation = integers(node, "permutation")
    return Kernel(call=lambda x: x.permute(permutation))


def _concat(node: Node, _types: Sequence[TensorType]) -> Kernel:
    axis = integer(node, "axis")

    def into(out: torch.Tensor, *parts: torch.Tensor) -> None:
        torch.cat(parts, axis, out=out)

    return Kernel(call=lambda *parts: torch.cat(parts, axis), into=into)


def _split(node: Node, types: Sequence[TensorType]) -> Kernel:
    axis = resolve_axis(integer(node, "axis"), len(types[0].shape))
    sizes = [type_.shape[axis] for type_ in node.types]
    if len(sizes) == 1:
        return Kernel(call=same)
    return Kernel(call=lambda x: torch.split(x, sizes, axis))


def _slice_index(node: Node) -> tuple[slice, ...]:
    begin, end = integers(node, "begin"), integers(node, "end")
    return tuple(slice(*part) for part in zip(begin, end, integers(node, "stride"), strict=True))


def _strided_slice(node: Node, types: Sequence[TensorType]) -> Kernel:
    index = _slice_index(node)
    cut = [a for a, size in enumerate(types[0].shape) if size != node.types[0].shape[a]]
    if len(cut) == 1 and index[cut[0]].step == 1:
        axis, start, length = cut[0], index[cut[0]].start, node.types[0].shape[cut[0]]
        return Kernel(call=lambda x: x.narrow(axis, start, length))
    return Kernel(call=lambda x: x[index])


def _strided_slice_grad(node: Node, _types: Sequence[TensorType]) -> Kernel:
    return _placed(node, _slice_index(node), 0.0)


def _placed(
    node: Node, target: tuple[slice, ...], fill: float, source: tuple[slice, ...] | None = None
) -> Kernel:
    """Return the kernel that fills the result and copies the operand, or a part of it, into it."""
    shape = node.types[0].shape

    def into(out: torch.Tensor, x: torch.Tensor) -> None:
        out.fill_(fill)[target].copy_(x if source is None else x[source])

    def call(x: torch.Tensor) -> torch.Tensor:
        out = x.new_empty(shape)
        into(out, x)
        return out

    return Kernel(call=call, into=into)


def _pad(node: Node, types: Sequence[TensorType]) -> Kernel:
    mode = text(node, "padding_mode", "CONSTANT")
    if mode == "CONSTANT":
        source, target = pad_parts(node, types[0].shape)
        return _placed(node, target, scalar_attribute(node, "value", 0.0), source)
    return _mirrored(node, types[0].shape, mode)


def _mirrored(node: Node, shape: tuple[int, ...], mode: str) -> Kernel:
    """Return the kernel of a pad that repeats the operand's own elements."""
    index = padding_indices(node, shape, mode)

    def call(x: torch.Tensor) -> torch.Tensor:
        for axis, chosen in index:
            x = x.index_select(axis, chosen)
        return x

    return Kernel(call=call if index else lambda x: x.clone())


def padding_indices(
    node: Node, shape: tuple[int, ...], mode: str
) -> tuple[tuple[int, torch.Tensor], ...]:
    """Return, for each padded axis, which element of the operand stands at each place."""
    low, high = integers(node, "edge_padding_low"), integers(node, "edge_padding_high")
    indices = []
    for axis, size in enumerate(shape):
        place = torch.arange(-low[axis], size + high[axis])
        if len(place) == size and not low[axis]:
            continue
        match mode:
            case "CIRCULAR":
                chosen = place % size
            case "REFLECT":
                period = max(1, 2 * (size - 1))
                folded = place % period
                chosen = torch.minimum(folded, period - folded)
            case "SYMMETRIC":
                folded = place % (2 * size)
                chosen = torch.minimum(folded, 2 * size - 1 - folded)
            case _:
                raise InternalError(f"pad at {node.location}: mode {mode!r} is not known.")
        indices.append((axis, chosen))
    return tuple(indices)


def _unpad(node: Node, _types: Sequence[TensorType]) -> Kernel:
    index = tuple(slice(0, size) for size in node.types[0].shape)
    return Kernel(call=lambda x: x[index])


def _repeat(node: Node, _types: Sequence[TensorType]) -> Kernel:
    repeats = integers(node, "repeats")
    return Kernel(call=lambda x: x.repeat(repeats))


def _band_part(node: Node, types: Sequence[TensorType]) -> Kernel:
    lower, upper = integer(node, "num_lower"), integer(node, "num_upper")
    rows, columns = types[0].shape[-2:]
    distance = torch.arange(columns) - torch.arange(rows)[:, None]
    kept = torch.ones((rows, columns), dtype=torch.bool)
    if lower >= 0:
        kept &= distance >= -lower
    if upper >= 0:
        kept &= distance <= upper
    zero = torch.zeros((), dtype=torch_dtype(types[0].dtype))
    return Kernel(call=lambda x: torch.where(kept, x, zero))


def _shard_slice(node: Node, types: Sequence[TensorType]) -> Kernel:
    axis, outer = integer(node, "axis"), integer(node, "outer", 1)
    start, length = integer(node, "start"), integer(node, "size")
    if outer == 1:
        return Kernel(call=lambda x: x.narrow(axis, start, length))
    whole, shape = types[0].shape, node.types[0].shape
    seen = (*whole[:axis], outer, whole[axis] // outer, *whole[axis + 1 :])
    return Kernel(call=lambda x: x.reshape(seen).narrow(axis + 1, start, length).reshape(shape))


def _shard_pad(node: Node, types: Sequence[TensorType]) -> Kernel:
    axis, outer = integer(node, "axis"), integer(node, "outer", 1)
    start, length = integer(node, "start"), integer(node, "size")
    part, whole = types[0].shape, node.types[0].shape
    seen = (*whole[:axis], outer, whole[axis] // outer, *whole[axis + 1 :])
    part_seen = (*part[:axis], outer, length, *part[axis + 1 :])

    def into(out: torch.Tensor, x: torch.Tensor) -> None:
        if not out.is_contiguous():
            out.copy_(call(x))
            return
        out.zero_().view(seen).narrow(axis + 1, start, length).copy_(x.reshape(part_seen))

    def call(x: torch.Tensor) -> torch.Tensor:
        out = x.new_empty(whole)
        into(out, x)
        return out

    return Kernel(call=call, into=into)


BUILDERS: Builders = {
    "BroadcastInDim": _broadcast,
    "Concat": _concat,
    "MatrixBandPart": _band_part,
    "Repeat": _repeat,
    "Reshape": _reshape,
    "Split": _split,
    "StridedSlice": _strided_slice,
    "StridedSliceGrad": _strided_slice_grad,
    "Transpose": _transpose,
    "pad": _pad,
    "unpad": _unpad,
    "wsc.Copy": _copy,
    "wsc.ShardPad": _shard_pad,
    "wsc.ShardSlice": _shard_slice,
    "wsc.Sum": _copy,
}
