"""Operations without operands: constants, ranges, random numbers."""

import math
from collections.abc import Callable

import numpy as np

from appliance.core.ir.attributes import constant, integer, integers, number
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import DType
from appliance.numerics.reference.definition import Array

_MASK = 0xFFFFFFFF
_RANDOM_BITS = {DType.F16: 11, DType.CB16: 10, DType.BF16: 8}


def const(node: Node) -> Array:
    """The constant."""
    return constant(node, "value").to_numpy()


def arange(node: Node) -> Array:
    """Start + step * index along `dim`; floats in float64, then rounded once."""
    shape, axis = node.types[0].shape, integer(node, "dim")
    index = np.arange(shape[axis])
    line: Array
    if node.types[0].dtype.is_float:
        line = number(node, "start") + number(node, "step") * index.astype(np.float64)
    else:
        line = int(number(node, "start")) + int(number(node, "step")) * index
    column = [1] * len(shape)
    column[axis] = shape[axis]
    return np.broadcast_to(line.reshape(column), shape)


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Philox4x32-10 on plain integers.

    Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011, section 3.3.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c0, 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c2, 1 << 32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) & _MASK, (k1 + 0xBB67AE85) & _MASK
    return c0, c1, c2, c3


def random_uniform(node: Node, step: int) -> Array:
    """Low + (high - low) * u with u = k * 2^-bits, below high.

    Element i of the global tensor takes the top `bits` of word i % 4 of block i // 4: 24 for
    float32, the significand's width for a 16-bit format.
    """
    bits = _RANDOM_BITS.get(node.types[0].dtype, 24)
    low, high = np.float32(number(node, "low")), np.float32(number(node, "high"))

    def draw(index: int) -> float:
        word = _block(node, step, index // 4)[index % 4]
        unit = np.float32((word >> (32 - bits)) * 2.0**-bits)
        return float(min(unit * (high - low) + low, np.nextafter(high, low)))

    return _elementwise(node, draw)


def random_normal(node: Node, step: int) -> Array:
    """Mean + deviation * z with z from pairs of words by Box and Muller's method.

    Words 0 and 1 of block i // 4 make elements 0 and 1 of the block, words 2 and 3 the others; 24
    bits of each count.
    Source: Box, Muller, A note on the generation of random normal deviates, 1958.
    """

    def draw(index: int) -> float:
        words = _block(node, step, index // 4)
        first = index % 4 // 2 * 2
        radius = math.sqrt(-2.0 * math.log(((words[first] >> 8) + 1) * 2.0**-24))
        angle = (words[first + 1] >> 8) * 2.0**-24 * 2.0 * math.pi
        z = radius * (math.sin(angle) if index % 2 else math.cos(angle))
        return z * number(node, "deviation") + number(node, "mean")

    return _elementwise(node, draw)


def _block(node: Node, step: int, block: int) -> tuple[int, int, int, int]:
    """Return the block's words: the counter is (block, step, stream), the key the seed."""
    seed = integer(node, "seed")
    counter = (block & _MASK, block >> 32, step & _MASK, integer(node, "stream"))
    return philox(counter, (seed & _MASK, (seed >> 32) & _MASK))


def position(node: Node, step: int) -> Array:
    """The index that a loop over positions is at."""
    return np.full(node.types[0].shape, step)


def uniform_numbers(node: Node, step: int, shape: tuple[int, ...]) -> Array:
    """Numbers in [0, 1) for the rows of a random operation that has operands, 24 bits each."""
    axis, start = integer(node, "axis", 0), integer(node, "start", 0)
    rows = integers(node, "global_shape", node.types[0].shape)[:-1]
    result = np.empty(shape)
    for place in np.ndindex(shape):
        at = list(place)
        at[axis] += start
        index = int(np.ravel_multi_index(at, (*rows, shape[-1])))
        result[place] = (_block(node, step, index // 4)[index % 4] >> 8) * 2.0**-24
    return result


def _elementwise(node: Node, draw: Callable[[int], float]) -> Array:
    """Draw every element by its row-major index in the global tensor."""
    shape = node.types[0].shape
    global_shape = integers(node, "global_shape", shape)
    axis, start = integer(node, "axis", 0), integer(node, "start", 0)
    result = np.empty(shape)
    for place in np.ndindex(shape):
        at = list(place)
        if at:
            at[axis] += start
        result[place] = draw(int(np.ravel_multi_index(at, global_shape)) if at else 0)
    return result


RANDOM: dict[str, Callable[[Node, int], Array]] = {
    "RandomNormal": random_normal,
    "RandomUniform": random_uniform,
    "wsc.Position": position,
}
DEFINITIONS: dict[str, Callable[..., Array]] = {"Arange": arange, "Const": const}
