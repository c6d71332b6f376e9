"""Counter-based random numbers: an element's value depends on its place, not on who computes it.

Philox4x32-10 turns a 128-bit counter and a 64-bit key into 128 random bits. Here the counter is
(element index // 4, step, stream) over the *global* tensor and the key is the program's seed, so
every system draws exactly its part of one global tensor, and a mask does not depend on the number
of systems.

Source: Salmon, Moraes, Dror, Shaw, Parallel random numbers: as easy as 1, 2, 3, SC 2011, section
3.3; constants and known answers from the authors' Random123 library (philox.h, kat_vectors).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

Words = NDArray[np.uint64]
"""32-bit words, each in a 64-bit element, so that products of two do not overflow."""

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_MASK = 0xFFFFFFFF
_LOW = np.uint64(_MASK)
_SHIFT = np.uint64(32)
_CHUNK_BLOCKS = 8192
"""Blocks worked on at a time: six arrays of 64 kB, which stay in a core's cache. Measured on one
core, 4096 blocks cost 1.4 and 65536 blocks 1.6 times as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a local tensor lies in the global one.

    Attributes:
        shape: Local shape.
        axis: Axis along which the global tensor is cut.
        start: Index along it at which the local part begins.
        global_size: Size of the global tensor along it.
    """

    shape: tuple[int, ...]
    axis: int = 0
    start: int = 0
    global_size: int | None = None


def philox(counter: tuple[Words, Words, Words, Words], key: tuple[int, int]) -> tuple[Words, ...]:
    """Apply Philox4x32-10 to counters.

    Args:
        counter: Four arrays of words of one shape; they are overwritten.
        key: Two words.

    Returns:
        Four arrays of random words.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    product0, product1 = np.empty_like(c0), np.empty_like(c0)
    for _ in range(_ROUNDS):
        np.multiply(c0, _MULTIPLIERS[0], out=product0)
        np.multiply(c2, _MULTIPLIERS[1], out=product1)
        np.right_shift(product1, _SHIFT, out=c0)
        np.bitwise_xor(c0, c1, out=c0)
        np.bitwise_xor(c0, np.uint64(k0), out=c0)
        np.right_shift(product0, _SHIFT, out=c2)
        np.bitwise_xor(c2, c3, out=c2)
        np.bitwise_xor(c2, np.uint64(k1), out=c2)
        np.bitwise_and(product1, _LOW, out=c1)
        np.bitwise_and(product0, _LOW, out=c3)
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One sequence of random blocks: everything but the place in the tensor.

    Attributes:
        seed: The program's seed; 64 bits of it count.
        stream: Distinguishes the random operations of a program; below 2^32.
        step: Number of the training step; 32 bits of it count.
    """

    seed: int
    stream: int = 0
    step: int = 0

    def words(self, blocks: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the four words of each block, shape (blocks, 4), given the block numbers."""
        step = np.full_like(blocks, self.step & _MASK)
        stream = np.full_like(blocks, self.stream & _MASK)
        key = (self.seed & _MASK, (self.seed >> 32) & _MASK)
        counter = (blocks & _LOW, blocks >> _SHIFT, step, stream)
        return np.stack(philox(counter, key), axis=-1)


Convert = Callable[[NDArray[np.uint64]], NDArray[np.float32]]
"""Turns the words of some blocks, shape (blocks, 4), into numbers of the same shape."""


def uniform(placement: Placement, source: Stream, *, bits: int = 24) -> torch.Tensor:
    """Draw numbers k * 2^-bits, each k in [0, 2^bits) equally likely.

    Args:
        placement: Where the wanted part lies in the global tensor.
        source: Seed, stream and step.
        bits: Random bits per number, at most 24 so that float32 represents each exactly.

    Returns:
        float32, shape of the placement.
    """
    shift, scale = np.uint64(32 - bits), np.float32(2.0**-bits)
    return _draw(placement, source, lambda words: (words >> shift).astype(np.float32) * scale)


def normal(placement: Placement, source: Stream) -> torch.Tensor:
    """Draw standard normal numbers; words 0 and 1 of a block make two, words 2 and 3 two more.

    Source: Box, Muller, A note on the generation of random normal deviates, Annals of Mathematical
    Statistics 29, 1958. We use 24 bits per word, so no number exceeds 5.77 in magnitude.

    Returns:
        float32, shape of the placement.
    """

    def convert(words: NDArray[np.uint64]) -> NDArray[np.float32]:
        pairs = (words >> np.uint64(8)).reshape(-1, 2, 2)
        radius_argument = (pairs[..., 0] + np.uint64(1)).astype(np.float32) * np.float32(2.0**-24)
        angle = pairs[..., 1].astype(np.float32) * np.float32(2.0**-24 * 2.0 * math.pi)
        radius = np.sqrt(np.float32(-2.0) * np.log(radius_argument))
        both = np.stack((radius * np.cos(angle), radius * np.sin(angle)), axis=-1)
        return both.reshape(-1, 4)

    return _draw(placement, source, convert)


def _draw(placement: Placement, source: Stream, convert: Convert) -> torch.Tensor:
    """Draw all blocks that the local part touches, row by row, and cut out what it owns.

    A *row* is a run of elements that are consecutive in the global tensor.
    """
    shape, axis = placement.shape, placement.axis
    if not math.prod(shape):
        return torch.empty(shape)
    if not shape:
        return torch.from_numpy(_draw_rows(np.zeros(1, np.int64), 1, source, convert)).reshape(())
    inner = math.prod(shape[axis + 1 :])
    global_size = shape[axis] if placement.global_size is None else placement.global_size
    row = np.arange(math.prod(shape[:axis]), dtype=np.int64)
    first = row * (global_size * inner) + placement.start * inner
    rows = _draw_rows(first, shape[axis] * inner, source, convert)
    return torch.from_numpy(np.ascontiguousarray(rows)).reshape(shape)


def _draw_rows(
    first: NDArray[np.int64], length: int, source: Stream, convert: Convert
) -> NDArray[np.float32]:
    """Draw rows of `length` elements that begin at the elements `first`."""
    skip = first % 4
    per_row = (int(skip.max()) + length + 3) // 4
    blocks = ((first // 4)[:, None] + np.arange(per_row)).astype(np.uint64).reshape(-1)
    drawn = np.empty((len(blocks), 4), dtype=np.float32)
    for begin in range(0, len(blocks), _CHUNK_BLOCKS):
        part = slice(begin, begin + _CHUNK_BLOCKS)
        drawn[part] = convert(source.words(blocks[part]))
    rows = drawn.reshape(len(first), per_row * 4)
    if len(first) == 1 or not skip.any():
        start = int(skip[0])
        return rows[:, start : start + length]
    return np.take_along_axis(rows, skip[:, None] + np.arange(length), axis=1)
