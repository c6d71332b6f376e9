"""The queue simulator: formats, seeds, figures, and what is demanded of our policy."""

import pytest

from appliance.scheduler.policy import EASY, FIRST_COME, Policy
from benchmarks.queue_simulator import main
from benchmarks.simulation.measures import measure
from benchmarks.simulation.replay import Replay
from benchmarks.simulation.synthetic import synthesise
from benchmarks.simulation.trace import Trace, TraceJob, read_swf, write_swf


def job(number, submit, run, size, limit):
    return TraceJob(
        number=number,
        submit_seconds=submit,
        run_seconds=run,
        num_systems=size,
        requested_seconds=limit,
        user=1,
        group=1,
        program=1,
    )


def trace(*jobs):
    return Trace(name="t", num_systems=2, jobs=jobs)


def test_a_trace_survives_the_standard_workload_format(tmp_path):
    made = synthesise(seed=5, num_jobs=50, num_systems=8, load=0.8)
    write_swf(made, tmp_path / "made.swf")
    assert read_swf(tmp_path / "made.swf").jobs == made.jobs


def test_a_log_is_scaled_to_the_cluster_and_jobs_that_never_ran_are_left_out(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text(
        "; MaxProcs: 128\n"
        "1 0 5 100 64 -1 -1 64 200 -1 1 7 3 9 1 1 -1 -1\n"
        "2 1 5 -1 64 -1 -1 64 200 -1 5 7 3 9 1 1 -1 -1\n"
        "3 2 5 300 1 -1 -1 1 200 -1 1 7 3 9 1 1 -1 -1\n"
    )
    log = read_swf(path, num_systems=8)
    assert [(j.num_systems, j.run_seconds) for j in log.jobs] == [(4, 100.0), (1, 200.0)]


def test_a_line_that_is_not_of_the_format_is_named(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text("1 2 3\n")
    with pytest.raises(ValueError, match=r"log\.swf:1 has 3 fields; the format has 18"):
        read_swf(path)


def test_the_same_seed_gives_the_same_trace():
    make = {"num_jobs": 200, "num_systems": 8, "load": 0.8}
    assert synthesise(seed=1, **make) == synthesise(seed=1, **make)
    assert synthesise(seed=1, **make) != synthesise(seed=2, **make)


def test_backfill_uses_the_gap_that_strict_order_leaves():
    jobs = (job(1, 0, 100, 1, 100), job(2, 1, 100, 2, 100), job(3, 2, 50, 1, 50))
    starts = {
        name: Replay(trace(*jobs), policy).run().start_seconds.tolist()
        for name, policy in (("fifo", FIRST_COME), ("easy", EASY), ("ours", Policy()))
    }
    assert starts["fifo"] == [0, 100, 200]
    assert starts["easy"] == [0, 100, 2]
    assert starts["ours"] == [0, 100, 2]


def test_measures_of_a_schedule_by_hand():
    outcome = Replay(trace(job(1, 0, 100, 2, 100), job(2, 0, 100, 2, 100)), EASY).run()
    found = measure(outcome)
    assert found.utilisation == 1.0
    assert found.mean_wait_seconds == 50.0
    assert found.max_wait_seconds == 100.0
    assert found.bounded_slowdown == 1.5


def test_ours_waits_no_longer_than_easy_on_a_busy_trace():
    busy = synthesise(seed=11, num_jobs=400, num_systems=16, load=0.9)
    easy, ours = (measure(Replay(busy, policy).run()) for policy in (EASY, Policy()))
    assert ours.mean_wait_seconds <= easy.mean_wait_seconds


@pytest.mark.slow
def test_the_benchmark_prints_a_line_for_each_bar(capsys):
    code = main(["--jobs", "150", "--queued", "500", "--processes", "1"])
    lines = [line for line in capsys.readouterr().out.splitlines() if "<=" in line]
    assert len(lines) == 5
    assert all(line.endswith((" ok", " MISSED")) for line in lines)
    assert code == int(any(line.endswith("MISSED") for line in lines))
