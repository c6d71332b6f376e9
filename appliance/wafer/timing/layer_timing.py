"""The time of a whole training step on N systems: layer steps, streams, reduction and update.

A layer step on one system takes the longest of four things that run side by side: computing it
(`kernels`), streaming its weights in, streaming the previous gradients out, moving boundary
activations that do not fit. Weights of step k + 1 stream in while step k computes (double
buffering); gradients leave behind it, cross the SwarmX tree, and MemoryX updates each weight as
soon as its sum is complete. The next step may begin a layer only when the layer's new weights are
there, so what remains exposed is one latency at the iteration boundary: last gradient out, tree,
update, first weights in. That is how the appliance's own engine is ordered, and the published
description of weight streaming (IEEE Micro 43(3), 2023).

N systems do the same work on their shares; the sum waits for the slowest of them. Its delay is the
expected largest of N independent deviations (Blom's approximation), one number of which is fitted
to one published speed-up (`STRAGGLER_DEVIATION`).

All seconds are simulated.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from appliance.core.errors import UserError
from appliance.wafer.hardware import Machine
from appliance.wafer.timing.calibration import DEFAULT_CALIBRATION, Calibration
from appliance.wafer.timing.kernels import operation_cycles
from appliance.wafer.timing.operations import LayerTraffic, OperationTable
from appliance.wafer.timing.sample_memory import (
    MemoryUse,
    checked_micro_batch,
    memory_use,
    micro_batch_choices,
)
from appliance.wafer.timing.step_program import StepProgram

WEIGHT_BYTES = 2.0
"""A weight goes in as 16 bits in the forward and again in the backward pass: the white paper's 32
bits per parameter and iteration (second-hand)."""
INDEX_BYTES = 2.0
"""A sparse weight carries its 16-bit index, as a wavelet does."""
GRADIENT_BYTES = 4.0
"""The same source: 32 bits per parameter out."""
UPDATE_BYTES = 30.0
"""AdamW in 32 bits: reads weight, gradient and two moments, writes weight, moments and the 16-bit
copy."""
STRAGGLER_DEVIATION = 0.026
"""Relative deviation of one system's step. From 15.3 x on 16 CS-3 (Cerebras and Sandia, 2024):
16 / 15.3 = 1 + 1.77 s."""


class Bound(StrEnum):
    """What limits a step."""

    COMPUTE = "compute"
    INJECTION = "injection"
    REDUCTION = "reduction"
    UPDATE = "update"
    INPUT = "input"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTiming:
    """Where one layer step's time goes, for one micro-batch on one system.

    Attributes:
        name: As in `blocks.3.fwd`.
        module: Module path.
        is_backward: Whether it belongs to the backward pass.
        compute_seconds: On the grid.
        injection_seconds: Weights in.
        drain_seconds: Gradients out.
        activation_seconds: Boundary activations out or in.
        start_seconds: When it begins, from the start of the micro-batch.
        end_seconds: When it ends.
    """

    name: str
    module: str
    is_backward: bool
    compute_seconds: float
    injection_seconds: float
    drain_seconds: float
    activation_seconds: float
    start_seconds: float
    end_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTiming:
    """Simulated time of one training step.

    Attributes:
        seconds: The whole step in steady state.
        compute_seconds: The grid at work, all micro-batches, changes of kernel included.
        injection_seconds: The weights' time on the link, all micro-batches.
        reduction_seconds: The gradients' time on the link and through the tree.
        update_seconds: MemoryX at work.
        input_seconds: Preparing one system's share of the batch; 0 where packed data are read.
        exposed_seconds: Part of the step in which the wafer waits at the iteration boundary.
        bound: What limits the step.
        micro_batch: Samples in one pass of one system.
        num_micro_batches: Passes per step.
        batch_size: Global batch.
        layers: One micro-batch, layer step by layer step.
        memory: Wafer memory of one micro-batch.
        utilization: Dense multiply-adds done over those possible, all systems.
    """

    seconds: float
    compute_seconds: float
    injection_seconds: float
    reduction_seconds: float
    update_seconds: float
    input_seconds: float
    exposed_seconds: float
    bound: Bound
    micro_batch: int
    num_micro_batches: int
    batch_size: int
    num_systems: int
    layers: tuple[LayerTiming, ...]
    memory: MemoryUse
    utilization: float

    @property
    def samples_per_second(self) -> float:
        """Simulated throughput of all systems."""
        return self.batch_size / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPipeline:
    """Who prepares the samples of one system.

    Attributes:
        num_workers: Input workers for each system (the client's `num_workers_per_csx`).
    """

    num_workers: int = 1


def step_timing(
    program: StepProgram,
    *,
    machine: Machine,
    batch_size: int,
    num_systems: int = 1,
    micro_batch: int | None = None,
    calibration: Calibration = DEFAULT_CALIBRATION,
    inputs: InputPipeline | None = None,
) -> StepTiming:
    """Return the simulated time of one training step.

    Args:
        program: The step, for one sample.
        machine: What each system is.
        batch_size: Global batch, at least one sample for each system.
        num_systems: Systems that share it.
        micro_batch: Samples per pass on each system; the faster choice that fits if None.
        calibration: Costs of the software.
        inputs: Input workers; one for each system if None.

    Raises:
        UserError: The batch is smaller than the systems, or a pass does not fit.
    """
    if num_systems < 1 or batch_size < num_systems:
        raise UserError(
            f"{program.name}: a batch of {batch_size} cannot be shared by {num_systems} systems.",
            hint="Use at least one sample for each system.",
        )
    share = math.ceil(batch_size / num_systems)
    if micro_batch is None:
        micros = micro_batch_choices(program, machine, share)
    else:
        micros = (checked_micro_batch(program, machine, share, micro_batch),)
    timings = [
        decided_step_timing(
            program,
            machine=machine,
            batch_size=batch_size,
            num_systems=num_systems,
            micro_batch=micro,
            calibration=calibration,
            inputs=inputs,
        )
        for micro in micros
    ]
    return min(timings, key=lambda timing: timing.seconds)


def decided_step_timing(
    program: StepProgram,
    *,
    machine: Machine,
    batch_size: int,
    num_systems: int,
    micro_batch: int,
    calibration: Calibration = DEFAULT_CALIBRATION,
    inputs: InputPipeline | None = None,
) -> StepTiming:
    """Return the time of a step whose micro-batch somebody has decided on, whether it fits or not.

    See `step_timing`. A compiled plan comes with its micro-batch; passes are made equally large.
    """
    share = math.ceil(batch_size / num_systems)
    passes = math.ceil(share / micro_batch)
    micro = math.ceil(share / passes)
    delay = straggler_factor(num_systems)
    one = _micro_batch(program, machine, micro, calibration, delay)
    tree = tree_seconds(num_systems, machine) if program.trained_parameters else 0.0
    end = float(one.end[-1])
    step_end = _boundary_end(program, one, machine, tree)
    totals = {
        Bound.COMPUTE: passes * float(one.busy.sum()),
        Bound.INJECTION: passes * float(one.injection.sum()),
        Bound.REDUCTION: passes * float(one.drain.sum()) + tree,
        Bound.UPDATE: program.trained_parameters
        * program.updated_share
        * UPDATE_BYTES
        / machine.memoryx_bytes_per_second,
        Bound.INPUT: _input_seconds(
            program, share, machine, calibration, inputs or InputPipeline()
        ),
    }
    seconds = max((passes - 1) * end + step_end, *totals.values())
    flops = 2.0 * float((program.table.macs() * program.table.density).sum()) * batch_size
    return StepTiming(
        seconds=seconds,
        compute_seconds=totals[Bound.COMPUTE],
        injection_seconds=totals[Bound.INJECTION],
        reduction_seconds=totals[Bound.REDUCTION],
        update_seconds=totals[Bound.UPDATE],
        input_seconds=totals[Bound.INPUT],
        exposed_seconds=step_end - end,
        bound=max(totals, key=lambda bound: totals[bound]),
        micro_batch=micro,
        num_micro_batches=passes,
        batch_size=batch_size,
        num_systems=num_systems,
        layers=one.layer_timings(program.layers),
        memory=memory_use(program, machine, micro),
        utilization=flops / (seconds * num_systems * machine.dense_flops),
    )


def straggler_factor(num_systems: int) -> float:
    """Return how much longer the slowest of N systems takes than the mean one (Blom 1958)."""
    if num_systems == 1:
        return 1.0
    quantile = (num_systems - 0.375) / (num_systems + 0.25)
    return 1.0 + STRAGGLER_DEVIATION * NormalDist().inv_cdf(quantile)


def layer_compute_seconds(
    table: OperationTable, num_layers: int, machine: Machine, calibration: Calibration
) -> NDArray[np.float64]:
    """Return the seconds on the grid of each layer step, from its operations."""
    cycles = operation_cycles(table, machine, calibration)
    per_layer = np.bincount(table.layer_step, weights=cycles, minlength=num_layers)
    return np.asarray(per_layer / machine.clock_hertz)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MicroBatch:
    """Timeline of one micro-batch; seconds, one entry for each layer step."""

    compute: NDArray[np.float64]
    injection: NDArray[np.float64]
    drain: NDArray[np.float64]
    activation: NDArray[np.float64]
    busy: NDArray[np.float64]
    start: NDArray[np.float64]
    end: NDArray[np.float64]

    def layer_timings(self, layers: tuple[LayerTraffic, ...]) -> tuple[LayerTiming, ...]:
        columns = (
            self.compute,
            self.injection,
            self.drain,
            self.activation,
            self.start,
            self.end,
        )
        rows = np.stack(columns, axis=1).tolist()
        return tuple(
            LayerTiming(
                name=layer.name,
                module=layer.module,
                is_backward=layer.is_backward,
                compute_seconds=row[0],
                injection_seconds=row[1],
                drain_seconds=row[2],
                activation_seconds=row[3],
                start_seconds=row[4],
                end_seconds=row[5],
            )
            for layer, row in zip(layers, rows, strict=True)
        )


def _micro_batch(
    program: StepProgram,
    machine: Machine,
    micro: int,
    calibration: Calibration,
    delay: float,
) -> _MicroBatch:
    layers = program.layers
    table = program.table.for_batch(micro)
    compute = layer_compute_seconds(table, len(layers), machine, calibration) * delay
    weights = np.array([layer.weight_elements for layer in layers])
    density = np.array([layer.density for layer in layers])
    dense_or_sparse = np.minimum(WEIGHT_BYTES, (WEIGHT_BYTES + INDEX_BYTES) * density)
    gradients = np.array([layer.gradient_elements * layer.gradient_density for layer in layers])
    spilled = memory_use(program, machine, micro).spills
    boundary = np.array([layer.activation_bytes for layer in layers]) * micro * spilled
    rate = machine.io_bytes_per_second
    injection = weights * dense_or_sparse / rate
    drain = gradients * GRADIENT_BYTES / rate
    activation = boundary / rate
    busy = compute + calibration.layer_step_seconds
    start, end = _pipeline(np.maximum(busy, activation), injection, drain)
    return _MicroBatch(
        compute=compute,
        injection=injection,
        drain=drain,
        activation=activation,
        busy=busy,
        start=start,
        end=end,
    )


def _pipeline(
    busy: NDArray[np.float64], injection: NDArray[np.float64], drain: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return start and end of each layer step; the first one's weights are there at time 0."""
    starts, ends = [], []
    arrived = finished = drained = previous_start = 0.0
    rows = zip(busy.tolist(), injection.tolist(), drain.tolist(), strict=True)
    for index, (work, inject, leave) in enumerate(rows):
        arrived = max(arrived, previous_start) + (inject if index else 0.0)
        start = max(finished, arrived)
        # One gradient may still be leaving while the next is computed; a second must wait.
        finished = max(start + work, drained)
        drained = max(drained, finished) + leave
        previous_start = start
        starts.append(start)
        ends.append(finished)
    return np.array(starts), np.array(ends)


def _boundary_end(program: StepProgram, one: _MicroBatch, machine: Machine, tree: float) -> float:
    """Return when the last pass ends so that the next step never waits for a weight."""
    forward = {
        layer.module: index
        for index, layer in reversed(list(enumerate(program.layers)))
        if not layer.is_backward
    }
    drained = np.maximum.accumulate(one.end + one.drain)
    summed_last = float(drained[-1]) + tree
    updated, step_end = 0.0, float(one.end[-1])
    for index, layer in enumerate(program.layers):
        if not layer.gradient_elements:
            continue
        ready = summed_last if program.waits_for_norm else float(drained[index]) + tree
        elements = layer.gradient_elements * layer.gradient_density
        work = elements * UPDATE_BYTES / machine.memoryx_bytes_per_second
        updated = max(updated, ready) + work
        first_use = forward.get(layer.module, 0)
        needed = updated + float(one.injection[first_use]) - float(one.start[first_use])
        step_end = max(step_end, needed)
    return step_end


def tree_seconds(num_systems: int, machine: Machine) -> float:
    """Return the latency of the SwarmX tree over so many systems."""
    levels = math.ceil(math.log(num_systems, machine.swarmx_fan_in) - 1e-9)
    return (levels + 1) * machine.swarmx_hop_seconds


def _input_seconds(
    program: StepProgram,
    share: int,
    machine: Machine,
    calibration: Calibration,
    inputs: InputPipeline,
) -> float:
    if not program.is_prepared_singly:
        return 0.0
    one_worker = calibration.samples_prepared_per_second * machine.node_speed
    return share / (one_worker * inputs.num_workers)
