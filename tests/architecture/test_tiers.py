"""`make test` goes through every subsystem, and what a run took stays within its budget."""

import ast
import json
from pathlib import Path

import pytest

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
