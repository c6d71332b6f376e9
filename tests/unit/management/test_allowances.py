"""What one caller may occupy, and what all may."""

import pytest

from appliance.core.access_rules.model import Allowance, Cost
from appliance.core.errors import TooManyRequestsError
from appliance.management.access.allowances import Allowances
from tests.support.clock import FakeClock

COST = Cost.HEAVY
TABLE = {COST: Allowance(per_caller=2, total=5, strangers=2, per_second=0.5, burst=4)}


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


MANY = {COST: Allowance(per_caller=4096, total=16_384, strangers=8192, per_second=1e9, burst=10**9)}


def taken(allowances, caller, *, limit=20_000, **kind):
    """Take as much as there is; return how much."""
    for number in range(limit):
        try:
            allowances.take(caller, COST, **kind)
        except TooManyRequestsError:
            return number
    return limit


def test_strangers_take_nothing_of_what_is_kept_for_callers_who_have_proved_who_they_are(clock):
    allowances = Allowances(clock, MANY)
    strangers = sum(taken(allowances, f"at {place}", is_stranger=True) for place in range(1000))
    assert strangers <= 8192
    users = [taken(allowances, f"uid {uid}") for uid in range(4)]
    assert users == [4096, 4096, 16_384 - strangers - 8192, 0]


def test_a_stranger_who_takes_all_he_can_from_ten_places_leaves_some_for_the_next(clock):
    allowances = Allowances(clock, MANY)
    open_at = [taken(allowances, f"at place {place}", is_stranger=True) for place in range(10)]
    assert open_at[0] == 2731  # of 8192: a third, as he may have half of what is then free
    assert open_at == sorted(open_at, reverse=True)
    assert all(taken(allowances, f"at place {n}", is_stranger=True) == 0 for n in range(10))
    assert taken(allowances, "at another place", is_stranger=True) > 40


def test_what_a_stranger_gives_back_is_there_for_others(clock):
    allowances = Allowances(clock, TABLE)
    hold = allowances.take("at one place", COST, is_stranger=True)
    with pytest.raises(TooManyRequestsError, match="1 calls of cost 'heavy' that prove nothing"):
        allowances.take("at one place", COST, is_stranger=True)
    other = allowances.take("at another", COST, is_stranger=True)
    with pytest.raises(TooManyRequestsError, match="2 from everywhere, of 2"):
        allowances.take("at a third", COST, is_stranger=True)
    hold.release()
    hold.release()
    allowances.take("at a third", COST, is_stranger=True).release()
    other.release()
    assert allowances.num_open(COST) == 0
