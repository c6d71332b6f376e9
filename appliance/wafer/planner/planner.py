"""What N systems would do with a model, before anything is bought or queued.

Pure: a description in, numbers out; commands and the REST interface only print them. All times are
simulated.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from appliance.core.errors import UserError
from appliance.core.plans.plan import Execution
from appliance.wafer.hardware import Machine
from appliance.wafer.planner.phases import PhaseTimes, phase_times
from appliance.wafer.planner.scaling_law import (
    MupAdvice,
    compute_optimal_loss,
    compute_optimal_tokens,
    mup_advice,
    training_flops_per_token,
)
from appliance.wafer.planner.transformer import Transformer
from appliance.wafer.planner.transformer_program import transformer_program
from appliance.wafer.planner.trust import Trust, trust
from appliance.wafer.timing.calibration import DEFAULT_CALIBRATION, Calibration
from appliance.wafer.timing.layer_timing import InputPipeline, StepTiming, step_timing
from appliance.wafer.timing.pipelined import checked_pipelined_timing, resident_need
from appliance.wafer.timing.sample_memory import (
    free_bytes,
    largest_micro_batch,
    micro_batch_choices,
)
from appliance.wafer.timing.step_program import StepProgram

MEMORYX_BYTES_PER_PARAMETER = 20.0
"""2.4 PB hold 120 T parameters (data sheet): weight, gradient, two moments and room."""
MEMORYX_BYTES_PER_PLACE = 2.0
"""Of a parameter that is kept alone, without the zeros around it: its column (assumed)."""
FROZEN_BYTES_PER_PARAMETER = 4.0
"""Of a weight that is not trained: itself (assumed)."""
STEPS_OF_A_FINE_TUNING = 1000
"""What `days` is for where nobody says and not all weights are trained: an arbitrary number."""
_SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """One entry of a scaling curve.

    Attributes:
        batch_size: Global batch.
        speedup: Samples per second over those of one system.
    """

    num_systems: int
    batch_size: int
    timing: StepTiming
    speedup: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The planner's answer.

    Attributes:
        name: Of the model.
        machine: Name of the machine.
        execution: How the wafer is used.
        step: The step on the systems asked for.
        trust: How far its throughput may be trusted.
        tokens_per_second: Of all systems.
        num_parameters: Elements of all weights.
        tokens: Tokens that `days` and `energy_kwh` are for.
        days: Simulated training time, without staging and checkpoints.
        energy_kwh: Of the systems alone; MemoryX, SwarmX and CPU nodes not included.
        memoryx_bytes: Parameter store needed.
        flops: Floating-point operations of the whole training; of a described decoder as the
            scaling law counts them, else two for each multiply-add.
        loss: Expected loss if the model were trained compute-optimally with this compute; None for
            a program, whose family is unknown, and for what is no decoder.
        mup: Hyper-parameter advice; None for a program.
        phases: Times around the steps.
        weak_scaling: Batch grows with the systems.
        strong_scaling: Batch stays; ends where a system would get less than a sample.
    """

    name: str
    machine: str
    execution: Execution
    step: StepTiming
    trust: Trust
    tokens_per_second: float
    num_parameters: float
    tokens: float
    days: float
    energy_kwh: float
    memoryx_bytes: float
    flops: float
    loss: float | None
    mup: MupAdvice | None
    phases: PhaseTimes
    weak_scaling: tuple[ScalingPoint, ...]
    strong_scaling: tuple[ScalingPoint, ...]


