"""Operations that rearrange elements or pick them by position."""

import numpy as np

from appliance.core.ir.attributes import integer, integers, text
from appliance.core.ir.graph import Node
from appliance.numerics.elements import scalar_attribute
from appliance.numerics.reference.definition import Array, Definition


def reshape(node: Node, x: Array) -> Array:
    """The same elements in row-major order in another shape."""
    return x.reshape(node.types[0].shape)


def broadcast_in_dim(node: Node, x: Array) -> Array:
    """Operand dim i becomes result dim `broadcast_dimensions[i]`; size 1 stretches.

    Source: StableHLO specification, broadcast_in_dim.
    """
    unit_shape = [1] * len(node.types[0].shape)
    for source, target in enumerate(integers(node, "broadcast_dimensions")):
        unit_shape[target] = x.shape[source]
    return np.broadcast_to(x.reshape(unit_shape), node.types[0].shape)


def transpose(node: Node, x: Array) -> Array:
    """Result dim i is operand dim `permutation[i]`."""
    return x.transpose(integers(node, "permutation"))


def concat(node: Node, *parts: Array) -> Array:
    """The operands behind one another along `axis`."""
    return np.concatenate(parts, axis=integer(node, "axis"))


def split(node: Node, x: Array) -> tuple[Array, ...]:
    """Consecutive parts of the given sizes along `axis`."""
    bounds = np.cumsum(integers(node, "split_sizes"))[:-1]
    return tuple(np.split(x, bounds, axis=integer(node, "axis")))


def strided_slice(node: Node, x: Array) -> Array:
    """Elements begin, begin + stride, ... below end along every axis."""
    return x[_slices(node)]


def strided_slice_grad(node: Node, dy: Array) -> Array:
    """The operand at the places that the slice took, zero elsewhere."""
    dx = np.zeros(node.types[0].shape)
    dx[_slices(node)] = dy
    return dx


def _slices(node: Node) -> tuple[slice, ...]:
    parts = zip(
        integers(node, "begin"), integers(node, "end"), integers(node, "stride"), strict=True
    )
    return tuple(slice(begin, end, stride) for begin, end, stride in parts)


def repeat(node: Node, x: Array) -> Array:
    """Whole copies side by side, `repeats[i]` of them along axis i."""
    return np.tile(x, integers(node, "repeats"))


def pad(node: Node, x: Array) -> Array:
    """Element i goes to low + i * (interior + 1) along each axis; the rest is the fill value.

    Negative edges crop. The other modes continue the operand's own elements beyond its edges.
    Source: StableHLO specification, pad; numpy.pad for the other modes.
    """
    low, high = integers(node, "edge_padding_low"), integers(node, "edge_padding_high")
    modes = {"REFLECT": "reflect", "SYMMETRIC": "symmetric", "CIRCULAR": "wrap"}
    mode = text(node, "padding_mode", "CONSTANT")
    if mode in modes:
        return np.asarray(np.pad(x, list(zip(low, high, strict=True)), mode=modes[mode]))  # type: ignore[call-overload]
    result = np.full(node.types[0].shape, scalar_attribute(node, "value", 0.0))
    interior = integers(node, "interior_padding")
    for index in np.ndindex(x.shape):
        place = tuple(
            edge + i * (gap + 1) for edge, i, gap in zip(low, index, interior, strict=True)
        )
        if all(0 <= i < size for i, size in zip(place, result.shape, strict=True)):
            result[place] = x[index]
    return result


def unpad(node: Node, x: Array) -> Array:
    """The operand without the last elements along each axis."""
    return x[tuple(slice(size) for size in node.types[0].shape)]


def matrix_band_part(node: Node, x: Array) -> Array:
    """Elements of the last two axes within the band, zero elsewhere; a negative width is infinite.

    Source: TensorFlow API documentation, tf.linalg.band_part.
    """
    lower, upper = integer(node, "num_lower"), integer(node, "num_upper")
    result = np.zeros_like(x)
    for row in range(x.shape[-2]):
        for column in range(x.shape[-1]):
            in_lower = lower < 0 or row - column <= lower
            in_upper = upper < 0 or column - row <= upper
            if in_lower and in_upper:
                result[..., row, column] = x[..., row, column]
    return result


def shard_slice(node: Node, x: Array) -> Array:
    """A system's part: along `axis`, seen as [outer, global_size], [:, start:start + size]."""
    return np.take(x, _shard_indices(node, x.shape), axis=integer(node, "axis"))


def shard_pad(node: Node, x: Array) -> Array:
    """A system's part placed where `shard_slice` would take it from, zeros elsewhere."""
    shape, axis = node.types[0].shape, integer(node, "axis")
    result = np.zeros(shape, dtype=x.dtype)
    np.moveaxis(result, axis, 0)[_shard_indices(node, shape)] = np.moveaxis(x, axis, 0)
    return result


def _shard_indices(node: Node, whole: tuple[int, ...]) -> list[int]:
    outer, start, size = integer(node, "outer"), integer(node, "start"), integer(node, "size")
    length = whole[integer(node, "axis")] // outer
    return [row * length + start + i for row in range(outer) for i in range(size)]


DEFINITIONS: dict[str, Definition] = {
    "BroadcastInDim": broadcast_in_dim,
    "Concat": concat,
    "MatrixBandPart": matrix_band_part,
    "Repeat": repeat,
    "Reshape": reshape,
    "Split": split,
    "StridedSlice": strided_slice,
    "StridedSliceGrad": strided_slice_grad,
    "Transpose": transpose,
    "pad": pad,
    "unpad": unpad,
    "wsc.ShardPad": shard_pad,
    "wsc.ShardSlice": shard_slice,
}
