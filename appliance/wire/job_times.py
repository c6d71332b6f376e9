"""Simulated and wall time of a job, as properties of its csctl resource.

The `csctl.v1` messages have no place for readings, and their field numbers are not ours to add to;
`meta.properties` is a map that is meant for such things. A job's own property has the bare name, a
system's has the pod in front, as in `chief-0/simulated_step_seconds`.
"""

from collections.abc import Iterable, Mapping

from appliance.core.cluster import readings
from appliance.core.cluster.records import PodRecord
from appliance.core.ids import Role
from appliance.core.plans.plan import Execution

_NAMES: Mapping[str, str] = {
    readings.SIMULATED_STEP: "simulated_step_seconds",
    readings.SIMULATED_TOTAL: "simulated_seconds",
    readings.SIMULATED_RATE: "simulated_samples_per_second",
    readings.SIMULATED_UTILIZATION: "simulated_utilization",
    readings.SIMULATED_WEIGHT_STREAM: "simulated_weight_bytes_per_second",
    readings.SIMULATED_GRADIENT_STREAM: "simulated_gradient_bytes_per_second",
    readings.WALL_STEP: "wall_step_seconds",
    readings.WALL_TOTAL: "wall_seconds",
}
_ADDS_UP = frozenset({readings.SIMULATED_RATE})


def time_properties(pods: Iterable[PodRecord]) -> dict[str, str]:
    """Return the properties of a job whose systems report simulated time; else none.

    And how it uses the wafer. Of the job as a whole: rates are those of all systems together,
    times those of the slowest, utilisation and streams the mean of the systems.
    """
    systems = [
        pod for pod in pods if pod.role is Role.CHIEF and readings.SIMULATED_STEP in pod.readings
    ]
    properties: dict[str, str] = {}
    if systems:
        is_pipelined = any(pod.readings.get(readings.RESIDENT_WEIGHTS) for pod in systems)
        properties["execution"] = (
            Execution.PIPELINED if is_pipelined else Execution.WEIGHT_STREAMING
        ).value
    for reading, name in _NAMES.items():
        values = {pod.index: pod.readings[reading] for pod in systems if reading in pod.readings}
        if not values:
            continue
        properties[name] = _text(_of_job(reading, list(values.values())))
        for index, value in values.items():
            properties[f"{Role.CHIEF.value}-{index}/{name}"] = _text(value)
    return properties


def _of_job(reading: str, values: list[float]) -> float:
    if reading in _ADDS_UP:
        return sum(values)
    if reading.endswith("_seconds"):
        return max(values)
    return sum(values) / len(values)


def _text(value: float) -> str:
    return f"{value:.6g}"
