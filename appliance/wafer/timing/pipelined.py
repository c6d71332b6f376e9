"""Pipelined execution: all weights resident, layers side by side, samples flow through.

The second mode of the machine, for networks that fit on one wafer. Every layer step gets PEs in
proportion to its work, so all stages take equally long and one sample leaves per interval:

    interval = multiply-adds of a sample / (PEs * rate),   rate = n / (start + 2 n / width).

A PE holds a square tile of its layer's weights, n = sqrt(weights / PEs) on a side, and multiplies
row by row; a vector instruction costs its start and, because resident operands meet in the same
banks, twice its elements over the SIMD width, exactly as in `mesh_products`. No number is fitted,
but the form was chosen with the two logged runs in view (BERT-large MSL 128, releases 1.7 and 1.8).

Weights, gradients and optimizer state stay on the wafer, and a value waits there for as many
samples as there are stages between its making and its last use, which decides whether a network
fits. Where a sum over the batch is needed within the step, the pipeline drains: each segment of
layer steps then takes the whole batch's intervals. Several systems hold a replica each and add
their gradients up over SwarmX once a step; the update runs where the weights are.
"""

import math
from dataclasses import dataclass

import numpy as np

from appliance.core.errors import UserError
from appliance.wafer.hardware import Machine, VectorOp
from appliance.wafer.timing.layer_timing import (
    GRADIENT_BYTES,
    Bound,
    LayerTiming,
    StepTiming,
    straggler_factor,
    tree_seconds,
)
from appliance.wafer.timing.sample_memory import BUFFER_BYTES, CODE_BYTES, MemoryUse, free_bytes
from appliance.wafer.timing.step_program import StepProgram

