import re

from csctl.output.runs.sessions import TIME_COLUMNS, system_times
from csctl.output.table import render


def test_each_system_has_a_row_in_order_and_the_last_is_for_all() -> None:
    readings = {"simulated_step_seconds": "0.000583", "dashboard": "http://here"}
    for system in (10, 2):
        readings[f"chief-{system}/simulated_step_seconds"] = "0.000583"
        readings[f"chief-{system}/wall_step_seconds"] = f"{system}.5"
        readings[f"chief-{system}/simulated_utilization"] = "0.471234"
    rows = render(TIME_COLUMNS, tuple(system_times(readings))).splitlines()
    assert [row.split()[0] for row in rows] == ["SYSTEM-TIME", "chief-2", "chief-10", "all"]
    step, total, samples = "583 \u00b5s", "n/a", "n/a"
    cells = ["chief-2", step, total, samples, "47.1 %", "2.5 s", "n/a"]
    assert [cell.strip() for cell in re.split(r"  +", rows[1])] == cells


def test_a_job_without_simulated_time_has_no_rows() -> None:
    assert tuple(system_times({"message": "none"})) == ()
