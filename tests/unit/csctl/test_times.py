from csctl.output.table import render
from csctl.output.times import TIME_COLUMNS, system_times
from protos.csctl.resources_pb2 import Job


def test_each_system_has_a_row_in_order_and_the_last_is_for_all() -> None:
    job = Job()
    for system in (10, 2):
        job.meta.properties[f"chief-{system}/simulated_step_seconds"] = "0.5"
        job.meta.properties[f"chief-{system}/wall_step_seconds"] = f"{system}.5"
    job.meta.properties["simulated_step_seconds"] = "0.5"
    job.meta.properties["dashboard"] = "http://here"
    rows = [line.split() for line in render(TIME_COLUMNS, tuple(system_times(job))).splitlines()]
    assert [row[0] for row in rows] == ["SYSTEM-TIME", "chief-2", "chief-10", "all"]
    assert rows[1] == ["chief-2", "0.5", "n/a", "n/a", "n/a", "2.5", "n/a"]


def test_a_job_without_simulated_time_has_no_rows() -> None:
    assert tuple(system_times(Job())) == ()
