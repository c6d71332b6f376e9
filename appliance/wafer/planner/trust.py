"""How far an estimate of the planner may be trusted: what was measured, and how far off it was.

Each logged model was predicted by a calibration that had seen none of its logs
(`benchmarks.wafer_model.fitting.left_out_errors`). The interval of an estimate is what its
throughput would be if the model erred as it did for the worst of these logs, on the same wafer and
to either side. For what lies outside of the measured programs nothing is known; the interval is
then twice as wide on a logarithmic scale, which is an assumption.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from appliance.core.plans.plan import Execution
from appliance.core.quantities import count
from appliance.wafer.hardware import Machine
from appliance.wafer.timing.layer_timing import StepTiming
from appliance.wafer.timing.step_program import StepProgram

WORST_ERRORS: Mapping[str, tuple[float, float]] = {
    "WSE-2": (-0.291, 0.132),
    "WSE-3": (-0.498, 0.576),
}
"""By wafer: least and greatest relative error of throughput, over all logs with their model left
out; a benchmark computes them again."""
MEASURED_PARAMETERS = (33e6, 8.1e9)
MEASURED_SEQUENCES = (128, 2048)
MEASURED_SYSTEMS = 2
_BEYOND = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """How far an estimate may be trusted.

    Attributes:
        low_samples_per_second: Lower end of the interval, of all systems.
        high_samples_per_second: Its upper end.
        outside: What of the estimate was never measured, in words; empty where like was measured.
    """

    low_samples_per_second: float
    high_samples_per_second: float
    outside: tuple[str, ...]


def trust(program: StepProgram, step: StepTiming, machine: Machine, execution: Execution) -> Trust:
    """Return the interval of an estimate, and what of it lies outside of what was measured.

    Args:
        program: The step, for one sample.
        step: As estimated.
        machine: What each system is.
        execution: How the wafer is used.
    """
    outside = tuple(_outside(program, step.num_systems, execution))
    least, greatest = WORST_ERRORS[machine.wafer]
    power = _BEYOND if outside else 1
    return Trust(
        low_samples_per_second=step.samples_per_second / (1 + greatest) ** power,
        high_samples_per_second=step.samples_per_second / (1 + least) ** power,
        outside=outside,
    )


def _outside(program: StepProgram, num_systems: int, execution: Execution) -> list[str]:
    found = []
    low, high = MEASURED_PARAMETERS
    if not low <= program.num_parameters <= high:
        found.append(f"{count(program.num_parameters)} parameters ({count(low)} to {count(high)})")
    short, long = MEASURED_SEQUENCES
    if not short <= program.tokens_per_sample <= long:
        found.append(f"{program.tokens_per_sample:g} tokens a sample ({short} to {long})")
    if num_systems > MEASURED_SYSTEMS:
        found.append(f"{num_systems} systems (1 and {MEASURED_SYSTEMS})")
    if program.is_sparse or program.updated_share < 1:
        found.append("sparse weights (dense)")
    if program.num_trained is not None:
        what = "frozen weights" if program.num_trained else "an evaluation"
        found.append(f"{what} (training of all weights)")
    if execution is Execution.PIPELINED:
        found.append("pipelined execution (weight streaming)")
    return found
