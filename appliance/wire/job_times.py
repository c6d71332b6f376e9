"""Simulated and wall time of a job and its progress, as properties of its csctl resource.

The `csctl.v1` messages have no place for readings, and their field numbers are not ours to add to;
`meta.properties` is a map that is meant for such things. A job's own property has the bare name, a
system's has the pod in front, as in `chief-0/simulated_step_seconds`.
"""

from collections.abc import Iterable, Mapping

from appliance.core.cluster import readings
from appliance.core.cluster.records import PodRecord
from appliance.core.cluster.run import PodReadings, RunProgress, RunSession
from appliance.core.ids import PodName, Role
from appliance.core.plans.plan import Execution

_NAMES: Mapping[str, str] = {
    readings.SIMULATED_STEP: "simulated_step_seconds",
    readings.SIMULATED_TOTAL: "simulated_seconds",
    readings.SIMULATED_RATE: "simulated_samples_per_second",
    readings.SIMULATED_UTILIZATION: "simulated_utilization",
    readings.SIMULATED_WEIGHT_STREAM: "simulated_weight_bytes_per_second",
    readings.SIMULATED_GRADIENT_STREAM: "simulated_gradient_bytes_per_second",
    readings.GENERATED_TOKENS: "generated_tokens",
    readings.GENERATION_PASSES: "generation_passes",
    readings.GENERATED_RATE: "generated_tokens_per_second",
    readings.SIMULATED_GENERATED_RATE: "simulated_generated_tokens_per_second",
    readings.WALL_STEP: "wall_step_seconds",
    readings.WALL_TOTAL: "wall_seconds",
}
_ADDS_UP = frozenset(
    {
        readings.SIMULATED_RATE,
        readings.GENERATED_TOKENS,
        readings.GENERATED_RATE,
        readings.SIMULATED_GENERATED_RATE,
    }
)


_Systems = Mapping[int, Mapping[str, float]]
"""Readings of the chief pods, by number."""


def time_properties(pods: Iterable[PodRecord]) -> dict[str, str]:
    """Return the properties of a job whose systems report simulated time; else none.

    And how it uses the wafer. Of the job as a whole: rates are those of all systems together,
    times those of the slowest, utilisation and streams the mean of the systems.
    """
    systems = _simulated({pod.index: pod.readings for pod in pods if pod.role is Role.CHIEF})
    properties = {name: _text(value) for name, value in _readings(systems).items()}
    if systems:
        is_pipelined = any(each.get(readings.RESIDENT_WEIGHTS) for each in systems.values())
        properties["execution"] = (
            Execution.PIPELINED if is_pipelined else Execution.WEIGHT_STREAMING
        ).value
    return properties


def session_readings(pods: Mapping[PodName, PodReadings]) -> dict[str, float]:
    """Return the same numbers of one session of a job, by the same names."""
    chiefs: dict[int, Mapping[str, float]] = {}
    for name, pod in pods.items():
        _, role, index = name.rsplit("-", 2)
        if role == Role.CHIEF.value:
            chiefs[int(index)] = pod.readings
    return _readings(_simulated(chiefs))


def progress_properties(progress: RunProgress, *, now_seconds: float) -> dict[str, str]:
    """Return how far a job's session is, as properties."""
    properties = {
        "run_session": str(progress.session),
        "steps_completed": str(progress.completed_steps),
        "steps_planned": str(progress.num_steps),
    }
    if progress.step_seconds:
        properties["step_seconds"] = _text(progress.step_seconds)
    if (left := progress.remaining_seconds(now_seconds)) is not None:
        properties["remaining_seconds"] = _text(left)
    return properties


def ended_properties(session: RunSession) -> dict[str, str]:
    """Return how far a session has come that is over, as properties."""
    return {
        "run_session": str(session.number),
        "steps_completed": str(session.completed_steps),
        "steps_planned": str(session.num_steps),
    }


def _simulated(chiefs: _Systems) -> _Systems:
    return {index: each for index, each in chiefs.items() if readings.SIMULATED_STEP in each}


def _readings(systems: _Systems) -> dict[str, float]:
    found: dict[str, float] = {}
    for reading, name in _NAMES.items():
        values = {index: each[reading] for index, each in systems.items() if reading in each}
        if not values:
            continue
        found[name] = _of_job(reading, list(values.values()))
        for index, value in values.items():
            found[f"{Role.CHIEF.value}-{index}/{name}"] = value
    return found


def _of_job(reading: str, values: list[float]) -> float:
    if reading in _ADDS_UP:
        return sum(values)
    if reading.endswith("_seconds"):
        return max(values)
    return sum(values) / len(values)


def _text(value: float) -> str:
    return f"{value:.9g}"
