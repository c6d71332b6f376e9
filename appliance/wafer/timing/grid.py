"""What each part of the grid does in a layer step: the numbers behind a picture of the wafer.

Tokens lie along the rows of PEs, features along the columns (`kernels`), as evenly as whole tokens
and features allow: the first rows hold one token more than the last ones, and where there are fewer
tokens than rows the last rows hold none. Attention's batched products lie head by head, each over
a stripe of columns of its own (`kernels.head_stripes`). An operation keeps the fullest PE busy from
its start to its end, and another one in proportion to what it holds. So the load of an operation
over the grid is the product of one profile along the rows and one along the columns, and a layer
step's is the sum of its operations', weighted with their clock cycles.

All times are simulated.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from appliance.wafer.hardware import Machine
from appliance.wafer.timing.calibration import DEFAULT_CALIBRATION, Calibration
from appliance.wafer.timing.kernels import operation_cycles
from appliance.wafer.timing.layer_timing import GRADIENT_BYTES, WEIGHT_BYTES, StepTiming
from appliance.wafer.timing.operations import Kind, OperationTable
from appliance.wafer.timing.step_program import StepProgram

CELLS = 48
"""Cells of a picture along each side; one stands for a block of PEs."""
_DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """How operations that lie alike load the grid; a cell's load is row load x column load.

    Attributes:
        kind: What most of their clock cycles are, as in `matmul`.
        num_operations: How many lie like this.
        share_of_cycles: Their part of the layer step's clock cycles.
        tokens: Tokens that lie along the rows.
        features: Features that lie along the columns.
        tokens_per_pe: Of the fullest PE.
        features_per_pe: Of the fullest PE.
        bytes_per_pe: Of the fullest PE, of one tensor that lies like this.
        row_loads: For each row of cells, what its PEs hold over what the fullest one holds.
        column_loads: The same for each column of cells.
    """

    kind: str
    num_operations: int
    share_of_cycles: float
    tokens: int
    features: int
    tokens_per_pe: int
    features_per_pe: int
    bytes_per_pe: float
    row_loads: tuple[float, ...]
    column_loads: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGrid:
    """One layer step on the grid, for one micro-batch.

    Attributes:
        name: As in `blocks.3.fwd`.
        module: Module path.
        is_backward: Whether it belongs to the backward pass.
        simulated_seconds: From its start to its end.
        simulated_compute_seconds: The grid at work.
        simulated_start_seconds: When it begins, from the start of the micro-batch; this and the
            next are None in pictures of earlier releases.
        simulated_change_seconds: Between the layer step before and its computing: kernels change,
            buffers drain, the command goes to all PEs. What else is left of its time is waiting
            for streams.
        simulated_weight_bytes_per_second: Weights in, over the layer step.
        simulated_gradient_bytes_per_second: Gradients out, over the layer step.
        busy_share: Mean load of all PEs while the grid is at work, 0 to 1.
        patterns: How its operations lie, the longest first.
    """

    name: str
    module: str
    is_backward: bool
    simulated_seconds: float
    simulated_compute_seconds: float
    simulated_weight_bytes_per_second: float
    simulated_gradient_bytes_per_second: float
    busy_share: float
    patterns: tuple[Pattern, ...]
    simulated_start_seconds: float | None = None
    simulated_change_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaferPicture:
    """A program's layer steps on the grid of one system.

    Attributes:
        machine: Its name.
        grid_width: Columns of PEs that a program can use.
        grid_height: Rows of PEs.
        cells: Cells of the picture along each side.
        micro_batch: Samples in one pass.
        bytes_per_pe: In use in the widest layer step, code and buffers included.
        pe_capacity_bytes: Memory of one PE.
        link_bytes_per_second: What the system's link carries each way.
        layers: In stream order.
        num_micro_batches: Passes of a step; this and the next two are None in pictures of earlier
            releases.
        simulated_step_seconds: The whole step.
        simulated_boundary_seconds: Part of it in which the wafer waits for the next step's first
            weights: last gradient out, sum, update, weights in.
    """

    machine: str
    grid_width: int
    grid_height: int
    cells: int
    micro_batch: int
    bytes_per_pe: float
    pe_capacity_bytes: float
    link_bytes_per_second: float
    layers: tuple[LayerGrid, ...]
    num_micro_batches: int | None = None
    simulated_step_seconds: float | None = None
    simulated_boundary_seconds: float | None = None


def wafer_picture(
    program: StepProgram,
    timing: StepTiming,
    *,
    machine: Machine,
    calibration: Calibration = DEFAULT_CALIBRATION,
) -> WaferPicture:
    """Return where a program's layer steps lie on the grid and how busy they keep it.

    Args:
        program: The step, for one sample.
        timing: Its time, which says how large a micro-batch is.
        machine: Where it runs.
        calibration: What the software costs.
    """
    table = program.table.for_batch(timing.micro_batch)
    cycles = operation_cycles(table, machine, calibration)
    layers = []
    for index, (traffic, layer) in enumerate(zip(program.layers, timing.layers, strict=True)):
        chosen = np.flatnonzero(table.layer_step == index)
        patterns = _patterns(table, cycles, chosen, machine)
        seconds = layer.end_seconds - layer.start_seconds
        per_second = 1.0 / seconds if seconds else 0.0
        layers.append(
            LayerGrid(
                name=layer.name,
                module=layer.module,
                is_backward=layer.is_backward,
                simulated_seconds=seconds,
                simulated_compute_seconds=layer.compute_seconds,
                simulated_weight_bytes_per_second=traffic.weight_elements
                * WEIGHT_BYTES
                * per_second,
                simulated_gradient_bytes_per_second=traffic.gradient_elements
                * GRADIENT_BYTES
                * per_second,
                busy_share=round(sum(_mean_load(each) for each in patterns), _DIGITS),
                patterns=patterns,
                simulated_start_seconds=layer.start_seconds,
                simulated_change_seconds=calibration.layer_step_seconds,
            )
        )
    return WaferPicture(
        machine=machine.name,
        grid_width=machine.grid_width,
        grid_height=machine.grid_height,
        cells=CELLS,
        micro_batch=timing.micro_batch,
        bytes_per_pe=timing.memory.bytes_per_pe,
        pe_capacity_bytes=timing.memory.pe_capacity_bytes,
        link_bytes_per_second=machine.io_bytes_per_second,
        layers=tuple(layers),
        num_micro_batches=timing.num_micro_batches,
        simulated_step_seconds=timing.seconds,
        simulated_boundary_seconds=timing.exposed_seconds,
    )


def _patterns(
    table: OperationTable,
    cycles: NDArray[np.float64],
    chosen: NDArray[np.intp],
    machine: Machine,
) -> tuple[Pattern, ...]:
    groups: dict[tuple[int, int, int], list[int]] = {}
    for row in chosen:
        heads = int(table.num_heads[row]) if _is_batched(table, row) else 0
        lies = (int(table.tokens[row]), int(table.inner[row]), heads)
        groups.setdefault(lies, []).append(int(row))
    total = float(cycles[chosen].sum())
    made = [_pattern(table, cycles, rows, total, machine) for rows in groups.values()]
    return tuple(sorted(made, key=lambda each: -each.share_of_cycles))


def _pattern(
    table: OperationTable,
    cycles: NDArray[np.float64],
    rows: list[int],
    total: float,
    machine: Machine,
) -> Pattern:
    tokens, features = int(table.tokens[rows[0]]), int(table.inner[rows[0]])
    longest = max(rows, key=lambda row: cycles[row])
    tokens_per_pe = -(-tokens // machine.grid_height)
    columns = _spread(features, machine.grid_width)
    if _is_batched(table, longest):
        columns = _in_stripes(features, int(table.num_heads[longest]), machine.grid_width)
    features_per_pe = int(columns.max())
    return Pattern(
        kind=Kind(int(table.kind[longest])).name.lower().replace("_", " "),
        num_operations=len(rows),
        share_of_cycles=round(float(cycles[rows].sum()) / total, _DIGITS) if total else 0.0,
        tokens=tokens,
        features=features,
        tokens_per_pe=tokens_per_pe,
        features_per_pe=features_per_pe,
        bytes_per_pe=tokens_per_pe * features_per_pe * float(table.bits[longest]) / 8,
        row_loads=cell_loads(tokens, machine.grid_height),
        column_loads=_cells(columns, CELLS),
    )


def cell_loads(count: int, lines: int, cells: int = CELLS) -> tuple[float, ...]:
    """Return how full each cell is when `count` things are spread over `lines` rows or columns.

    The first `count % lines` lines hold one more than the others. A cell stands for `lines / cells`
    lines; its load is their mean over what the fullest line holds.

    Args:
        count: Tokens or features.
        lines: Rows or columns of PEs.
        cells: Cells along that side of the picture.
    """
    return _cells(_spread(count, lines), cells)


def _spread(count: int, lines: int) -> NDArray[np.float64]:
    each, more = divmod(count, lines)
    held = np.full(lines, float(each))
    held[:more] += 1.0
    return held


def _in_stripes(features: int, num_heads: int, lines: int) -> NDArray[np.float64]:
    """Return what each column holds when every head has columns of its own, or a part of one."""
    width = max(1, features // num_heads)
    if num_heads > lines:
        return _spread(num_heads, lines) * width
    stripe = _spread(width, min(lines // num_heads, width))
    held = np.zeros(lines)
    held[: stripe.size * num_heads] = np.tile(stripe, num_heads)
    return held


def _is_batched(table: OperationTable, row: int | np.intp) -> bool:
    return int(table.kind[row]) in (Kind.SCORES, Kind.CONTEXT)


def _cells(held: NDArray[np.float64], cells: int) -> tuple[float, ...]:
    """Return how full each cell is, of the fullest line."""
    fullest = float(held.max())
    if fullest == 0:
        return (0.0,) * cells
    lines = held.size
    filled = np.concatenate(([0.0], np.cumsum(held)))
    edges = np.linspace(0.0, lines, cells + 1)
    sums = np.diff(np.interp(edges, np.arange(lines + 1), filled))
    return tuple(round(float(load), _DIGITS) for load in sums / (lines / cells) / fullest)


def _mean_load(pattern: Pattern) -> float:
    rows = sum(pattern.row_loads) / len(pattern.row_loads)
    columns = sum(pattern.column_loads) / len(pattern.column_loads)
    return pattern.share_of_cycles * rows * columns
