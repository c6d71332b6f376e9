"""What one micro-batch needs of the wafer's memory, and how many samples therefore fit.

One layer step is on the wafer at a time, so the activations of its widest point decide. What only
waits for the backward pass (the boundaries between layers) stays if there is room and is otherwise
streamed out and in again beside the computation: the published micro-batch table forces that
reading, since its sizes keep tokens x hidden size constant whatever the depth. That table also
settled which features are counted and the two sizes below. Tensors are laid out with rotated
offsets, so PEs fill evenly and the mean PE stands for all.
"""

from dataclasses import dataclass

from appliance.core.errors import UserError
from appliance.wafer.hardware import Machine
from appliance.wafer.timing.step_program import StepProgram

CODE_BYTES = 3 * 1024
"""Kernels, descriptors and stack of one PE. Assumption: the SDK's larger examples."""
BUFFER_BYTES = 2 * 1024
"""Two weight buffers, partial sums in flight and queues of one PE. Assumption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Bytes of one micro-batch on one system.

    Attributes:
        working_bytes: Activations of the widest layer step, constants included.
        boundary_bytes: What waits for the backward pass.
        overhead_bytes: Code and buffers of all PEs.
        capacity_bytes: Memory of all PEs that a program can use.
        bytes_per_pe: Of one PE, code and buffers included.
        pe_capacity_bytes: Memory of one PE.
        spills: Whether the boundaries leave the wafer.
        weight_bytes: Weights, gradients and optimizer state; 0 in weight streaming.
    """

    working_bytes: float
    boundary_bytes: float
    overhead_bytes: float
    capacity_bytes: float
    bytes_per_pe: float
    pe_capacity_bytes: float
    spills: bool
    weight_bytes: float = 0.0

    @property
    def fits(self) -> bool:
        """Whether the widest layer step fits beside code and buffers."""
        return self.bytes_per_pe <= self.pe_capacity_bytes


def free_bytes(machine: Machine) -> int:
    """Return what code and buffers leave for activations; 0 if they fill the PEs."""
    free = machine.sram_bytes_per_pe - CODE_BYTES - BUFFER_BYTES
    return machine.num_grid_pes * max(0, free)


def memory_use(program: StepProgram, machine: Machine, micro_batch: int) -> MemoryUse:
    """Return the memory that a micro-batch needs.

    Args:
        program: The step, for one sample.
        machine: The wafer.
        micro_batch: Samples.
    """
    overhead = float(machine.num_grid_pes * (CODE_BYTES + BUFFER_BYTES))
    working = need_bytes(program, micro_batch)
    boundary = program.boundary_bytes_per_sample * micro_batch
    spills = working + boundary + overhead > machine.sram_bytes
    resident = working if spills else working + boundary
    return MemoryUse(
        working_bytes=working,
        boundary_bytes=boundary,
        overhead_bytes=overhead,
        capacity_bytes=float(machine.sram_bytes),
        bytes_per_pe=(resident + overhead) / machine.num_grid_pes,
        pe_capacity_bytes=float(machine.sram_bytes_per_pe),
        spills=spills,
    )


def largest_micro_batch(program: StepProgram, machine: Machine) -> int:
    """Return the most samples that fit; 0 if not even one does."""
    return samples_that_fit(program, free_bytes(machine))


def samples_that_fit(program: StepProgram, wafer_bytes: int) -> int:
    """Return how many samples can be computed at a time with so much memory; 0 if not even one."""
    free = wafer_bytes - program.fixed_bytes
    return max(0, int(free // program.working_bytes_per_sample))


def need_bytes(program: StepProgram, samples: int) -> float:
    """Return the memory for a number of samples at a time."""
    return program.working_bytes_per_sample * samples + program.fixed_bytes


def micro_batch_choices(program: StepProgram, machine: Machine, share: int) -> tuple[int, ...]:
    """Return the micro-batches worth timing for one system's share, the largest first.

    One makes as few equal passes as the memory allows; the other, if there is one, as few as keep
    the boundary activations on the wafer. Fewer passes amortise the dispatch of weights better, but
    moving what spilled can cost more than that.

    Args:
        program: The step, for one sample.
        machine: The wafer.
        share: Samples of one system.

    Raises:
        UserError: Not even one sample fits; the message names the largest tensor.
    """
    most = largest_micro_batch(program, machine)
    if most < 1:
        raise _batch_does_not_fit(program, machine, 1)
    whole = program.working_bytes_per_sample + program.boundary_bytes_per_sample
    resident = int((free_bytes(machine) - program.fixed_bytes) // whole)
    limits = (most, resident) if resident else (most,)
    passes = {-(-share // limit) for limit in limits}
    return tuple(-(-share // count) for count in sorted(passes))


def checked_micro_batch(program: StepProgram, machine: Machine, share: int, wanted: int) -> int:
    """Return the micro-batch a user wants, at most the share.

    Raises:
        UserError: It is not positive, or does not fit; the message names the largest tensor.
    """
    if wanted < 1:
        raise UserError(f"{program.name}: a micro-batch of {wanted} samples is not possible.")
    micro = min(wanted, share)
    if micro > largest_micro_batch(program, machine):
        raise _batch_does_not_fit(program, machine, micro)
    return micro


def _batch_does_not_fit(program: StepProgram, machine: Machine, samples: int) -> UserError:
    name, size = program.largest
    need = need_bytes(program, samples)
    most = largest_micro_batch(program, machine)
    return UserError(
        f"{program.name}: a pass of {samples} samples needs {need:,.0f} bytes of wafer memory, "
        f"{machine.name} has {free_bytes(machine):,} free; the largest tensor is {name} with "
        f"{size * samples:,.0f} bytes.",
        hint=f"Use a micro-batch of at most {most}."
        if most
        else "Lower the sequence length or the hidden size.",
    )
