"""Operations that draw tokens, row by row."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from appliance.core.ir.attributes import flag, integer
from appliance.core.ir.graph import Node
from appliance.numerics.reference.definition import Array, Definition
from appliance.numerics.reference.sources import uniform_numbers


def _rows(x: Array) -> Iterator[tuple[int, ...]]:
    return np.ndindex(x.shape[:-1])


def _largest_first(line: Sequence[float] | Array) -> list[int]:
    return sorted(range(len(line)), key=lambda place: (-line[place], place))


def fused_top_k(node: Node, x: Array) -> Array:
    """The k largest along `dimension`, each as its float32's bits and its index."""
    axis, k = integer(node, "dimension"), integer(node, "k")
    rows = np.moveaxis(x, axis, -1)
    fused = np.empty((*rows.shape[:-1], 2 * k), dtype=np.int32)
    for row in _rows(rows):
        order = _largest_first(rows[row])[:k]
        fused[row][0::2] = rows[row][order].astype(np.float32).view(np.int32)
        fused[row][1::2] = order
    return np.moveaxis(fused, -1, axis)


def fused_top_p(node: Node, fused: Array, p: Array, u: Array, k: Array) -> Array:
    """One index of each row, drawn from the smallest set of the first k that sums to p."""
    values = np.ascontiguousarray(fused[..., 0::2]).view(np.float32).astype(np.float64)
    return top_p(node, values, fused[..., 1::2], p, u, k)


def top_p(node: Node, values: Array, indices: Array, *parameters: Array) -> Array:
    """As `fused_top_p`, of values and indices in tensors of their own."""
    p, u, k = parameters
    drawn = np.empty(node.types[0].shape, dtype=np.int32)
    for row in _rows(values):
        kept: list[float] = []
        for value in values[row][: int(k[row][0])]:
            kept.append(float(value))
            if sum(kept) >= p[row][0]:
                break
        target, place = float(u[row][0]) * sum(kept), 0
        while place < len(kept) - 1 and sum(kept[: place + 1]) <= target:
            place += 1
        drawn[row] = indices[row][place]
    return drawn


def multinomial(node: Node, step: int, weights: Array) -> Array:
    """With replacement each sample is the first whose running sum exceeds its random part of all.

    Without, element i gets log(u_i + 2^-25) / weight_i, and the samples are the largest of these.
    """
    count = integer(node, "num_samples")
    drawn = np.empty(node.types[0].shape, dtype=np.int64)
    if not flag(node, "replacement"):
        numbers = uniform_numbers(node, step, weights.shape)
        for row in _rows(weights):
            pairs = zip(numbers[row], weights[row], strict=True)
            times = [math.log(u + 2.0**-25) / w if w else -math.inf for u, w in pairs]
            drawn[row] = _largest_first(times)[:count]
        return drawn
    numbers = uniform_numbers(node, step, node.types[0].shape)
    for row in _rows(weights):
        sums = np.cumsum(weights[row])
        for sample in range(count):
            drawn[row][sample] = int(np.sum(sums <= numbers[row][sample] * sums[-1]))
    return drawn


def conditional_arange(node: Node, mask: Array) -> Array:
    """Start plus step times the number of true elements before, where the mask is true; else 0."""
    start, step = integer(node, "start"), integer(node, "step")
    result = np.zeros(mask.shape, dtype=np.int64)
    for row in _rows(mask):
        true = np.flatnonzero(mask[row])
        result[row][true] = start + step * np.arange(len(true))
    return result


def next_tokens(node: Node, tokens: Array, index: Array, update: Array, stop: Array) -> Array:
    """The tokens with the update behind the index."""
    dim = integer(node, "loop_dim")
    result = tokens.copy()
    for row in np.ndindex(tokens.shape[:dim]):
        behind = int(index[row][0]) + 1
        if behind < tokens.shape[dim]:
            result[row][behind] = update[row][0]
    return result


RANDOM: dict[str, Callable[..., Array]] = {"RandomMultinomial": multinomial}
DEFINITIONS: dict[str, Definition] = {
    "ConditionalArange": conditional_arange,
    "FusedTopK": fused_top_k,
    "FusedTopP": fused_top_p,
    "FusedTopPDeinterleaved": top_p,
    "wsc.NextTokens": next_tokens,
}
