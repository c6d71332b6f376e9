"""One job's simulated and wall times, system by system."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from csctl.output.table import NOT_APPLICABLE, Column
from protos.csctl.resources_pb2 import Job

_MARK = "simulated_step_seconds"
_ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTime:
    """One row: a system, or all of them.

    Attributes:
        system: As in `chief-0`, or `all`.
        values: The properties of that system, by name.
    """

    system: str
    values: Mapping[str, str]


def system_times(job: Job) -> Iterable[SystemTime]:
    """Yield a row for each system and one for all, if the job's systems report simulated time."""
    properties = job.meta.properties
    if _MARK not in properties:
        return
    names = {key.rpartition("/")[0] for key in properties if key.endswith(f"/{_MARK}")}
    for name in sorted(names, key=_number):
        prefix = f"{name}/"
        values = {
            key.removeprefix(prefix): value
            for key, value in properties.items()
            if key.startswith(prefix)
        }
        yield SystemTime(system=name, values=values)
    yield SystemTime(system=_ALL, values=properties)


def _number(system: str) -> tuple[str, int]:
    role, _, number = system.rpartition("-")
    return role, int(number) if number.isdecimal() else 0


def _column(header: str, name: str, *, is_wide: bool = False) -> Column[SystemTime]:
    return Column(
        header=header, cell=lambda row: row.values.get(name, NOT_APPLICABLE), is_wide=is_wide
    )


TIME_COLUMNS: tuple[Column[SystemTime], ...] = (
    Column(header="SYSTEM-TIME", cell=lambda row: row.system),
    _column("SIMULATED-STEP-S", "simulated_step_seconds"),
    _column("SIMULATED-TOTAL-S", "simulated_seconds"),
    _column("SIMULATED-SAMPLES/S", "simulated_samples_per_second"),
    _column("SIMULATED-UTILIZATION", "simulated_utilization"),
    _column("SIMULATED-WEIGHTS-B/S", "simulated_weight_bytes_per_second", is_wide=True),
    _column("SIMULATED-GRADIENTS-B/S", "simulated_gradient_bytes_per_second", is_wide=True),
    _column("WALL-STEP-S", "wall_step_seconds"),
    _column("WALL-TOTAL-S", "wall_seconds"),
)
"""Seconds, samples and bytes per second."""
