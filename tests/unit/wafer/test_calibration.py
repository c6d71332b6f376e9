import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.wafer.hardware import CS2, CS3, Machine
from appliance.wafer.timing.calibration import DEFAULT_CALIBRATION, Calibration
from benchmarks.wafer_model.fitting import fit, relative_error
from benchmarks.wafer_model.logs import EARLIER_LOGS, LOGS

ROOT = Path(__file__).parents[3]


def test_the_stored_numbers_are_what_the_fit_gives() -> None:
    fitted = fit(LOGS)
    for name in Calibration.__dataclass_fields__:
        expected = getattr(fitted, name)
        assert getattr(DEFAULT_CALIBRATION, name) == pytest.approx(expected, rel=0.01), name


@pytest.mark.parametrize("machine", [CS2, CS3], ids=lambda machine: machine.name)
def test_dispatch_stays_within_what_public_simulator_runs_show(machine: Machine) -> None:
    """At most a task woken by a wavelet, 32 cycles, that sets a vector instruction up."""
    woken_task_cycles = 32
    most = woken_task_cycles + machine.vector_setup_cycles
    assert 0 <= DEFAULT_CALIBRATION.dispatch(machine) <= most


def test_older_releases_were_slower_than_the_model_of_the_mature_one() -> None:
    errors = [relative_error(row, DEFAULT_CALIBRATION) for row in EARLIER_LOGS]
    assert errors[0] > errors[1] > 0


def test_the_batches_of_one_model_are_within_fifteen_percent() -> None:
    rows = [row for row in LOGS if row.model.name == "Llama2-7B"]
    assert len(rows) == 5
    for row in rows:
        assert abs(relative_error(row, DEFAULT_CALIBRATION)) <= 0.15, row.name


def test_the_page_tells_the_error_of_every_log() -> None:
    text = (ROOT / "docs" / "wafer-timing.md").read_text()
    told = text[text.index("## How far") : text.index("| median, worst")]
    fitted = re.findall(r"[+-][\d.]+ % \|$", told, re.MULTILINE)
    expected = [f"{100 * relative_error(row, DEFAULT_CALIBRATION):+.1f} % |" for row in LOGS]
    assert fitted == expected


@pytest.mark.parametrize(
    "impossible",
    [
        {"dispatch_cycles": {"WSE-2": 1.0, "WSE-3": -1.0}},
        {"multiply_adds_per_cycle": 0.0},
        {"layer_step_seconds": -1.0},
        {"samples_prepared_per_second": 0.0},
    ],
)
def test_impossible_costs_are_refused(impossible: Mapping[str, Any]) -> None:
    with pytest.raises(ValueError, match="calibration"):
        replace(DEFAULT_CALIBRATION, **impossible)
