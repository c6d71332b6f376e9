"""The sessions that a job has run, and its simulated and wall times, system by system."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from appliance.core.quantities import duration, figure, percent, progress_words, rate
from csctl.output.age import is_set, seconds_between, short_span
from csctl.output.table import NOT_APPLICABLE, Column
from protos.wsc.v1.events_pb2 import RunSession

_MARK = "simulated_step_seconds"
_ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTime:
    """One row: a system, or all of them.

    Attributes:
        system: As in `chief-0`, or `all`.
        values: The readings of that system, by name.
    """

    system: str
    values: Mapping[str, float]


def system_times(readings: Mapping[str, str] | Mapping[str, float]) -> Iterable[SystemTime]:
    """Yield a row for each system and one for all, if the systems report simulated time.

    Args:
        readings: By name, a system's with the system in front; as a job's properties have them.
    """
    if _MARK not in readings:
        return
    numbers = {
        key: float(value) for key, value in readings.items() if key.rpartition("/")[2] in _READINGS
    }
    names = {key.rpartition("/")[0] for key in numbers if key.endswith(f"/{_MARK}")}
    for name in sorted(names, key=_number):
        prefix = f"{name}/"
        values = {
            key.removeprefix(prefix): value
            for key, value in numbers.items()
            if key.startswith(prefix)
        }
        yield SystemTime(system=name, values=values)
    yield SystemTime(system=_ALL, values=numbers)


def _number(system: str) -> tuple[str, int]:
    role, _, number = system.rpartition("-")
    return role, int(number) if number.isdecimal() else 0


def _column(
    header: str, name: str, write: Callable[[float], str], *, is_wide: bool = False
) -> Column[SystemTime]:
    def cell(row: SystemTime) -> str:
        value = row.values.get(name)
        return NOT_APPLICABLE if value is None else write(value)

    return Column(header=header, cell=cell, is_wide=is_wide)


TIME_COLUMNS: tuple[Column[SystemTime], ...] = (
    Column(header="SYSTEM-TIME", cell=lambda row: row.system),
    _column("SIMULATED-STEP", "simulated_step_seconds", duration),
    _column("SIMULATED-TOTAL", "simulated_seconds", duration),
    _column("SIMULATED-SAMPLES/S", "simulated_samples_per_second", figure),
    _column("SIMULATED-UTILIZATION", "simulated_utilization", percent),
    _column("SIMULATED-WEIGHTS", "simulated_weight_bytes_per_second", rate, is_wide=True),
    _column("SIMULATED-GRADIENTS", "simulated_gradient_bytes_per_second", rate, is_wide=True),
    _column("TOKENS", "generated_tokens", figure, is_wide=True),
    _column("TOKENS/S", "generated_tokens_per_second", figure, is_wide=True),
    _column("SIMULATED-TOKENS/S", "simulated_generated_tokens_per_second", figure, is_wide=True),
    _column("WALL-STEP", "wall_step_seconds", duration),
    _column("WALL-TOTAL", "wall_seconds", duration),
)

_READINGS = frozenset(
    {
        "simulated_step_seconds",
        "simulated_seconds",
        "simulated_samples_per_second",
        "simulated_utilization",
        "simulated_weight_bytes_per_second",
        "simulated_gradient_bytes_per_second",
        "generated_tokens",
        "generated_tokens_per_second",
        "simulated_generated_tokens_per_second",
        "wall_step_seconds",
        "wall_seconds",
    }
)


def session_columns(now: dt.datetime) -> tuple[Column[RunSession], ...]:
    """Return the columns of a job's sessions; durations count up to `now`."""
    return (
        Column(header="RUN-SESSION", cell=lambda each: str(each.session)),
        Column(header="KIND", cell=lambda each: "train" if each.is_training else "evaluate"),
        Column(header="PROGRESS", cell=_progress),
        Column(header="STEP-TIME", cell=_step_time),
        Column(header="DURATION", cell=lambda each: _duration(each, now)),
    )


def _progress(session: RunSession) -> str:
    return progress_words(session.completed_steps, session.num_steps, None)


def _step_time(session: RunSession) -> str:
    return duration(session.step_seconds) if session.step_seconds else NOT_APPLICABLE


def _duration(session: RunSession, now: dt.datetime) -> str:
    end = session.ended.ToDatetime(tzinfo=dt.UTC) if is_set(session.ended) else now
    return short_span(seconds_between(session.started, end))
