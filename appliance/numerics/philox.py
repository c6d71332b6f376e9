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

import torch

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_MASK = 0xFFFFFFFF
_CHUNK_BLOCKS = 16384
"""Blocks worked on at a time: four words of 8 bytes each, so that a chunk stays in cache."""


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


def philox(
    counter: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], key: tuple[int, int]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Apply Philox4x32-10 to counters of one shape.

    Args:
        counter: Four words, int64 tensors with values below 2^32.
        key: Two words below 2^32.

    Returns:
        Four random words, int64 tensors with values below 2^32.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        # The 64-bit product wraps into the sign bit; masking after the shift undoes that.
        product0, product1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        high0, high1 = (product0 >> 32) & _MASK, (product1 >> 32) & _MASK
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, product1 & _MASK, high0 ^ c3 ^ k1, product0 & _MASK
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

    def words(self, blocks: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the four words of each block, given the block numbers (int64)."""
        step = torch.full_like(blocks, self.step & _MASK)
        stream = torch.full_like(blocks, self.stream & _MASK)
        key = (self.seed & _MASK, (self.seed >> 32) & _MASK)
        return philox((blocks & _MASK, (blocks >> 32) & _MASK, step, stream), key)


def uniform(placement: Placement, source: Stream, *, bits: int = 24) -> torch.Tensor:
    """Draw numbers k * 2^-bits, each k in [0, 2^bits) equally likely.

    Args:
        placement: Where the wanted part lies in the global tensor.
        source: Seed, stream and step.
        bits: Random bits per number, at most 24 so that float32 represents each exactly.

    Returns:
        float32, shape of the placement.
    """
    shift, scale = 32 - bits, 2.0**-bits

    def convert(words: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return (torch.stack(words, dim=-1) >> shift).to(torch.float32).mul_(scale)

    return _draw(placement, source, convert)


def normal(placement: Placement, source: Stream) -> torch.Tensor:
    """Draw standard normal numbers; words 0 and 1 of a block make two, words 2 and 3 two more.

    Source: Box, Muller, A note on the generation of random normal deviates, Annals of Mathematical
    Statistics 29, 1958. We use 24 bits per word, so no number exceeds 5.77 in magnitude.

    Returns:
        float32, shape of the placement.
    """

    def convert(words: tuple[torch.Tensor, ...]) -> torch.Tensor:
        pairs = torch.stack(words, dim=-1).reshape(-1, 2, 2) >> 8
        radius_argument = (pairs[..., 0] + 1).to(torch.float32) * 2.0**-24
        angle = pairs[..., 1].to(torch.float32) * (2.0**-24 * 2.0 * math.pi)
        radius = torch.sqrt(-2.0 * torch.log(radius_argument))
        both = torch.stack((radius * torch.cos(angle), radius * torch.sin(angle)), dim=-1)
        return both.reshape(-1, 4)

    return _draw(placement, source, convert)


def _draw(
    placement: Placement,
    source: Stream,
    convert: Callable[[tuple[torch.Tensor, ...]], torch.Tensor],
) -> torch.Tensor:
    """Draw all blocks that the local part touches, row by row, and cut out what it owns.

    A *row* is a run of elements that are consecutive in the global tensor.
    """
    shape, axis = placement.shape, placement.axis
    if math.prod(shape) == 0:
        return torch.empty(shape)
    if not shape:
        return _draw_rows(torch.zeros(1, dtype=torch.int64), 1, source, convert).reshape(())
    inner = math.prod(shape[axis + 1 :])
    global_size = shape[axis] if placement.global_size is None else placement.global_size
    row_index = torch.arange(math.prod(shape[:axis]), dtype=torch.int64)
    first = row_index * (global_size * inner) + placement.start * inner
    return _draw_rows(first, shape[axis] * inner, source, convert).reshape(shape)


def _draw_rows(
    first: torch.Tensor,
    length: int,
    source: Stream,
    convert: Callable[[tuple[torch.Tensor, ...]], torch.Tensor],
) -> torch.Tensor:
    """Draw rows of `length` elements that begin at the elements `first`."""
    skip = first % 4
    per_row = (int(skip.max()) + length + 3) // 4
    blocks = (torch.div(first, 4, rounding_mode="floor")[:, None] + torch.arange(per_row)).flatten()
    drawn = torch.empty((len(blocks), 4))
    for begin in range(0, len(blocks), _CHUNK_BLOCKS):
        part = slice(begin, begin + _CHUNK_BLOCKS)
        drawn[part] = convert(source.words(blocks[part]))
    rows = drawn.reshape(len(first), per_row * 4)
    if len(first) == 1 or not bool(skip.any()):
        start = int(skip[0])
        return rows[:, start : start + length]
    return rows.gather(1, skip[:, None] + torch.arange(length))
