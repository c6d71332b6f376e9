"""Reading and writing elements by index. An index out of range is an error, never wrapped."""

import numpy as np

from appliance.core.ir.attributes import integer, text
from appliance.core.ir.graph import Node
from appliance.numerics.elements import scalar_attribute
from appliance.numerics.reference.definition import Array, Definition


def gather(node: Node, table: Array, indices: Array) -> Array:
    """Slices of the table along `axis`, or single elements.

    With indices of the table's own rank (and no more in the result) each index picks one element,
    as torch.gather does; otherwise each picks a slice, with `batch_dims` leading dims in common, as
    tf.gather does. The client writes both as the same operation.
    """
    axis, batch_dims = integer(node, "axis"), integer(node, "batch_dims", 0)
    _check(indices, table.shape[axis])
    rank = len(node.types[0].shape)
    if not batch_dims and rank == table.ndim == indices.ndim > 1:
        within = tuple(slice(None if d == axis else n) for d, n in enumerate(indices.shape))
        return np.take_along_axis(table[within], indices, axis=axis)
    result = np.empty(node.types[0].shape, dtype=table.dtype)
    for batch in np.ndindex(table.shape[:batch_dims]):
        result[batch] = np.take(table[batch], indices[batch], axis=axis - batch_dims)
    return result


def gather_nd(node: Node, table: Array, indices: Array) -> Array:
    """Slices of the table at index vectors; the leading `start_dim` dims are in common."""
    batch_dims = integer(node, "start_dim", 0)
    result = np.empty(node.types[0].shape, dtype=table.dtype)
    for place in np.ndindex(indices.shape[:-1]):
        vector = tuple(int(i) for i in indices[place])
        _check_vector(vector, table.shape[batch_dims:])
        result[place] = table[place[:batch_dims] + vector]
    return result


def scatter(node: Node, base: Array, indices: Array, updates: Array) -> Array:
    """Each update goes to the place of its own index, but along `axis` where `indices` says.

    NONE keeps the last update in row-major order. Source: torch.Tensor.scatter_reduce.
    """
    axis, kind = integer(node, "axis"), text(node, "reduce_kind")
    _check(indices, base.shape[axis])
    combine = {"ADD": np.add, "MUL": np.multiply, "MAX": np.maximum, "MIN": np.minimum}
    result = base.copy()
    for place in np.ndindex(indices.shape):
        target = (*place[:axis], int(indices[place]), *place[axis + 1 :])
        new = updates[place]
        result[target] = new if kind == "NONE" else combine[kind](result[target], new)
    return result


def scatter_nd(_node: Node, base: Array, indices: Array, updates: Array) -> Array:
    """The base plus every update slice at its index vector; equal vectors add up."""
    result = base.copy()
    for place in np.ndindex(indices.shape[:-1]):
        vector = tuple(int(i) for i in indices[place])
        _check_vector(vector, base.shape)
        result[vector] += updates[place]
    return result


def one_hot(node: Node, indices: Array) -> Array:
    """`on` at the index along the new dim `axis`, `off` elsewhere and for indices out of range."""
    axis, shape = integer(node, "axis"), node.types[0].shape
    result = np.full(shape, scalar_attribute(node, "off"))
    for place in np.ndindex(indices.shape):
        if 0 <= indices[place] < shape[axis]:
            at = (*place[:axis], int(indices[place]), *place[axis:])
            result[at] = scalar_attribute(node, "on")
    return result


def _check(indices: Array, size: int) -> None:
    outside = (indices < 0) | (indices >= size)
    if outside.any():
        raise ValueError(f"index {indices[outside][0]} is out of range for size {size}")


def _check_vector(vector: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    if not all(0 <= i < size for i, size in zip(vector, sizes, strict=False)):
        raise ValueError(f"index {list(vector)} is out of range for sizes {list(sizes)}")


DEFINITIONS: dict[str, Definition] = {
    "Gather": gather,
    "GatherNd": gather_nd,
    "OneHot": one_hot,
    "Scatter": scatter,
    "ScatterNd": scatter_nd,
}
