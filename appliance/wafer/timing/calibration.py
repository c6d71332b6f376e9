"""What the software on the wafer costs: few numbers, and which measurements gave them.

The structure of the model is physics (`kernels`); five numbers are not published and are fitted to
throughput logs. `benchmarks.wafer_model.logs` holds the rows and `fitting` the procedure; the
values here are its result over all rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from appliance.wafer.hardware import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Costs of the wafer's software.

    Attributes:
        dispatch_cycles: By wafer: clock cycles to start one vector instruction when
            a weight arrives.
        multiply_adds_per_cycle: Most multiply-adds of one PE in a clock cycle. Of 16 bits the
            arithmetic has room for 4 (WSE-2) and 8 (WSE-3); operands that share memory banks keep
            both below it.
        layer_step_seconds: Exposed time between two layer steps: kernels change, buffers drain,
            the command goes to all PEs.
        samples_prepared_per_second: Samples one input worker of the CS-2 cluster prepares per
            second where it prepares each by itself (`StepProgram.is_prepared_singly`).
    """

    dispatch_cycles: Mapping[str, float] = field(hash=False)
    multiply_adds_per_cycle: float
    layer_step_seconds: float
    samples_prepared_per_second: float

    def __post_init__(self) -> None:
        for wafer, cycles in self.dispatch_cycles.items():
            if cycles < 0:
                raise ValueError(f"calibration dispatch_cycles of {wafer} is {cycles}, below 0")
        if self.layer_step_seconds < 0:
            raise ValueError(f"calibration layer_step_seconds is {self.layer_step_seconds}")
        for name in ("multiply_adds_per_cycle", "samples_prepared_per_second"):
            if getattr(self, name) <= 0:
                raise ValueError(f"calibration {name} is {getattr(self, name)}, not above 0")

    def dispatch(self, machine: Machine) -> float:
        """Return the clock cycles of a dispatch on a machine."""
        return self.dispatch_cycles[machine.wafer]


DEFAULT_CALIBRATION = Calibration(
    dispatch_cycles={"WSE-2": 36.90, "WSE-3": 6.48},
    multiply_adds_per_cycle=2.907,
    layer_step_seconds=146.3e-6,
    samples_prepared_per_second=605.5,
)
"""Result of `fitting.fit` over all rows; a test fits again and compares."""
