"""Times of a job, its progress, and what masks save, as properties of its csctl resource.

The `csctl.v1` messages have no place for readings, and their field numbers are not ours to add to;
`meta.properties` is a map that is meant for such things. A job's own property has the bare name, a
system's has the pod in front, as in `chief-0/simulated_step_seconds`.
"""

from collections.abc import Iterable, Mapping
from itertools import islice

from appliance.core.cluster import readings
from appliance.core.cluster.records import PodRecord
from appliance.core.cluster.run import PodReadings, RunProgress, RunSession
from appliance.core.errors import UserError
from appliance.core.ids import PodName, Role
from appliance.core.plans.plan import Execution
from appliance.core.sparsity.masked_weights import MaskedWeights
from protos.wsc.v1 import management_pb2 as pb

_MAX_REASONS = 20
_MAX_REASON = 200

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


def report_of(weights: MaskedWeights) -> pb.MaskedWeights:
    """Return the message that a coordinator reports."""
    return pb.MaskedWeights(
        num_masked=weights.num_masked,
        num_sparse=weights.num_sparse,
        num_elements=weights.num_elements,
        num_nonzeros=weights.num_nonzeros,
        broadcast_bytes=weights.broadcast_bytes,
        dense_broadcast_bytes=weights.dense_broadcast_bytes,
        simulated_step_seconds=weights.simulated_step_seconds,
        simulated_dense_step_seconds=weights.simulated_dense_step_seconds,
        dense_because=weights.dense_because,
    )


def masked_weights_of(report: pb.MaskedWeights) -> MaskedWeights:
    """Return what a coordinator reports; of reasons the first ones alone.

    Raises:
        UserError: A count exceeds what it is a part of, or a number is negative or not finite.
    """
    seconds = (report.simulated_step_seconds, report.simulated_dense_step_seconds)
    is_sound = (
        0 <= report.num_sparse <= report.num_masked
        and 0 <= report.num_nonzeros <= report.num_elements
        and min(report.broadcast_bytes, report.dense_broadcast_bytes) >= 0
        and all(0 <= each < float("inf") for each in seconds)
    )
    if not is_sound:
        raise UserError("The numbers of a session's masked weights contradict one another.")
    reasons = islice(report.dense_because.items(), _MAX_REASONS)
    return MaskedWeights(
        num_masked=report.num_masked,
        num_sparse=report.num_sparse,
        num_elements=report.num_elements,
        num_nonzeros=report.num_nonzeros,
        broadcast_bytes=report.broadcast_bytes,
        dense_broadcast_bytes=report.dense_broadcast_bytes,
        simulated_step_seconds=report.simulated_step_seconds,
        simulated_dense_step_seconds=report.simulated_dense_step_seconds,
        dense_because={reason[:_MAX_REASON]: number for reason, number in reasons},
    )


def masked_weight_numbers(weights: MaskedWeights | None) -> dict[str, float]:
    """Return the numbers that csctl shows, by name; none for a program without masked weights."""
    if weights is None:
        return {}
    found: dict[str, float] = {
        "masked_weights": weights.num_masked,
        "sparse_weights": weights.num_sparse,
        "weight_density": weights.density,
    }
    if weights.speedup is not None:
        found |= {
            "broadcast_bytes_per_step": weights.broadcast_bytes,
            "dense_broadcast_bytes_per_step": weights.dense_broadcast_bytes,
            "saved_broadcast_bytes_per_step": weights.saved_bytes,
            "simulated_dense_step_seconds": weights.simulated_dense_step_seconds,
            "simulated_sparse_speedup": weights.speedup,
        }
    return found


def masked_weight_properties(weights: MaskedWeights | None) -> Mapping[str, str]:
    """Return the same as properties of a job, with the reasons and a text for people."""
    if weights is None:
        return {}
    found = {name: f"{value:.9g}" for name, value in masked_weight_numbers(weights).items()}
    if weights.dense_because:
        found["dense_weights_because"] = weights.why_dense
    found["masked_weights_summary"] = " ".join(weights.in_words())
    return found


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
