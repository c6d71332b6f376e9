"""An estimate as a document: what `csctl estimate -o json` and REST answer with.

Flat where people and scripts look first, and without the layer steps, of which there may be
thousands. Every time is simulated, and the names say so.
"""

from dataclasses import dataclass

from appliance.wafer.planner.phases import PhaseTimes
from appliance.wafer.planner.planner import Estimate, ScalingPoint
from appliance.wafer.planner.scaling_law import LossPoint, MupAdvice, loss_curve


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReport:
    """Bytes on the wafer of one system, for one micro-batch.

    Attributes:
        working_bytes: Activations of the widest layer step.
        boundary_bytes: What waits for the backward pass.
        capacity_bytes: Memory of the PEs that a program can use.
        bytes_per_pe: Of one PE, code and buffers included.
        pe_capacity_bytes: Memory of one PE.
        weight_bytes: Weights, gradients and optimizer state; 0 in weight streaming.
        spills: Whether what waits for the backward pass leaves the wafer.
    """

    working_bytes: float
    boundary_bytes: float
    weight_bytes: float
    capacity_bytes: float
    bytes_per_pe: float
    pe_capacity_bytes: float
    spills: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TermsReport:
    """Where a step's simulated seconds go; the terms overlap, the largest one is the bound."""

    compute_seconds: float
    injection_seconds: float
    reduction_seconds: float
    update_seconds: float
    input_seconds: float
    exposed_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PointReport:
    """One entry of a scaling curve."""

    systems: int
    batch_size: int
    simulated_step_seconds: float
    simulated_samples_per_second: float
    simulated_speedup: float
    bound: str

    @classmethod
    def of(cls, point: ScalingPoint) -> "PointReport":
        """Return a point of a curve."""
        return cls(
            systems=point.num_systems,
            batch_size=point.batch_size,
            simulated_step_seconds=point.timing.seconds,
            simulated_samples_per_second=point.timing.samples_per_second,
            simulated_speedup=point.speedup,
            bound=point.timing.bound.value,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateReport:
    """What a number of systems would do with a model.

    Attributes:
        model: Its name.
        machine: What each system is.
        execution: `weight-streaming` or `pipelined`.
        systems: How many.
        batch_size: Global batch.
        micro_batch: Samples in one pass of one system.
        num_micro_batches: Passes per step.
        simulated_samples_per_second: Of all systems.
        simulated_samples_per_second_low: Lower end of its interval: had the model erred as it did
            for the worst log of a model that it was not fitted to.
        simulated_samples_per_second_high: Its upper end.
        outside_of_measured: What of this estimate was never measured, and in parentheses what was.
        simulated_tokens_per_second: Of all systems.
        simulated_utilization: Dense multiply-adds done over those possible.
        bound: What limits the step: compute, injection, reduction, update or input.
        simulated_terms: Where the step's time goes.
        memory: On the wafer.
        num_parameters: Trainable elements.
        memoryx_bytes: Parameter store needed.
        tokens: Training tokens that days, energy and loss are for.
        simulated_days: Training time without staging and checkpoints.
        simulated_energy_kwh: Of the systems alone.
        training_flops: Floating-point operations of the whole training; of a described decoder
            as the Cerebras-GPT paper counts them, else two for each multiply-add.
        expected_loss: Pile test loss if this compute were spent compute-optimally; null for a
            program, whose family is unknown, and for models other than decoders.
        loss_curve: The scaling law around this compute; empty where there is no expected loss.
        mup: Hyper-parameter advice; null for a program.
        simulated_phases_seconds: Times around the steps.
        weak_scaling: The batch grows with the systems.
        strong_scaling: The batch stays.
    """

    model: str
    machine: str
    execution: str
    systems: int
    batch_size: int
    micro_batch: int
    num_micro_batches: int
    simulated_step_seconds: float
    simulated_samples_per_second: float
    simulated_samples_per_second_low: float
    simulated_samples_per_second_high: float
    outside_of_measured: tuple[str, ...]
    simulated_tokens_per_second: float
    simulated_utilization: float
    bound: str
    simulated_terms: TermsReport
    memory: MemoryReport
    num_parameters: float
    memoryx_bytes: float
    tokens: float
    simulated_days: float
    simulated_energy_kwh: float
    training_flops: float
    expected_loss: float | None
    loss_curve: tuple[LossPoint, ...]
    mup: MupAdvice | None
    simulated_phases_seconds: PhaseTimes
    weak_scaling: tuple[PointReport, ...]
    strong_scaling: tuple[PointReport, ...]


def report(estimate: Estimate) -> EstimateReport:
    """Return the document of an estimate."""
    step = estimate.step
    return EstimateReport(
        model=estimate.name,
        machine=estimate.machine,
        execution=estimate.execution.value,
        systems=step.num_systems,
        batch_size=step.batch_size,
        micro_batch=step.micro_batch,
        num_micro_batches=step.num_micro_batches,
        simulated_step_seconds=step.seconds,
        simulated_samples_per_second=step.samples_per_second,
        simulated_samples_per_second_low=estimate.trust.low_samples_per_second,
        simulated_samples_per_second_high=estimate.trust.high_samples_per_second,
        outside_of_measured=estimate.trust.outside,
        simulated_tokens_per_second=estimate.tokens_per_second,
        simulated_utilization=step.utilization,
        bound=step.bound.value,
        simulated_terms=_terms(estimate),
        memory=_memory(estimate),
        num_parameters=estimate.num_parameters,
        memoryx_bytes=estimate.memoryx_bytes,
        tokens=estimate.tokens,
        simulated_days=estimate.days,
        simulated_energy_kwh=estimate.energy_kwh,
        training_flops=estimate.flops,
        expected_loss=estimate.loss,
        loss_curve=() if estimate.loss is None else loss_curve(estimate.flops),
        mup=estimate.mup,
        simulated_phases_seconds=estimate.phases,
        weak_scaling=tuple(map(PointReport.of, estimate.weak_scaling)),
        strong_scaling=tuple(map(PointReport.of, estimate.strong_scaling)),
    )


def _terms(estimate: Estimate) -> TermsReport:
    step = estimate.step
    return TermsReport(
        compute_seconds=step.compute_seconds,
        injection_seconds=step.injection_seconds,
        reduction_seconds=step.reduction_seconds,
        update_seconds=step.update_seconds,
        input_seconds=step.input_seconds,
        exposed_seconds=step.exposed_seconds,
    )


def _memory(estimate: Estimate) -> MemoryReport:
    memory = estimate.step.memory
    return MemoryReport(
        working_bytes=memory.working_bytes,
        boundary_bytes=memory.boundary_bytes,
        weight_bytes=memory.weight_bytes,
        capacity_bytes=memory.capacity_bytes,
        bytes_per_pe=memory.bytes_per_pe,
        pe_capacity_bytes=memory.pe_capacity_bytes,
        spills=memory.spills,
    )
