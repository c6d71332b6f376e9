"""Kernels that rearrange, select or make elements without computing with them."""

import math
from collections.abc import Sequence

import torch

from appliance.core.graph import Node
from appliance.core.tensors import TensorType
from appliance.numerics.attributes import constant, integer, integers, number, resolve_axis
from appliance.numerics.elements import torch_constant, torch_dtype
from appliance.numerics.formats import round_to
from appliance.numerics.kernels.kernel import Builders, Kernel
from appliance.numerics.slices import AxisSlice, resolve_strided_slice


def _const(node: Node, _types: Sequence[TensorType]) -> Kernel:
    value = constant(node, "value")
    tensor = torch_constant(value)
    if value.is_splat and not value.type.dtype.is_half:
        return Kernel(call=lambda: tensor)
    tensor = round_to(value.type.dtype, tensor)
    return Kernel(call=lambda: tensor)


def _reshape(node: Node, _types: Sequence[TensorType]) -> Kernel:
    shape = node.types[0].shape
    return Kernel(call=lambda x: x.reshape(shape))


def _broadcast(node: Node, types: Sequence[TensorType]) -> Kernel:
    shape = node.types[0].shape
    rank = len(shape)
    dimensions = integers(node, "broadcast_dimensions")
    order = sorted(range(len(dimensions)), key=dimensions.__getitem__)
    unit_shape = [1] * rank
    for source, target in enumerate(dimensions):
        unit_shape[target] = types[0].shape[source]
    if list(dimensions) == list(range(rank - len(dimensions), rank)):
        return Kernel(call=lambda x: x.expand(shape))
    if order == list(range(len(order))):
        if math.prod(shape) == types[0].num_elements:
            return Kernel(call=lambda x: x.reshape(shape))
        return Kernel(call=lambda x: x.reshape(unit_shape).expand(shape))
    return Kernel(call=lambda x: x.permute(order).reshape(unit_shape).expand(shape))


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
        return Kernel(call=lambda x: x)
    return Kernel(call=lambda x: torch.split(x, sizes, axis))


def _slice(node: Node, types: Sequence[TensorType]) -> Kernel:
    begin, size = integers(node, "begin"), node.types[0].shape
    narrow = [
        (axis, start, length)
        for axis, (start, length) in enumerate(zip(begin, size, strict=True))
        if length != types[0].shape[axis]
    ]
    if len(narrow) == 1:
        axis, start, length = narrow[0]
        return Kernel(call=lambda x: x.narrow(axis, start, length))
    index = tuple(slice(b, b + s) for b, s in zip(begin, size, strict=True))
    return Kernel(call=lambda x: x[index])


def _strided_slice(node: Node, types: Sequence[TensorType]) -> Kernel:
    taken = resolve_strided_slice(node, types[0].shape)
    index, flipped = _forward_index(taken)
    shape = node.types[0].shape
    if flipped:
        return Kernel(call=lambda x: x[index].flip(flipped).reshape(shape))
    if shape == tuple(part.length for part in taken):
        return Kernel(call=lambda x: x[index])
    return Kernel(call=lambda x: x[index].reshape(shape))


def _strided_slice_grad(node: Node, types: Sequence[TensorType]) -> Kernel:
    shape = node.types[0].shape
    taken = resolve_strided_slice(node, shape)
    index, flipped = _forward_index(taken)
    sliced_shape = tuple(part.length for part in taken)

    def into(out: torch.Tensor, dy: torch.Tensor) -> None:
        out.zero_()[index].copy_(dy.reshape(sliced_shape).flip(flipped))

    def call(dy: torch.Tensor) -> torch.Tensor:
        out = dy.new_empty(shape)
        into(out, dy)
        return out

    return Kernel(call=call, into=into)


def _forward_index(taken: Sequence[AxisSlice]) -> tuple[tuple[slice, ...], tuple[int, ...]]:
    """Return an index with positive steps only, and the axes to reverse after it."""
    index, flipped = [], []
    for axis, part in enumerate(taken):
        start, step = part.start, part.step
        if step < 0:
            flipped.append(axis)
            start, step = start + step * (part.length - 1), -step
        index.append(slice(start, start + step * part.length, step))
    return tuple(index), tuple(flipped)


