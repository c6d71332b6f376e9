"""The simulated time of one system's share of a step, as each CS-2 worker reports it.

All systems wait for each other once a step, so the step lasts as long for each of them; what a
system does in it (compute, streams, utilisation) follows from its own share of the batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from appliance.core.ir.sharding import split_batch
from appliance.core.plans.micro_batches import num_micro_batches
from appliance.core.plans.plan import Execution, Plan
from appliance.wafer.hardware import Machine
from appliance.wafer.timing.layer_timing import LayerTiming, StepTiming, decided_step_timing
from appliance.wafer.timing.pipelined import pipelined_timing
from appliance.wafer.timing.program_operations import program_step
from appliance.wafer.timing.step_program import StepProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTiming:
    """What one system would do in a step; everything is simulated.

    Attributes:
        step_seconds: The step, of all systems together.
        samples: This system's share of the batch.
        utilization: Its dense multiply-adds over those possible.
        weight_bytes: Weights that stream in during a step, all micro-batches.
        gradient_bytes: Gradients that stream out during a step, all micro-batches.
        layers: Its layer steps, for one micro-batch.
    """

    step_seconds: float
    samples: int
    utilization: float
    weight_bytes: float
    gradient_bytes: float
    layers: tuple[LayerTiming, ...]

    @property
    def samples_per_second(self) -> float:
        """This system's part of the throughput."""
        return self.samples / self.step_seconds

    @property
    def weight_bytes_per_second(self) -> float:
        """Bandwidth of the weights coming in, averaged over the step."""
        return self.weight_bytes / self.step_seconds

    @property
    def gradient_bytes_per_second(self) -> float:
        """Bandwidth of the gradients leaving, averaged over the step."""
        return self.gradient_bytes / self.step_seconds


def plan_timing(
    plan: Plan,
    *,
    machine: Machine,
    num_systems: int,
    densities: Mapping[str, float] | None = None,
) -> StepTiming:
    """Return the simulated time of a plan's step on all its systems; see `system_timing`.

    Of a plan in pipelined execution too, for which `micro_batch` is a system's whole share.
    """
    share = split_batch(plan.batch_size, num_systems)[0].size
    program = program_step(plan, name=plan.key, densities=densities)
    return _share_timing(plan, program, machine, num_systems=num_systems, share=share)


def system_timing(
    plan: Plan,
    *,
    machine: Machine,
    num_systems: int,
    index: int,
    densities: Mapping[str, float] | None = None,
) -> SystemTiming:
    """Return what one system would do in a step of a plan, in the plan's micro-batches.

    Args:
        plan: A verified plan with at least one layer step.
        machine: What each system is.
        num_systems: Systems that share the batch.
        index: Number of the system.
        densities: Of sparse weights and their gradients; see `program_step`.
    """
    shares = split_batch(plan.batch_size, num_systems)
    share = shares[index].size
    program = program_step(plan, name=plan.key, densities=densities)
    whole = _share_timing(plan, program, machine, num_systems=num_systems, share=shares[0].size)
    own = whole
    if share * num_systems != whole.batch_size:
        own = _share_timing(plan, program, machine, num_systems=num_systems, share=share)
    streamed_bytes = own.num_micro_batches * machine.io_bytes_per_second
    return SystemTiming(
        step_seconds=whole.seconds,
        samples=share,
        utilization=own.utilization * own.seconds / whole.seconds,
        weight_bytes=streamed_bytes * sum(layer.injection_seconds for layer in own.layers),
        gradient_bytes=streamed_bytes * sum(layer.drain_seconds for layer in own.layers),
        layers=own.layers,
    )


def _share_timing(
    plan: Plan, program: StepProgram, machine: Machine, *, num_systems: int, share: int
) -> StepTiming:
    """Return the time of a step in which every system has a share of this size."""
    if plan.execution is Execution.PIPELINED:
        return pipelined_timing(
            program, machine=machine, batch_size=share * num_systems, num_systems=num_systems
        )
    return decided_step_timing(
        program,
        machine=machine,
        batch_size=share * num_systems,
        num_systems=num_systems,
        micro_batch=-(-share // num_micro_batches(plan, num_systems)),
    )
