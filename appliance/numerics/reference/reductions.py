"""Reductions over axes, scans and order statistics."""

import math
from collections.abc import Callable

import numpy as np

from appliance.core.ir.attributes import flag, integer, integers, text
from appliance.core.ir.graph import Node
from appliance.numerics.reference.definition import Array, Definition


def _mean(x: Array, axis: tuple[int, ...]) -> Array:
    """Sum over count; NaN if there is nothing to add."""
    count = math.prod(x.shape[i] for i in axis)
    result: Array = np.sum(x, axis=axis) / np.float64(count)
    return result


_KINDS: dict[str, Callable[..., Array]] = {
    "ADD": np.sum,
    "MUL": np.prod,
    "MAX": np.max,
    "MIN": np.min,
    "MEAN": _mean,
    "AND": np.all,
    "OR": np.any,
}


def reduce(node: Node, x: Array) -> Array:
    """One number for each index of the dims that are not reduced.

    ADD of truth values is OR. ARGMAX and ARGMIN give the row-major index among the reduced
    elements, the first of equals.
    """
    axes, shape = integers(node, "dimensions"), node.types[0].shape
    kind = text(node, "reduce_kind")
    if kind in ("ARGMAX", "ARGMIN"):
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        rows = x.transpose(*kept, *axes).reshape([x.shape[axis] for axis in kept] + [-1])
        found = np.argmax(rows, axis=-1) if kind == "ARGMAX" else np.argmin(rows, axis=-1)
        return np.reshape(found, shape)
    return np.asarray(_KINDS[kind](x, axis=axes)).reshape(shape)


def l2_norm(node: Node, x: Array) -> Array:
    """Square root of the sum of squares."""
    return np.asarray(np.sqrt(np.sum(x * x, axis=integers(node, "dims")))).reshape(
        node.types[0].shape
    )


def softmax(node: Node, x: Array) -> Array:
    """e^x over the sum of e^x along `axis`, after subtracting the maximum."""
    axis = integer(node, "axis")
    exponentials = np.exp(x - np.max(x, axis=axis, keepdims=True))
    result: Array = exponentials / np.sum(exponentials, axis=axis, keepdims=True)
    return result


def cumulative(node: Node, x: Array) -> Array:
    """Sums or products of all elements up to each one along `axis`.

    `exclusive` leaves out the element itself, `reverse` counts from the end.
    """
    axis = integer(node, "axis")
    rows = np.moveaxis(x, axis, -1)
    result = np.empty_like(rows)
    for index in np.ndindex(rows.shape):
        position, line = index[-1], rows[index[:-1]]
        if flag(node, "reverse"):
            first = position + 1 if flag(node, "exclusive") else position
            taken = line[first:]
        else:
            taken = line[: position if flag(node, "exclusive") else position + 1]
        total = np.sum if node.op == "CumSum" else np.prod
        result[index] = total(taken, dtype=x.dtype)
    return np.moveaxis(result, -1, axis)


def top_k(node: Node, x: Array) -> tuple[Array, Array]:
    """The k largest or smallest along `dimension`, in order, with their indices.

    Among equals the lowest index comes first; NaN counts as larger than every number.
    """
    axis, k = integer(node, "dimension"), integer(node, "k")
    rows = np.moveaxis(x, axis, -1)
    indices = np.empty((*rows.shape[:-1], k), dtype=np.int64)
    for index in np.ndindex(rows.shape[:-1]):
        order = _ascending(rows[index], largest_first=flag(node, "largest"))
        indices[index] = order[:k]
    values = np.take_along_axis(rows, indices, axis=-1)
    return np.moveaxis(values, -1, axis), np.moveaxis(indices, -1, axis)


def _ascending(line: Array, *, largest_first: bool) -> list[int]:
    def rank(position: int) -> tuple[bool, float]:
        value = float(line[position])
        return (True, 0.0) if math.isnan(value) else (False, value)

    return sorted(range(len(line)), key=rank, reverse=largest_first)


def order_statistic(node: Node, x: Array) -> Array:
    """1 for the k largest along `dimension`, among equals those of lowest index; 0 elsewhere."""
    axis, k = integer(node, "dimension"), integer(node, "k")
    rows = np.moveaxis(x, axis, -1)
    mask = np.zeros(rows.shape, dtype=np.int64)
    for index in np.ndindex(rows.shape[:-1]):
        mask[index][_ascending(rows[index], largest_first=True)[:k]] = 1
    return np.moveaxis(mask, -1, axis)


DEFINITIONS: dict[str, Definition] = {
    "CumProd": cumulative,
    "CumSum": cumulative,
    "L2Norm": l2_norm,
    "NthOrderStatistic": order_statistic,
    "Reduce": reduce,
    "Softmax": softmax,
    "TopK": top_k,
}
