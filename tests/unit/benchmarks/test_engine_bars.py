"""The command that measures every bar of the engine: what it passes and what it fails."""

from pathlib import Path

import pytest

from benchmarks.engine import DEMANDS, SHAPES, demands
from benchmarks.engine_bars import Part, measured_here, parts, run


@pytest.fixture
def part(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def make(text, **options):
        (tmp_path / "one_measurement.py").write_text(text)
        return Part(name="one", module="one_measurement", **options)

    return make


def test_lines_of_bars_are_kept_and_the_rest_is_passed_on(part, capfd):
    text = "print('a table'); print('speed 1.200 >=1.1 ok'); print('size 7 <=5 MISSED')"
    assert run(part(text), is_small=False) == ["speed 1.200 >=1.1 ok", "size 7 <=5 MISSED"]
    assert "a table" in capfd.readouterr().out


def test_a_part_with_bars_that_says_nothing_has_missed_them(part):
    said = run(part("print('a table')"), is_small=False)
    assert said == ["one not-measured said-0-of-1-lines MISSED"]


def test_a_part_that_says_less_than_it_has_bars_has_missed_the_rest(part):
    said = run(part("print('speed 1.200 >=1.1 ok')", num_bars=2), is_small=False)
    assert said == ["speed 1.200 >=1.1 ok", "one not-measured said-1-of-2-lines MISSED"]


def test_a_part_without_bars_may_say_nothing(part):
    assert run(part("print('a table')", num_bars=0), is_small=False) == []


@pytest.mark.parametrize("num_bars", [0, 1])
def test_a_part_that_fails_has_missed(part, num_bars):
    said = run(part("raise SystemExit(3)", num_bars=num_bars), is_small=False)
    assert said == ["one not-measured exit-code-3 MISSED"]


def test_a_failure_after_a_bar_that_was_missed_is_told_once(part):
    text = "print('speed 1.000 >=1.1 MISSED'); raise SystemExit(1)"
    assert run(part(text), is_small=False) == ["speed 1.000 >=1.1 MISSED"]


def test_what_is_smaller_in_a_trial_is_added_for_a_trial_alone(part):
    text = "import sys; print('arguments', len(sys.argv) - 1, 'ok')"
    measured = part(text, small=("--rounds", "1"))
    assert run(measured, is_small=False) == ["arguments 0 ok"]
    assert run(measured, is_small=True) == ["arguments 2 ok"]


def test_a_table_is_a_part_where_something_is_demanded_of_it():
    names = {part.name for part in parts()}
    assert {"d512.ranks", "d768.network", "d768-128.ours", "d1024.compilers"} <= names
    assert {"cnn.ours", "cnn.compilers", "encoder.ours", "encoder.compilers"} <= names
    assert names.isdisjoint({"d512-128.ranks", "d768-128.client", "d1024.ours", "d1024.bfloat16"})
    assert names.isdisjoint({"cnn.client", "encoder.network"})


@pytest.mark.parametrize(("flags", "is_measured"), [("avx2 fma", False), ("avx512_bf16", True)])
def test_bfloat16_is_held_to_bars_where_the_processor_multiplies_it(
    flags, is_measured, monkeypatch, capsys
):
    monkeypatch.setattr(Path, "read_text", lambda path: f"flags\t\t: fpu {flags} ht\n")
    names = set(measured_here(parts()))
    assert ({"bfloat16", "d512.bfloat16"} <= names) is is_measured
    assert "d512.ours" in names
    said = capsys.readouterr().out
    assert ("bfloat16 is left out: this processor does not multiply" in said) is not is_measured


def test_every_demand_is_made_of_some_shape():
    groups = {group for group, *_ in DEMANDS}
    made = {
        (ours, other)
        for size in SHAPES.values()
        for g in groups
        for ours, other, _ in demands(size, g)
    }
    assert made == {(ours, other) for _, ours, other, _, _ in DEMANDS}
