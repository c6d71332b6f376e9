"""Clock cycles of one operation on the grid of PEs, for many operations at once.

How tensors lie: tokens along the rows of the grid (H of them), features along its columns (W).
A PE therefore holds T = ceil(tokens / H) tokens of f = ceil(features / W) features, and everything
below follows from that tiling:

* *Matrix product with a streamed weight* (HC34): each weight is broadcast down its column and wakes
  one multiply-add of its value with the T activations of one feature: ceil(T / width) + h cycles,
  where h is the dispatch of that instruction. Each of the `outer` results is then a sum over the
  columns: T partial sums per result travel along the row. The PE's one data path does both, so the
  times add:

      outer * (f * density * (ceil(T / width) + h) + T * words).

  `words` is 1 cycle for a 32-bit partial sum and 1/2 for a 16-bit one: a link carries 32 bits per
  cycle. Zeros of a sparse weight are never sent, hence `density`.
* *Weight gradient*: the same multiply-adds; no partial sums cross the row, but one of the two
  operands does (the narrower one, in 16 bits); the sums run down the columns, one word per weight,
  beside the next multiply-add.
* *Batched products of attention*: keys or values take the part of the weights. A row holds
  T / min(T, S) sequences, so min(T, S) tokens share each broadcast element. The side that is as
  wide as the sequence crosses the row once for every (token, key, head): as partial sums when it
  is the result (`SCORES`), as 16-bit operands when it is read (`CONTEXT`). With long sequences and
  few features this term rules everything; the ESM-2 logs show it.
* *Elementwise*: T * f * work / width + h.
* *Normalisation*: the same, and two statistics per token summed along the row and sent back.
* *Reduction over tokens*: T * f additions in each PE, then f words down a column.

Every kind pays the latency of its collective once (`collectives`): a chain along the row, or a
broadcast over the grid. Source of the scheme: HC34 and weight streaming paper; of the collective:
Luczynski 2024. Which additions overlap is not published and is our reading of the logs.
"""

import numpy as np
from numpy.typing import NDArray

from appliance.wafer.hardware import Machine, VectorOp
from appliance.wafer.timing import collectives
from appliance.wafer.timing.calibration import Calibration
from appliance.wafer.timing.operations import Kind, OperationTable

_Column = NDArray[np.float64]


def operation_cycles(
    table: OperationTable, machine: Machine, calibration: Calibration
) -> NDArray[np.float64]:
    """Return the clock cycles of each operation on one system.

    Args:
        table: The operations, with the tokens of this system's share of a (micro-)batch.
        machine: Where they run.
        calibration: What the software costs.

    Returns:
        Cycles, one for each row of the table.
    """
    tokens = np.ceil(table.tokens / machine.grid_height)
    features = np.ceil(table.inner / machine.grid_width)
    cycles = np.zeros(len(table))
    for kinds, kernel in (
        ((Kind.MATMUL, Kind.WEIGHT_GRADIENT), _dense),
        ((Kind.SCORES, Kind.CONTEXT), _batched),
        ((Kind.ELEMENTWISE, Kind.NORMALISATION, Kind.LAYOUT), _elementwise),
        ((Kind.REDUCTION,), _token_reduction),
        ((Kind.LOOKUP,), _lookup),
    ):
        rows = np.isin(table.kind, kinds)
        if rows.any():
            cycles[rows] = kernel(
                _rows(table, rows), tokens[rows], features[rows], machine, calibration
            )
    return cycles * table.repeat


def _rows(table: OperationTable, rows: NDArray[np.bool_]) -> OperationTable:
    return OperationTable(
        **{name: getattr(table, name)[rows] for name in OperationTable.__dataclass_fields__}
    )


def _width(table: OperationTable, machine: Machine, op: VectorOp) -> _Column:
    half, single = machine.width(op, 16), machine.width(op, 32)
    return np.where(table.bits <= 16, float(half), float(single))


