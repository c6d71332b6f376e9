"""The small defects that measure what tests are worth."""

import ast

import pytest

from tests.worth.mutants import PACKAGES, ROOT, package_of, sample
from tests.worth.reach import Reach
from tests.worth.table import Tried, table
from tests.worth.trial import Outcome

SOME = ("appliance/scheduler", "appliance/fabric", "workers/swarmx")


@pytest.fixture(scope="module")
def drawn():
    return sample(SOME, 12, seed=1)


def test_as_many_defects_are_drawn_of_each_package_at_different_lines(drawn):
    assert len({mutant.place for mutant in drawn}) == len(drawn) == 12
    for package in SOME:
        assert sum(mutant.path.startswith(f"{package}/") for mutant in drawn) == 4
    assert sample(SOME, 12, seed=1) == drawn


def test_a_defect_is_a_program_with_one_token_changed(drawn):
    for mutant in drawn:
        before, after = (ROOT / mutant.path).read_text().splitlines(), mutant.source().splitlines()
        changed = [
            number
            for number, pair in enumerate(zip(before, after, strict=True))
            if len({*pair}) > 1
        ]
        assert changed == [mutant.line - 1]
        if mutant.path.endswith(".py"):
            ast.parse(mutant.source())


def test_the_cheapest_tests_that_reach_a_line_come_first_and_those_that_fail_not_at_all():
    reach = Reach(
        tests={("a.py", 3): {"slow", "fast", "failed"}}, seconds={"slow": 50.0, "fast": 1.0}
    )
    assert reach.cheapest_first("a.py", 3, limit_seconds=60.0) == ["fast", "slow"]
    assert reach.cheapest_first("a.py", 3, limit_seconds=40.0) == ["fast"]
    assert reach.cheapest_first("a.py", 4, limit_seconds=60.0) == []


def test_the_table_counts_what_changes_behaviour_alone(drawn):
    tried = [
        Tried(drawn[0], 3, Outcome.KILLED),
        Tried(drawn[1], 0, Outcome.UNREACHED),
        Tried(drawn[2], 2, Outcome.SURVIVED, "both branches return the same"),
        Tried(drawn[3], 2, Outcome.INVALID),
    ]
    text = table(tried, seed=1)
    assert "Of 4 one-token defects 2 change behaviour; unit tests\nnotice 1." in text
    assert "changes nothing: both branches return the same" in text


def test_every_package_of_defects_exists():
    for package in PACKAGES:
        assert (ROOT / package).is_dir()
        assert package_of(f"{package}/module.py") == package
