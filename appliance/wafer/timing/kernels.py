"""Clock cycles of one operation on the grid of PEs, for many operations at once.

How tensors lie: tokens along the rows of the grid (H of them), features along its columns (W).
A PE therefore holds T = ceil(tokens / H) tokens of f = ceil(features / W) features, and everything
below follows from that tiling:

* *Matrix product with a streamed weight* (HC34): each weight is broadcast down its column and wakes
  one multiply-add of its value with the T activations of one feature: v(T) + h cycles, where h is
  the dispatch of that instruction and v(T) = max(ceil(T / width), T / m), since memory lets m
  multiply-adds pass in a cycle. Each of the `outer` results is then a sum over the columns: T
  partial sums per result travel along the row. The PE's one data path does both, so the times add:

      outer * (f * density * (v(T) + h) + T * words).

  `words` is 1 cycle for a 32-bit partial sum and 1/2 for a 16-bit one: a link carries 32 bits per
  cycle. Zeros of a sparse weight are never sent, hence `density`.
* *Weight gradient*: the same multiply-adds; no partial sums cross the row, but one of the two
  operands does (the narrower one, in 16 bits); the sums run down the columns, one word per weight,
  beside the next multiply-add.
* *Batched products of attention*: keys or values take the part of the weights, and each head lies
  over columns of its own, a stripe of floor(W / heads) neighbours, so that all heads work side by
  side and nothing leaves a stripe (`head_stripes`). A row holds T / T' sequences, T' = min(T, S),
  whose tokens share each key. Along a stripe the side that is as wide as the sequence crosses once
  for every (token, key): as partial sums when it is the result (`SCORES`), as 16-bit operands when
  it is read (`CONTEXT`):

      T / T' * S * f * (v(T') + h) + T * S * words.

  *Causal* products skip what lies after a token: tokens are dealt to the rows in turn, so that all
  rows skip alike; vectors and traffic halve, dispatches do not, since every key meets some token.
* *Elementwise*: T * f * work / width + h.
* *Normalisation*: the same, and two statistics per token summed along the row and sent back.
* *Reduction over tokens*: T * f additions in each PE, then f words down a column.

Every kind pays the latency of its collective once (`collectives`): a chain along the row, or a
broadcast over the grid. Source of the scheme: HC34 and weight streaming paper; of the collective:
Luczynski 2024. Which additions overlap is not published and is our reading of the logs.
"""

from dataclasses import dataclass

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


def _multiply_adds(
    elements: _Column, table: OperationTable, machine: Machine, calibration: Calibration
) -> _Column:
    """Return the clock cycles of a vector of multiply-adds without its dispatch.

    Arithmetic or memory, whichever is slower.
    """
    arithmetic = np.ceil(elements / _width(table, machine, VectorOp.FMAC))
    return np.maximum(arithmetic, elements / calibration.multiply_adds_per_cycle)


def _words(bits: _Column | float, machine: Machine) -> _Column:
    """Return the link cycles of one element."""
    return np.asarray(bits, dtype=np.float64) / machine.link_bits


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadStripes:
    """Where the heads of batched products lie, one entry for each row of a table.

    Attributes:
        columns: Neighbouring columns that one head has to itself.
        heads: Heads that share them; 1 unless there are more heads than columns.
        features: Features in each of those columns, of all its heads.
    """

    columns: _Column
    heads: _Column
    features: _Column


def head_stripes(table: OperationTable, machine: Machine) -> HeadStripes:
    """Return the columns of each head: as many as all heads can have alike, whole columns only."""
    num_heads = np.maximum(table.num_heads, 1)
    width = np.maximum(table.inner / num_heads, 1)
    columns = np.clip(np.floor(machine.grid_width / num_heads), 1, width)
    heads = np.ceil(num_heads / machine.grid_width)
    return HeadStripes(columns=columns, heads=heads, features=heads * np.ceil(width / columns))


def _chain_latency(columns: _Column, machine: Machine) -> _Column:
    """Return how long the first partial sum takes along a head's columns."""
    hop = collectives.dependency_cycles(machine.ramp_cycles) + 1
    return hop * (columns - 1)


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
    vectors = _multiply_adds(tokens, table, machine, calibration) + calibration.dispatch(machine)
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
    _features: _Column,
    machine: Machine,
    calibration: Calibration,
) -> _Column:
    stripe = head_stripes(table, machine)
    shared = np.minimum(tokens, np.maximum(table.queries, 1))
    num_sequences = tokens / np.maximum(shared, 1)
    whole = _multiply_adds(shared, table, machine, calibration)
    vector = np.where(table.is_causal > 0, (whole + 1) / 2, whole)
    dispatched = num_sequences * table.sequence * stripe.features
    multiply = dispatched * (vector + calibration.dispatch(machine))
    is_scores = table.kind == Kind.SCORES
    partial_bits = np.maximum(table.bits, machine.partial_sum_bits)
    words = _words(np.where(is_scores, partial_bits, table.bits), machine)
    pairs = tokens * table.sequence * table.pairs_share()
    crossing = np.where(stripe.columns > 1, pairs * stripe.heads * words, 0.0)
    latency = np.where(is_scores, _chain_latency(stripe.columns, machine), _grid_latency(machine))
    return np.asarray(multiply + crossing + latency)


def _elementwise(
    table: OperationTable,
    tokens: _Column,
    features: _Column,
    machine: Machine,
    calibration: Calibration,
) -> _Column:
    elements = tokens * features
    cycles = elements * table.work / _width(table, machine, VectorOp.MUL)
    cycles = cycles + calibration.dispatch(machine) * table.work
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
    return np.asarray(adds + calibration.dispatch(machine) + features + column)


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
    picked = tokens * calibration.dispatch(machine)
    return np.asarray(pass_by + take + picked + _grid_latency(machine))
