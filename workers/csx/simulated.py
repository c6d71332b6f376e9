"""A CS-2's report of the time that a real wafer would have taken."""

from collections.abc import Mapping
from dataclasses import replace

from appliance.core.cluster.readings import (
    SIMULATED_GRADIENT_STREAM,
    SIMULATED_RATE,
    SIMULATED_STEP,
    SIMULATED_TOTAL,
    SIMULATED_UTILIZATION,
    SIMULATED_WEIGHT_STREAM,
)
from appliance.core.cluster.run import SimulatedStep
from appliance.core.plans.plan import Plan
from appliance.core.pods.pod_options import ChiefPodOptions
from appliance.core.pods.pod_spec import PodSpec
from appliance.wafer.hardware import parse_machine
from appliance.wafer.timing.system_timing import SystemTiming, system_timing


class SimulatedTime:
    """The simulated time of one session on one system.

    Args:
        timing: Of a step; None for a plan that has nothing to do on the wafer.
        pace: Wall seconds per simulated second; None sets no pace.
    """

    def __init__(self, timing: SystemTiming | None, pace: float | None) -> None:
        self._timing, self._pace = timing, pace

    @classmethod
    def of(cls, plan: Plan, spec: PodSpec, num_systems: int) -> "SimulatedTime":
        """Return the time of a plan on the system that a chief pod is.

        Raises:
            UserError: There is no such machine.
        """
        options = spec.options_of(ChiefPodOptions)
        timing = None
        if plan.layer_steps:
            timing = system_timing(
                plan,
                machine=parse_machine(options.machine),
                num_systems=num_systems,
                index=spec.index,
            )
            # Of its layers nothing is reported, and they would keep memory of the plan.
            timing = replace(timing, layers=())
        return cls(timing, options.pace or None)

    def told(self, step: SimulatedStep | None) -> "SimulatedTime":
        """Return the time once the coordinator has said what a step takes; itself if it has not."""
        if step is None or self._timing is None:
            return self
        timing = replace(
            self._timing,
            step_seconds=step.seconds,
            utilization=step.utilization,
            weight_bytes=step.weight_bytes,
            gradient_bytes=step.gradient_bytes,
        )
        return SimulatedTime(timing, self._pace)

    @property
    def paced_step_seconds(self) -> float:
        """Wall time that a step shall take; 0 without a pace."""
        if self._timing is None or self._pace is None:
            return 0.0
        return self._timing.step_seconds * self._pace

    def readings(self, num_steps: int) -> Mapping[str, float]:
        """Return the readings after so many steps."""
        timing = self._timing
        if timing is None:
            return {}
        return {
            SIMULATED_STEP: timing.step_seconds,
            SIMULATED_TOTAL: timing.step_seconds * num_steps,
            SIMULATED_RATE: timing.samples_per_second,
            SIMULATED_UTILIZATION: timing.utilization,
            SIMULATED_WEIGHT_STREAM: timing.weight_bytes_per_second,
            SIMULATED_GRADIENT_STREAM: timing.gradient_bytes_per_second,
        }