def estimate(
    model: Transformer | StepProgram,
    *,
    machine: Machine,
    num_systems: int = 1,
    batch_size: int | None = None,
    micro_batch: int | None = None,
    tokens: float | None = None,
    calibration: Calibration = DEFAULT_CALIBRATION,
    inputs: InputPipeline | None = None,
    execution: Execution | None = Execution.WEIGHT_STREAMING,
) -> Estimate:
    """Return what a number of systems would do with a model.

    Args:
        model: A description, or the step program of a compiled plan.
        machine: What each system is.
        num_systems: How many; beyond the 192 that SwarmX is sold for is allowed.
        batch_size: Global batch; what fills every system's memory once if None.
        micro_batch: Samples per pass and system; chosen if None.
        tokens: To train on; 20 per parameter if None, a thousand steps where not all is trained.
        calibration: Costs of the software.
        inputs: Input workers.
        execution: How the wafer is used; None takes pipelined where that fits.

    Raises:
        UserError: The batch or the systems make no sense, or the model does not fit.
    """
    program = transformer_program(model) if isinstance(model, Transformer) else model
    if num_systems < 1:
        raise UserError(
            f"{program.name}: {num_systems} systems were asked for, at least 1 is needed."
        )
    batch = batch_size if batch_size is not None else _filling_batch(program, machine, num_systems)
    chosen = execution or _fitting_execution(program, machine, -(-batch // num_systems))
    is_all_trained = program.num_trained is None
    if chosen is Execution.PIPELINED and not is_all_trained:
        raise UserError(
            f"{program.name}: pipelined execution is estimated for training of all weights only.",
            hint="Ask for weight-streaming.",
        )

    time = functools.partial(
        _timing,
        program,
        chosen,
        machine=machine,
        micro_batch=micro_batch,
        calibration=calibration,
        inputs=inputs,
    )
    step = time(num_systems, batch)
    share = math.ceil(batch / num_systems)
    counts = curve_counts(num_systems)
    weak = _curve([(count, time(count, share * count)) for count in counts])
    strong = _curve([(count, time(count, batch)) for count in counts if count <= batch])
    total = tokens if tokens is not None else _usual_tokens(program, batch)
    rate = step.samples_per_second * program.tokens_per_sample
    seconds = total / rate
    is_of_family = isinstance(model, Transformer) and model.is_decoder and is_all_trained
    flops = _flops(model, program) * total
    return Estimate(
        name=program.name,
        machine=machine.name,
        execution=chosen,
        step=step,
        trust=trust(program, step, machine, chosen),
        tokens_per_second=rate,
        num_parameters=program.num_parameters,
        tokens=total,
        days=seconds / _SECONDS_PER_DAY,
        energy_kwh=num_systems * machine.power_watts * seconds / 3.6e6,
        memoryx_bytes=_memoryx_bytes(program),
        flops=flops,
        loss=compute_optimal_loss(flops) if is_of_family else None,
        mup=_mup(model) if is_all_trained else None,
        phases=phase_times(program.num_parameters, machine),
        weak_scaling=weak,
        strong_scaling=strong,
    )


def _timing(
    program: StepProgram,
    execution: Execution,
    num_systems: int,
    batch_size: int,
    *,
    machine: Machine,
    micro_batch: int | None,
    calibration: Calibration,
    inputs: InputPipeline | None,
) -> StepTiming:
    """Return the step of so many systems on a batch of so many samples."""
    if execution is Execution.PIPELINED:
        return checked_pipelined_timing(
            program, machine=machine, batch_size=batch_size, num_systems=num_systems
        )
    return step_timing(
        program,
        machine=machine,
        batch_size=batch_size,
        num_systems=num_systems,
        micro_batch=micro_batch,
        calibration=calibration,
        inputs=inputs,
    )


def curve_counts(num_systems: int) -> tuple[int, ...]:
    """Return the system counts of a scaling curve: powers of two up to the number, and itself."""
    powers = [2**power for power in range(num_systems.bit_length()) if 2**power < num_systems]
    return (*powers, num_systems)


def _memoryx_bytes(program: StepProgram) -> float:
    """Return what MemoryX keeps: of sparse weights what is not zero, of frozen ones themselves."""
    updated = program.updated_share
    sparse = updated * (MEMORYX_BYTES_PER_PARAMETER + MEMORYX_BYTES_PER_PLACE)
    trained = program.trained_parameters
    frozen = program.num_parameters if program.num_trained is not None else 0.0
    each = min(MEMORYX_BYTES_PER_PARAMETER, sparse)
    return trained * each + frozen * FROZEN_BYTES_PER_PARAMETER


def _usual_tokens(program: StepProgram, batch: int) -> float:
    if program.num_trained is None:
        return compute_optimal_tokens(program.num_parameters)
    return float(STEPS_OF_A_FINE_TUNING * batch * program.tokens_per_sample)


def _mup(model: Transformer | StepProgram) -> MupAdvice | None:
    if not isinstance(model, Transformer):
        return None
    return mup_advice(model.hidden, model.attention_width // model.heads)


def _flops(model: Transformer | StepProgram, program: StepProgram) -> float:
    """Return the floating-point operations for each token of the training."""
    if isinstance(model, Transformer) and model.is_decoder and model.is_all_trained:
        return training_flops_per_token(model)
    return 2.0 * float(program.table.macs().sum()) / program.tokens_per_sample


def _fitting_execution(program: StepProgram, machine: Machine, share: int) -> Execution:
    fits = resident_need(program, share).num_bytes <= free_bytes(machine)
    if fits and program.num_segments == 1 and program.num_trained is None:
        return Execution.PIPELINED
    return Execution.WEIGHT_STREAMING


def _filling_batch(program: StepProgram, machine: Machine, num_systems: int) -> int:
    micro_batch_choices(program, machine, 1)  # refuses what does not fit at all
    return largest_micro_batch(program, machine) * num_systems


def _curve(points: Sequence[tuple[int, StepTiming]]) -> tuple[ScalingPoint, ...]:
    first = points[0][1].samples_per_second
    return tuple(
        ScalingPoint(
            num_systems=count,
            batch_size=timing.batch_size,
            timing=timing,
            speedup=timing.samples_per_second / first,
        )
        for count, timing in points
    )
