"""Explicit stencils on the grid: one column of cells in each PE, neighbours over the fabric.

A check of the machine table on a workload without weights. A PE holds `depth` cells; each step it
sends its column once (multicast), receives the columns of all neighbours within the radius, and
runs one vector instruction of length `depth` for every operation of the formula. Cycles per step:

    depth * (instructions + 1 + words received) * (1 + stall) + (instructions + messages) * start

32-bit arithmetic and a link both handle one element per cycle. `stall` (bank conflicts and waiting)
and `start` (of a vector instruction) are fitted to two of the five published points.

Source: Jacquelin, Araya-Polo, Meng, Scalable Distributed High-Order Stencil Computations, 2022,
arXiv 2204.03775, tables II to IV.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Stencil:
    """A star-shaped stencil that is applied once per step.

    Attributes:
        radius: Peers in each of the four directions of the grid.
        instructions: Vector instructions per step: multiplications, additions, fused and others.
    """

    radius: int
    instructions: int

    @property
    def words_per_cell(self) -> int:
        """Words that arrive over the fabric for each cell."""
        return 4 * self.radius


SEISMIC_25_POINT = Stencil(radius=4, instructions=17 + 17 + 8 + 1)
"""17 FMUL, 17 FADD, 8 FMA and 1 FSUB per cell; eighth order in three dimensions."""

PUBLISHED_CYCLES: tuple[tuple[int, float], ...] = tuple(
    (depth, seconds * 850e6 / 100_000)
    for depth, seconds in (
        (100, 0.8637),
        (300, 2.3716),
        (400, 3.1223),
        (700, 5.3143),
        (1000, 7.5524),
    )
)
"""Depth and cycles per step: table III, 100,000 steps at 850 MHz."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StencilCosts:
    """The two fitted numbers.

    Attributes:
        stall: Extra cycles per cycle of work.
        start_cycles: Start of one vector instruction or message.
    """

    stall: float
    start_cycles: float


def step_cycles(stencil: Stencil, depth: int, costs: StencilCosts) -> float:
    """Return the clock cycles of one step; the grid's size does not matter (weak scaling)."""
    work, starts = _work(stencil)
    return depth * work * (1 + costs.stall) + starts * costs.start_cycles


def fit_costs(stencil: Stencil, points: tuple[tuple[int, float], ...]) -> StencilCosts:
    """Return the costs that reproduce two or more (depth, cycles) points best."""
    work, starts = _work(stencil)
    rows = np.array([(depth * work, starts) for depth, _ in points], dtype=np.float64)
    cycles = np.array([cycles for _, cycles in points])
    (slope, start), *_ = np.linalg.lstsq(rows, cycles, rcond=None)
    return StencilCosts(stall=float(slope) - 1, start_cycles=float(start))


def _work(stencil: Stencil) -> tuple[float, float]:
    words = stencil.words_per_cell
    return stencil.instructions + 1.0 + words, stencil.instructions + 1.0 + words
