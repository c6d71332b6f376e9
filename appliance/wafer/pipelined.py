"""Pipelined execution: all weights resident, layers side by side, samples flow through.

The second mode of the machine, for networks that fit on one wafer. Every layer step gets PEs in
proportion to its work, so all stages take equally long and one sample leaves per interval:

    interval = multiply-adds of a sample / (PEs * rate),   rate = n / (start + 2 n / width).

A PE holds a square tile of its layer's weights, n = sqrt(weights / PEs) on a side, and multiplies
row by row; a vector instruction costs its start and, because resident operands meet in the same
banks, twice its elements over the SIMD width, exactly as in `mesh_products`. No number is fitted,
but the form was chosen with the two logged runs in view (BERT-large MSL 128, releases 1.7 and 1.8).

Weights, gradients and optimizer state stay on the wafer, and each stage keeps a sample's
activations until its backward pass comes by, which decides whether a network fits.
"""

import math
from dataclasses import dataclass

from appliance.core.errors import UserError
from appliance.wafer.machine import Machine, VectorOp
from appliance.wafer.memory import BUFFER_BYTES, CODE_BYTES
from appliance.wafer.step_program import StepProgram

RESIDENT_BYTES_PER_PARAMETER = 18.0
"""16-bit weight, 32-bit weight, gradient and two moments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelinedTiming:
    """Simulated time of one pipelined training step on one system.

    Attributes:
        seconds: The whole step: batch and filling.
        interval_seconds: Between two samples.
        num_stages: Layer steps side by side.
        samples_per_second: Throughput.
        weight_bytes: Weights, gradients and optimizer state on the wafer.
        activation_bytes: Activations of all samples in flight.
        capacity_bytes: Memory for the two.
    """

    seconds: float
    interval_seconds: float
    num_stages: int
    samples_per_second: float
    weight_bytes: float
    activation_bytes: float
    capacity_bytes: float

    @property
    def fits(self) -> bool:
        """Whether the network can be pipelined on this wafer."""
        return self.weight_bytes + self.activation_bytes <= self.capacity_bytes


def pipelined_timing(program: StepProgram, *, machine: Machine, batch_size: int) -> PipelinedTiming:
    """Return the simulated time of one step; `fits` says whether it is possible.

    Args:
        program: The step, for one sample.
        machine: The wafer.
        batch_size: Samples per step.

    Raises:
        UserError: The batch is empty.
    """
    if batch_size < 1:
        raise UserError(f"{program.name}: a batch of {batch_size} samples cannot be trained.")
    num_pes = machine.num_grid_pes
    tile = max(1.0, math.sqrt(program.num_parameters / num_pes))
    width = machine.width(VectorOp.FMAC, 16)
    rate = tile / (machine.vector_start_cycles + 2 * tile / width)
    interval = machine.seconds(float(program.table.macs().sum()) / (num_pes * rate))
    stages = len(program.layers)
    seconds = (batch_size + stages) * interval
    in_flight = program.working_bytes_per_sample * stages / 2
    free = num_pes * (machine.sram_bytes_per_pe - CODE_BYTES - BUFFER_BYTES)
    return PipelinedTiming(
        seconds=seconds,
        interval_seconds=interval,
        num_stages=stages,
        samples_per_second=batch_size / seconds,
        weight_bytes=program.num_parameters * RESIDENT_BYTES_PER_PARAMETER,
        activation_bytes=in_flight * stages / 2,
        capacity_bytes=float(free),
    )