RESIDENT_BYTES_PER_PARAMETER = 18.0
"""16-bit weight, 32-bit weight, gradient and two moments."""
UPDATE_CYCLES = 30.0
"""AdamW of one parameter in 32 bits: about fifteen operations, a square root and a division of
Newton steps. Assumption; it hardly matters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentNeed:
    """What pipelined execution keeps on the wafer.

    Attributes:
        weight_bytes: Weights, gradients and optimizer state.
        activation_bytes: Activations of all samples in flight, constants included.
    """

    weight_bytes: float
    activation_bytes: float

    @property
    def num_bytes(self) -> float:
        """Both."""
        return self.weight_bytes + self.activation_bytes


def resident_need(program: StepProgram, share: int) -> ResidentNeed:
    """Return what a network takes when all of it is on the wafer.

    Args:
        program: The step, for one sample.
        share: Samples of one system; no more can be in flight.
    """
    waiting = sum(size * min(steps, share) for size, steps in program.waiting)
    return ResidentNeed(
        weight_bytes=program.num_parameters * RESIDENT_BYTES_PER_PARAMETER,
        activation_bytes=program.stage_bytes_per_sample + waiting + program.fixed_bytes,
    )


def pipelined_timing(
    program: StepProgram, *, machine: Machine, batch_size: int, num_systems: int = 1
) -> StepTiming:
    """Return the simulated time of one step; `memory.fits` says whether it is possible.

    The layer steps' times are their shares of the wafer: they run side by side.

    Args:
        program: The step, for one sample.
        machine: The wafer.
        batch_size: Samples per step, at least one for each system.
        num_systems: Systems that share them.

    Raises:
        UserError: The batch is smaller than the systems.
    """
    if num_systems < 1 or batch_size < num_systems:
        raise UserError(
            f"{program.name}: a batch of {batch_size} samples cannot be shared by {num_systems} "
            "systems.",
            hint="Use at least one sample for each system.",
        )
    share = math.ceil(batch_size / num_systems)
    macs = program.table.macs()
    interval = _interval_seconds(program, float(macs.sum()), machine)
    intervals = program.num_segments * share + len(program.layers)
    compute = intervals * interval * straggler_factor(num_systems)
    exchange = 0.0
    if num_systems > 1:
        sums = sum(layer.gradient_elements for layer in program.layers) * GRADIENT_BYTES
        exchange = 2 * sums / machine.io_bytes_per_second + tree_seconds(num_systems, machine)
    tile_cycles = UPDATE_CYCLES * program.num_parameters / machine.num_grid_pes
    update = machine.seconds(tile_cycles)
    seconds = compute + exchange + update
    flops = 2.0 * float((macs * program.table.density).sum()) * batch_size
    per_layer = np.bincount(
        program.table.layer_step, weights=macs, minlength=len(program.layers)
    ) / max(float(macs.sum()), 1.0)
    terms = {Bound.COMPUTE: compute, Bound.REDUCTION: exchange, Bound.UPDATE: update}
    return StepTiming(
        seconds=seconds,
        compute_seconds=compute,
        injection_seconds=0.0,
        reduction_seconds=exchange,
        update_seconds=update,
        input_seconds=0.0,
        exposed_seconds=exchange + update,
        bound=max(terms, key=lambda bound: terms[bound]),
        micro_batch=share,
        num_micro_batches=1,
        batch_size=batch_size,
        num_systems=num_systems,
        layers=_shares(program, (per_layer * compute).tolist(), machine, num_systems),
        memory=_memory_use(program, machine, share),
        utilization=flops / (seconds * num_systems * machine.dense_flops),
    )


def interval_seconds(program: StepProgram, machine: Machine) -> float:
    """Return the simulated time between two samples."""
    return _interval_seconds(program, float(program.table.macs().sum()), machine)


def _interval_seconds(program: StepProgram, macs: float, machine: Machine) -> float:
    num_pes = machine.num_grid_pes
    tile = max(1.0, math.sqrt(program.num_parameters / num_pes))
    rate = tile / (machine.vector_start_cycles + 2 * tile / machine.width(VectorOp.FMAC, 16))
    return machine.seconds(macs / (num_pes * rate))


def _shares(
    program: StepProgram, shares: list[float], machine: Machine, num_systems: int
) -> tuple[LayerTiming, ...]:
    """Return each layer step's share of the wafer's time; replicas exchange their gradients."""
    timings: list[LayerTiming] = []
    start = 0.0
    rate = machine.io_bytes_per_second if num_systems > 1 else math.inf
    for layer, seconds in zip(program.layers, shares, strict=True):
        timings.append(
            LayerTiming(
                name=layer.name,
                module=layer.module,
                is_backward=layer.is_backward,
                compute_seconds=seconds,
                injection_seconds=layer.gradient_elements * GRADIENT_BYTES / rate,
                drain_seconds=layer.gradient_elements * GRADIENT_BYTES / rate,
                activation_seconds=0.0,
                start_seconds=start,
                end_seconds=start + seconds,
            )
        )
        start += seconds
    return tuple(timings)


def _memory_use(program: StepProgram, machine: Machine, share: int) -> MemoryUse:
    need = resident_need(program, share)
    overhead = float(machine.num_grid_pes * (CODE_BYTES + BUFFER_BYTES))
    return MemoryUse(
        working_bytes=need.activation_bytes,
        boundary_bytes=0.0,
        weight_bytes=need.weight_bytes,
        overhead_bytes=overhead,
        capacity_bytes=float(machine.sram_bytes),
        bytes_per_pe=(need.num_bytes + overhead) / machine.num_grid_pes,
        pe_capacity_bytes=float(machine.sram_bytes_per_pe),
        spills=False,
    )


def checked_pipelined_timing(
    program: StepProgram, *, machine: Machine, batch_size: int, num_systems: int = 1
) -> StepTiming:
    """Return the time of a step that has to fit; see `pipelined_timing`.

    Raises:
        UserError: It does not fit; the message names the layer with the most weights.
    """
    timing = pipelined_timing(
        program, machine=machine, batch_size=batch_size, num_systems=num_systems
    )
    if timing.memory.fits:
        return timing
    largest = max(program.layers, key=lambda layer: layer.weight_elements)
    size = largest.weight_elements * RESIDENT_BYTES_PER_PARAMETER
    need = timing.memory.weight_bytes + timing.memory.working_bytes
    raise UserError(
        f"{program.name}: pipelined execution needs {need:,.0f} bytes of wafer memory, "
        f"{machine.name} has {free_bytes(machine):,} free; the most are the weights of "
        f"{largest.module} with {size:,.0f} bytes, gradients and optimizer state included.",
        hint="Use weight streaming.",
    )
