"""Programs that are bound by tasks take about the cycles that others published of such programs."""

from pathlib import Path

import pytest

from benchmarks.csl import of_row
from benchmarks.fabric_cycles.measured import cycles_of
from benchmarks.fabric_cycles.rows import ROWS, Kind, Row

HELD_OUT = [row for row in ROWS if not row.is_fitted and row.kind in (Kind.TASKS, Kind.STENCIL)]


@pytest.mark.parametrize("row", HELD_OUT[::3], ids=lambda row: row.name)
def test_a_row_that_was_not_fitted_is_within_fifteen_percent(row: Row, tmp_path: Path) -> None:
    assert cycles_of(row, of_row(row), str(tmp_path)) == pytest.approx(row.cycles, rel=0.15)
