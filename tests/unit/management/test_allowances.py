"""What one caller may occupy, and what all may."""

import pytest

from appliance.core.access_rules.model import Allowance, Cost
from appliance.core.errors import TooManyRequestsError
from appliance.management.access.allowances import Allowances
from tests.support.clock import FakeClock

COST = Cost.HEAVY
TABLE = {COST: Allowance(per_caller=2, total=5, per_second=0.5, burst=4)}


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def allowances(clock):
    return Allowances(clock, TABLE)


def test_one_caller_has_so_much_open_and_no_more(allowances):
    holds = [allowances.take("ada", COST) for _ in range(2)]
    with pytest.raises(TooManyRequestsError, match="You have 2 calls"):
        allowances.take("ada", COST)
    with allowances.take("eve", COST):
        assert allowances.num_open(COST) == 3
    holds[0].release()
    holds[0].release()  # the second time nothing happens
    allowances.take("ada", COST)
    assert allowances.num_open(COST) == 2


def test_all_together_have_so_much_open_administrators_too(allowances):
    for number in range(5):
        allowances.take(f"user {number}", COST)
    with pytest.raises(TooManyRequestsError, match="limit of this appliance"):
        allowances.take("root", COST, is_exempt=True)


def test_calls_in_a_row_are_slowed_and_the_wait_is_told(allowances, clock):
    for _ in range(4):
        allowances.take("ada", COST).release()
    with pytest.raises(TooManyRequestsError) as refused:
        allowances.take("ada", COST)
    assert refused.value.hint == "Try again in 2.0 seconds."
    allowances.take("eve", COST).release()
    allowances.take("ada", COST, is_exempt=True).release()
    clock.advance(2)
    allowances.take("ada", COST).release()


def test_callers_of_long_ago_are_forgotten_but_not_those_who_have_something_open(
    allowances, clock, monkeypatch
):
    monkeypatch.setattr("appliance.management.access.allowances._MANY_CALLERS", 3)
    for number in range(3):
        allowances.take(f"user {number}", COST)
    hold = allowances.take("late", COST)
    hold.release()
    clock.advance(60)
    allowances.take("later", COST)
    assert {caller for _, caller in allowances._uses} == {"user 0", "user 1", "user 2", "later"}
