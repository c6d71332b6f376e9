"""Published cycle counts, one row each, and which of our constants were chosen knowing them.

Counts are those of the vendor's simulator, from public results of others; our programs follow the
published descriptions, not their texts. A row without a program could not be reproduced from what
is published about it; it stands here so that nobody believes it checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What a program spends its cycles on."""

    MOVEMENT = "data movement"
    TASKS = "tasks"
    SCALAR = "scalar code and short vectors"
    STENCIL = "stencils of small tiles"
    COLLECTIVE = "collectives_2d, call to callback"
    COLLECTIVE_WORDS = "collectives_2d, words alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published count.

    Attributes:
        name: What was measured.
        kind: What it spends its cycles on.
        cycles: As published; per task where the name says so.
        program: A directory of `csl_programs`, empty where we have none.
        architecture: Of the published run, or our choice where that is not said.
        parameters: Of our program.
        is_fitted: Whether a constant of ours was fitted to this row.
        is_per_task: Whether the count is that of one task or step, on average.
    """

    name: str
    kind: Kind
    cycles: float
    program: str = ""
    architecture: str = "wse2"
    parameters: Mapping[str, int] = field(default_factory=dict)
    is_fitted: bool = False
    is_per_task: bool = False


def _product(rows: int, depth: int, columns: int, cycles: int) -> Row:
    return Row(
        name=f"product on one PE, {rows} x {depth} x {columns}",
        kind=Kind.SCALAR,
        cycles=cycles,
        program="product",
        parameters={"rows": rows, "depth": depth, "columns": columns},
    )


def _signal(width: int) -> Row:
    return Row(
        name=f"one wavelet along {width} PEs, receiver's clock less the sender's",
        kind=Kind.TASKS,
        cycles=28,
        program="signal",
        parameters={"width": width},
        is_fitted=width in (2, 8, 32),
    )


def _relay(num_heard: int, cycles: int) -> Row:
    return Row(
        name=f"data tasks for {num_heard} wavelets that come together",
        kind=Kind.TASKS,
        cycles=cycles,
        program="relay",
        architecture="wse3",
        parameters={"width": num_heard + 1},
        is_fitted=num_heard in (2, 4),
    )


def _halo(tile: tuple[int, int], cycles: int, architecture: str, *, is_fitted: bool = False) -> Row:
    width, height = tile
    return Row(
        name=f"step of a stencil, tiles of {width} x {height}, {architecture}",
        kind=Kind.STENCIL,
        cycles=cycles,
        program="halo",
        architecture=architecture,
        parameters={"width": 3, "height": 3, "count": 4}
        | {"tile_width": width, "tile_height": height},
        is_fitted=is_fitted,
        is_per_task=True,
    )


def _collective(num_pes: int, length: int, *, is_sum: bool, is_words: bool = False) -> Row:
    what = f"{'reduce_fadds' if is_sum else 'broadcast'} of {length} words, {num_pes} PEs"
    return Row(
        name=f"{what}, words alone" if is_words else what,
        kind=Kind.COLLECTIVE_WORDS if is_words else Kind.COLLECTIVE,
        cycles=length + 6 * (num_pes - 1) if is_sum else length + num_pes + 4,
        program="collective",
        parameters={"num_pes": num_pes, "length": length, "is_sum": int(is_sum)},
    )


ROWS: tuple[Row, ...] = (
    *(_signal(width) for width in (2, 4, 8, 16, 32)),
    Row(
        name="data task with one @fmacs of 16 and two counters",
        kind=Kind.TASKS,
        cycles=56.5,
        program="tasks",
        parameters={"count": 512, "length": 16},
        is_per_task=True,
    ),
    *(_relay(*row) for row in enumerate((41, 69, 100, 131, 162), start=1)),
    _halo((1, 1), 125, "wse2", is_fitted=True),
    _halo((2, 1), 131, "wse2"),
    _halo((2, 4), 174, "wse2"),
    _halo((3, 3), 188, "wse2"),
    _halo((4, 5), 240, "wse2"),
    _halo((6, 6), 338, "wse2"),
    _halo((10, 10), 783, "wse2"),
    _halo((1, 1), 155, "wse3"),
    _halo((2, 1), 162, "wse3", is_fitted=True),
    _halo((2, 2), 177, "wse3", is_fitted=True),
    _halo((2, 4), 204, "wse3"),
    _halo((3, 3), 197, "wse3"),
    _product(64, 48, 64, 476_866),
    _product(128, 8, 64, 150_760),
    _product(32, 32, 32, 88_795),
    _product(8, 8, 32, 9_756),
    *(
        _collective(num_pes, length, is_sum=is_sum)
        for is_sum in (False, True)
        for num_pes, length in ((4, 16), (128, 16), (128, 512), (128, 4096))
    ),
    *(
        _collective(num_pes, length, is_sum=is_sum, is_words=True)
        for is_sum in (False, True)
        for num_pes, length in ((4, 16), (32, 16), (128, 16), (128, 512))
    ),
)
"""Rows with a program.

Of tasks every second one in this order was fitted, of products none; that an in-place column of
stride 8 words needs two cycles an element was inferred from the products. Collectives are compared
with the closed forms of a multicast and a chain (Luczynski et al., arXiv 2404.15888), which leave
out that a PE calls, sets its routes and is told of the end: rows of the words alone do so, too.
"""

NOT_REPRODUCED: tuple[Row, ...] = (
    *(
        Row(name=f"blocked product by data tasks, {size}", kind=Kind.TASKS, cycles=cycles)
        for size, cycles in (
            *(("2x2 PEs, 8^3", 2129), ("2x4, 8^3", 2038), ("4x2, 8^3", 1442), ("3x3, 9^3", 1922)),
            *(("4x4, 16^3", 4272), ("2x8, 16^3", 6768), ("8x8, 128x256x64", 115_743)),
        )
    ),
    *(
        Row(name=f"stencil of 2x2 PEs, 16x16 cells: {name}", kind=Kind.SCALAR, cycles=cycles)
        for name, cycles in (
            *(("star r1, 1 step", 906), ("star r1, 4", 3598), ("star r2, 1", 2127)),
            *(("star r2, 3", 6362), ("star r3, 1", 2407), ("star r3, 3", 7253), ("box r3", 8718)),
        )
    ),
    *(
        Row(name=f"all-reduce of a solver, {size} PEs", kind=Kind.TASKS, cycles=cycles)
        for size, cycles in (("2x2", 735), ("4x4", 874), ("8x8", 1282))
    ),
    *(Row(name="relay chain", kind=Kind.TASKS, cycles=cycles) for cycles in (401, 454, 289)),
)
"""Published counts whose programs are not described well enough to write them again."""
