"""What a policy may say."""

import pytest

from appliance.scheduler.policy import Policy

DEPTHS = ("backfill_depth", "plan_depth", "max_lookups", "max_user_lookups")
TIMES = ("half_life_seconds", "default_execute_seconds", "default_compile_seconds")


@pytest.mark.parametrize("name", DEPTHS)
def test_a_depth_is_one_or_more(name):
    assert getattr(Policy(**{name: 1}), name) == 1
    with pytest.raises(ValueError, match="at least 1"):
        Policy(**{name: 0})


@pytest.mark.parametrize("name", TIMES)
def test_a_time_is_above_zero(name):
    assert getattr(Policy(**{name: 0.5}), name) == 0.5
    with pytest.raises(ValueError, match="above 0 seconds, not 0"):
        Policy(**{name: 0.0})


def test_the_longest_waits_may_have_no_limit_but_none_of_nothing():
    assert Policy(max_wait_seconds=(None, 0.5, None, None)).max_wait_seconds[1] == 0.5
    with pytest.raises(ValueError, match="above 0 seconds, not 0"):
        Policy(max_wait_seconds=(None, 0.0, None, None))


@pytest.mark.parametrize("share", [0.01, 0.99])
def test_drivers_have_a_part_of_the_memory(share):
    assert Policy(driver_share=share).driver_share == share


@pytest.mark.parametrize("share", [-0.1, 0.0, 1.0, 1.1])
def test_drivers_have_neither_nothing_nor_all_of_the_memory(share):
    with pytest.raises(ValueError, match="between 0 and 1"):
        Policy(driver_share=share)
