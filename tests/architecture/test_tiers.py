"""`make test` goes through every subsystem, and what a run took stays within its budget."""

import ast
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support import start_costs
from tests.support.run_report import RunReport
from tests.tiers import BUDGET_SECONDS, FILE_SECONDS, LEFT_OUT, ONCE, Tier

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
WITHOUT_PROCESSES = {"unit", "architecture"}


def subsystems() -> set[str]:
    """Return every package of the product, and what else is shipped."""
    packages = {
        str(path.parent.relative_to(ROOT))
        for top in ("appliance", "workers")
        for path in (ROOT / top).glob("*/__init__.py")
    }
    return packages | {"csctl", "protos", "helm", "deploy", "examples"}


def test_make_test_goes_through_every_subsystem_once() -> None:
    assert {name for names in ONCE.values() for name in names} == subsystems()


@pytest.mark.parametrize("test", ONCE)
def test_what_make_test_runs_exists(test: str) -> None:
    file, _, name = test.partition("::")
    functions = [
        node.name
        for node in ast.walk(ast.parse((TESTS / file).read_text()))
        if isinstance(node, ast.FunctionDef)
    ]
    assert not name or name.partition("[")[0] in functions


def test_every_target_says_what_it_leaves_out_and_runs_with_its_tier() -> None:
    recipes = (ROOT / "Makefile").read_text()
    for tier in Tier:
        assert LEFT_OUT[tier]
        assert f"--tier {tier}" in recipes
    parents = {tier: LEFT_OUT[tier] for tier in (Tier.CHECK, Tier.TEST)}
    assert all(f"make {Tier.ALL}" in text for text in parents.values())


class Terminal:
    """What a run prints at its end."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def section(self, title: str) -> None:
        self.lines.append(title)

    write_line = section


@pytest.mark.parametrize("tier", Tier)
def test_a_run_says_and_keeps_where_its_time_went_and_what_it_left_out(
    tier: Tier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(start_costs.VARIABLE, "")  # put back at the end
    report, terminal = RunReport(tier, tmp_path, tmp_path / "times"), Terminal()
    for number in range(12):
        for part in (0.5, float(number)):
            test = SimpleNamespace(nodeid=f"tests/test_{number}.py::test", duration=part)
            report.pytest_runtest_logreport(test)
    for _ in range(3):
        with start_costs.counted("an appliance"):
            pass
    report.pytest_terminal_summary(terminal)
    assert terminal.lines[0] == f"where the time of {tier} went"
    files = [line.split()[-1] for line in terminal.lines[1:11]]
    assert files == [f"tests/test_{number}.py" for number in range(11, 1, -1)]
    assert terminal.lines[1] == "    11.5 s  tests/test_11.py"
    assert terminal.lines[11] == "     0.0 s  3 starts of an appliance"
    assert f"{BUDGET_SECONDS[tier]:,.0f} s are meant for two cores" in terminal.lines[12]
    assert terminal.lines[13] == f"left out: {LEFT_OUT[tier]}"
    kept = json.loads((tmp_path / "times" / f"{tier}.json").read_text())
    assert kept["files"] == {f"tests/test_{number}.py": number + 0.5 for number in range(12)}
    assert kept["starts"]["an appliance"][0] == 3


def measured() -> list[Path]:
    return sorted((TESTS / "times").glob("*.json"))


@pytest.mark.parametrize("path", measured(), ids=lambda path: path.stem)
def test_what_a_run_took_is_within_its_budget(path: Path) -> None:
    found = json.loads(path.read_text())
    tier = Tier(path.stem)
    assert found["seconds"] <= BUDGET_SECONDS[tier]
    slow = {file: took for file, took in found["files"].items() if took > FILE_SECONDS[tier]}
    assert slow == {}
    assert [file for file in found["files"] if not (ROOT / file).exists()] == []