def _arange(node: Node, _types: Sequence[TensorType]) -> Kernel:
    (length,), dtype = node.types[0].shape, torch_dtype(node.types[0].dtype)
    start, step = number(node, "start"), number(node, "step")
    if node.types[0].dtype.is_float:
        values = torch.arange(length, dtype=torch.float64).mul_(step).add_(start).to(dtype)
    else:
        values = torch.arange(length, dtype=torch.int64).mul_(int(step)).add_(int(start)).to(dtype)
    return Kernel(call=lambda: values)


def _pad(node: Node, types: Sequence[TensorType]) -> Kernel:
    """Return the kernel of a pad; a negative edge crops, interior padding spreads elements out."""
    low, high = integers(node, "edge_padding_low"), integers(node, "edge_padding_high")
    interior = integers(node, "interior_padding", (0,) * len(low))
    shape, fill = node.types[0].shape, number(node, "constant_value", 0.0)
    source, target = [], []
    for axis, size in enumerate(types[0].shape):
        step = interior[axis] + 1
        first = max(0, -(low[axis] // step)) if low[axis] < 0 else 0
        start = low[axis] + first * step
        room = (shape[axis] - start + step - 1) // step if shape[axis] > start else 0
        count = max(0, min(size - first, room))
        source.append(slice(first, first + count))
        target.append(slice(start, start + count * step, step))
    taken, placed = tuple(source), tuple(target)

    def into(out: torch.Tensor, x: torch.Tensor) -> None:
        out.fill_(fill)[placed].copy_(x[taken])

    def call(x: torch.Tensor) -> torch.Tensor:
        out = x.new_full(shape, fill)
        out[placed].copy_(x[taken])
        return out

    return Kernel(call=call, into=into)


def _repeat(node: Node, _types: Sequence[TensorType]) -> Kernel:
    repeats = integers(node, "repeats")
    return Kernel(call=lambda x: x.repeat(repeats))


def _band_part(node: Node, types: Sequence[TensorType]) -> Kernel:
    """Return the kernel that keeps `num_lower` subdiagonals and `num_upper` superdiagonals."""
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


def _shard_slice(node: Node, _types: Sequence[TensorType]) -> Kernel:
    axis, start = integer(node, "axis"), integer(node, "start")
    length = node.types[0].shape[axis]
    return Kernel(call=lambda x: x.narrow(axis, start, length))


def _shard_pad(node: Node, types: Sequence[TensorType]) -> Kernel:
    axis, start = integer(node, "axis"), integer(node, "start")
    length, shape = types[0].shape[axis], node.types[0].shape

    def into(out: torch.Tensor, x: torch.Tensor) -> None:
        out.zero_().narrow(axis, start, length).copy_(x)

    def call(x: torch.Tensor) -> torch.Tensor:
        out = x.new_zeros(shape)
        out.narrow(axis, start, length).copy_(x)
        return out

    return Kernel(call=call, into=into)


def _pass_through(_node: Node, _types: Sequence[TensorType]) -> Kernel:
    return Kernel(call=lambda x: x)


BUILDERS: Builders = {
    "AnnotateTensor": _pass_through,
    "Arange": _arange,
    "BroadcastInDim": _broadcast,
    "Concat": _concat,
    "Const": _const,
    "MatrixBandPart": _band_part,
    "Repeat": _repeat,
    "Reshape": _reshape,
    "ScopeBoundary": _pass_through,
    "Slice": _slice,
    "Split": _split,
    "StridedSlice": _strided_slice,
    "StridedSliceGrad": _strided_slice_grad,
    "TagGradient": _pass_through,
    "Transpose": _transpose,
    "pad": _pad,
    "wsc.ShardPad": _shard_pad,
    "wsc.ShardSlice": _shard_slice,
}
