"""The tables of published numbers have a line for each number, and sum up their errors."""

from benchmarks import published
from benchmarks.fabric_cycles.rows import NOT_REPRODUCED
from benchmarks.wafer_model.logs import LOGS


def test_each_logged_rate_has_a_line_and_the_last_sums_up(monkeypatch):
    errors = {row.name: 0.01 * number for number, row in enumerate(LOGS)}
    monkeypatch.setattr(published, "left_out_errors", lambda: errors)

    *lines, last = published.rates()

    assert [line.partition(": ")[0] for line in lines] == [row.name for row in LOGS]
    assert all("with its model left out" in line and "interval x " in line for line in lines)
    worst = 0.01 * (len(LOGS) - 1)
    assert last == f"models left out: median {worst / 2:.1%}, worst {worst:.1%}"
    first, row = lines[0], LOGS[0]
    assert f"{row.samples_per_second:.4g} against {row.samples_per_second:g} samples/s" in first


def test_counts_without_a_program_stand_at_the_end(monkeypatch):
    monkeypatch.setattr(published, "report", lambda *_: iter(["measured: 2 against 2 cycles"]))

    first, *others = published.cycles()

    assert first == "measured: 2 against 2 cycles"
    assert [line.rpartition(": ")[0] for line in others] == [row.name for row in NOT_REPRODUCED]
    assert all(line.endswith("cycles, no program of ours") for line in others)
