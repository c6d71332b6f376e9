"""The small defects that measure what tests are worth."""

import ast

import pytest

from tests.worth.mutants import PACKAGES, ROOT, own_tests, package_of, sample
from tests.worth.reach import Reach
from tests.worth.table import Notice, Noticed, Reasons, Tried, counts, table
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


def test_a_defect_meets_the_tests_of_its_own_package_first():
    own, other = "tests/unit/csl/test_a.py::a", "tests/unit/sdk/test_b.py::b"
    reach = Reach(tests={("a.py", 3): {own, other}}, seconds={own: 2.0, other: 1.0})
    assert reach.cheapest_first("a.py", 3, 60.0, is_of="tests/unit/csl/") == [own]
    assert reach.cheapest_first("a.py", 3, 60.0, is_not_of="tests/unit/csl/") == [other]


KILLED = Notice(outcome=Outcome.KILLED, is_own=True)
BY_OTHERS = Notice(outcome=Outcome.HUNG, is_own=False)
SURVIVED = Notice(outcome=Outcome.SURVIVED, is_own=False)
UNREACHED = Notice(outcome=Outcome.UNREACHED, is_own=False)
INVALID = Notice(outcome=Outcome.INVALID, is_own=True)


@pytest.fixture
def tried(drawn):
    scheduler = [mutant for mutant in drawn if "scheduler" in mutant.path]
    swarmx = [mutant for mutant in drawn if "swarmx" in mutant.path]
    return [
        Tried(scheduler[0], 3, KILLED),
        Tried(scheduler[1], 0, UNREACHED),
        Tried(scheduler[2], 2, SURVIVED, Reasons(nothing="both branches return the same")),
        Tried(scheduler[3], 2, INVALID),
        Tried(swarmx[0], 2, BY_OTHERS),
        Tried(swarmx[1], 2, SURVIVED, Reasons(process="integration/test_a.py::b")),
        Tried(swarmx[2], 2, KILLED, Reasons(nothing="a reason that a test has disproved")),
    ]


def test_the_table_counts_what_changes_behaviour_alone(tried):
    figures = {"drawn": 7, "defects": 5, "own": 2, "unit": 3, "all": 4}
    assert counts(tried) == {**figures, "deciding": 2, "deciding_own": 1}
    assert [each.is_survivor for each in tried] == [False, True, *[False] * 5]
    now = {"commit": "abc", "seed": 1, **counts(tried)}
    text = table(tried, seed=1, samples=[{**now, "commit": "before", "own": 1}, now])
    assert "Of 7 one-token defects 5 change behaviour; unit tests\nnotice 3." in text
    assert "changes nothing: both branches return the same" in text
    assert "| killed by `integration/test_a.py::b` |" in text
    assert "| `appliance/scheduler` | 2 | 1 | 1 | 1 |" in text
    assert "| `workers/swarmx` | 3 | 1 | 2 | 3 |" in text
    assert "| `before` | 1 | 7 | 5 | 1 | 3 | 4 | 1 of 2 |\n| `abc` | 1 | 7 | 5 | 2 |" in text


def test_what_was_noticed_is_kept_and_what_was_not_meets_new_tests(tmp_path, drawn):
    noticed = Noticed(tmp_path)
    for mutant, notice in zip(drawn, (KILLED, BY_OTHERS, SURVIVED, UNREACHED), strict=False):
        noticed.keep(mutant, notice)
    again = Noticed(tmp_path)
    assert [again.find(mutant) for mutant in drawn[:4]] == [KILLED, None, None, None]


def test_every_package_has_unit_tests_of_its_own():
    for package in PACKAGES:
        assert (ROOT / own_tests(f"{package}/module.py")).is_dir(), package


def test_every_package_of_defects_exists():
    for package in PACKAGES:
        assert (ROOT / package).is_dir()
        assert package_of(f"{package}/module.py") == package