def _words(bits: _Column | float, machine: Machine) -> _Column:
    """Return the link cycles of one element."""
    return np.asarray(bits, dtype=np.float64) / machine.link_bits


def _row_latency(machine: Machine) -> float:
    """Return how long the first partial sum takes along a row."""
    return collectives.chain_reduce(machine.grid_width, 0, ramp_cycles=machine.ramp_cycles)


def _grid_latency(machine: Machine) -> float:
    """Return how long a broadcast over the grid takes to arrive."""
    return collectives.broadcast_2d(
        machine.grid_width, machine.grid_height, 0, ramp_cycles=machine.ramp_cycles
    )


def _dense(
    table: OperationTable,
    tokens: _Column,
    features: _Column,
    machine: Machine,
    calibration: Calibration,
) -> _Column:
    vectors = np.ceil(tokens / _width(table, machine, VectorOp.FMAC)) + calibration.dispatch_cycles
    partial_bits = np.maximum(table.bits, machine.partial_sum_bits)
    is_product = table.kind == Kind.MATMUL
    words = _words(np.where(is_product, partial_bits, table.bits), machine)
    crossing = np.where(is_product, table.outer, np.minimum(table.inner, table.outer))
    latency = np.where(is_product, _row_latency(machine), _grid_latency(machine))
    multiply = table.outer * features * table.density * vectors
    return np.asarray(multiply + crossing * tokens * words + latency)


def _batched(
    table: OperationTable,
    tokens: _Column,
    features: _Column,
    machine: Machine,
    calibration: Calibration,
) -> _Column:
    shared = np.minimum(tokens, np.maximum(table.sequence, 1))
    num_sequences = tokens / np.maximum(shared, 1)
    vectors = np.ceil(shared / _width(table, machine, VectorOp.FMAC)) + calibration.dispatch_cycles
    partial_bits = np.maximum(table.bits, machine.partial_sum_bits)
    is_scores = table.kind == Kind.SCORES
    words = _words(np.where(is_scores, partial_bits, table.bits), machine)
    multiply = num_sequences * table.sequence * features * vectors
    cross = tokens * table.sequence * table.num_heads * words
    latency = np.where(is_scores, _row_latency(machine), _grid_latency(machine))
    return np.asarray(multiply + cross + latency)


def _elementwise(
    table: OperationTable,
    tokens: _Column,
    features: _Column,
    machine: Machine,
    calibration: Calibration,
) -> _Column:
    elements = tokens * features
    cycles = elements * table.work / _width(table, machine, VectorOp.MUL)
    cycles = cycles + calibration.dispatch_cycles * table.work
    moved = np.where(table.kind == Kind.LAYOUT, elements * _words(table.bits, machine), 0.0)
    statistics = 2 * tokens * _words(32.0, machine) + _row_latency(machine)
    is_normalisation = table.kind == Kind.NORMALISATION
    return np.asarray(cycles + moved + np.where(is_normalisation, statistics, 0.0))


def _token_reduction(
    table: OperationTable,
    tokens: _Column,
    features: _Column,
    machine: Machine,
    calibration: Calibration,
) -> _Column:
    adds = tokens * features / _width(table, machine, VectorOp.ADD)
    column = collectives.chain_reduce(machine.grid_height, 0, ramp_cycles=machine.ramp_cycles)
    return np.asarray(adds + calibration.dispatch_cycles + features + column)


def _lookup(
    table: OperationTable,
    tokens: _Column,
    features: _Column,
    machine: Machine,
    calibration: Calibration,
) -> _Column:
    """Price a table of `outer` rows that passes by; each PE takes what its tokens ask for."""
    pass_by = table.outer * features * _words(table.bits, machine)
    take = tokens * features / _width(table, machine, VectorOp.MOVE)
    picked = tokens * calibration.dispatch_cycles
    return np.asarray(pass_by + take + picked + _grid_latency(machine))
