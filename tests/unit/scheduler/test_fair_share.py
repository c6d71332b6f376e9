"""Past use, its decay, and the order that follows."""

import numpy as np
import pytest

from appliance.scheduler.fair_share import Account, UsageLedger, classify, describe_class
from appliance.scheduler.policy import DAY
from appliance.scheduler.snapshot import SessionQuota
from tests.support.scheduling import admitted, cluster, cycle, execute, held

ADA, BOB = Account("lab", "ada"), Account("lab", "bob")


def test_use_counts_half_after_each_half_life():
    ledger = UsageLedger(DAY)
    ledger.charge(ADA, 800.0, at_seconds=0.0)
    assert ledger.used(ADA, at_seconds=3 * DAY) == pytest.approx(100.0)
    ledger.charge(ADA, 100.0, at_seconds=3 * DAY)
    assert ledger.used(ADA, at_seconds=4 * DAY) == pytest.approx(100.0)
    assert ledger.used(BOB, at_seconds=0.0) == 0.0


def test_years_of_use_do_not_overflow():
    ledger = UsageLedger(DAY)
    for year in range(50):
        ledger.charge(ADA, 1.0, at_seconds=year * 365 * DAY)
    assert ledger.used(ADA, at_seconds=49 * 365 * DAY) == pytest.approx(1.0)


def test_the_user_who_had_less_goes_first():
    ledger = UsageLedger(DAY)
    ledger.charge(ADA, 10_000.0, at_seconds=0.0)
    jobs = [
        execute("of-ada", 1, sequence=1, session="lab", user="ada"),
        execute("of-bob", 1, sequence=2, session="lab", user="bob"),
    ]
    outcome = cycle(cluster(1, usage=ledger), jobs)
    assert list(admitted(outcome)) == ["of-bob"]


def test_about_the_same_use_stays_first_come_first_served():
    ledger = UsageLedger(DAY)
    ledger.charge(ADA, 1100.0, at_seconds=0.0)
    ledger.charge(BOB, 1000.0, at_seconds=0.0)
    carol = Account("lab", "carol")
    ledger.charge(carol, 1000.0, at_seconds=0.0)
    jobs = [
        execute("of-ada", 1, sequence=1, session="lab", user="ada"),
        execute("of-bob", 1, sequence=2, session="lab", user="bob"),
    ]
    classes = classify([ADA, BOB, carol], np.array([1100.0, 1090.0, 1000.0]), {})
    assert abs(int(classes.user[0]) - int(classes.user[1])) == 0
    assert len(admitted(cycle(cluster(1, usage=ledger), jobs))) == 1


def test_what_runs_now_counts_too():
    running = held("x", "s0", ends_in=10 * DAY, session="lab", user="ada")
    jobs = [
        execute("of-ada", 1, sequence=1, session="lab", user="ada"),
        execute("of-bob", 1, sequence=2, session="lab", user="bob"),
    ]
    outcome = cycle(cluster(2, running, now_seconds=DAY), jobs)
    assert list(admitted(outcome)) == ["of-bob"]


def test_shares_weigh_sessions():
    large, small = Account("large", "a"), Account("small", "b")
    ledger = UsageLedger(DAY)
    ledger.charge(large, 3000.0, at_seconds=0.0)
    ledger.charge(small, 1000.0, at_seconds=0.0)
    jobs = [
        execute("of-small", 1, sequence=1, session="small", user="b"),
        execute("of-large", 1, sequence=2, session="large", user="a"),
    ]
    sessions = (SessionQuota(name="large", shares=31.0), SessionQuota(name="small", shares=1.0))
    outcome = cycle(cluster(1, usage=ledger, sessions=sessions), jobs)
    assert list(admitted(outcome)) == ["of-large"]


def test_priority_goes_before_fair_share():
    ledger = UsageLedger(DAY)
    ledger.charge(ADA, 10_000.0, at_seconds=0.0)
    jobs = [
        execute("of-ada", 1, sequence=1, session="lab", user="ada", priority=199),
        execute("of-bob", 1, sequence=2, session="lab", user="bob"),
    ]
    assert list(admitted(cycle(cluster(1, usage=ledger), jobs))) == ["of-ada"]


def test_a_later_place_is_explained_by_use():
    ledger = UsageLedger(DAY)
    ledger.charge(ADA, 10_000.0, at_seconds=0.0)
    jobs = [
        execute("of-ada", 1, sequence=1, session="lab", user="ada"),
        execute("of-bob", 1, sequence=2, session="lab", user="bob"),
    ]
    outcome = cycle(cluster(1, held("x", "s0", ends_in=60.0), usage=ledger), jobs)
    assert "later than of-bob as user ada has had" in outcome.waits["of-ada"].reason


@pytest.mark.parametrize(
    ("number", "want"),
    [
        (0, "less than 1/8 of its share"),
        (1, "between 1/8 and 1/4 of its share"),
        (2, "between 1/4 and 1/2 of its share"),
        (3, "between half its share and all of it"),
        (4, "between 1 and 2 times its share"),
        (5, "between 2 and 4 times its share"),
    ],
)
def test_a_class_of_use_has_words(number, want):
    assert want in describe_class(number)


@pytest.mark.parametrize(
    ("part", "want"), [(0.0, 0), (0.2, 2), (0.3, 3), (0.6, 4), (1.0, 5)], ids=str
)
def test_classes_are_steps_of_two_around_the_share(part, want):
    used = np.array([part, 1.0 - part])
    assert classify([ADA, BOB], used, {}).user[0] == want
