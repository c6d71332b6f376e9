"""Leases do not run out while management is frozen, nor because the wall clock is set."""

import datetime as dt

from appliance.management.reconciler.lease_time import LeaseTime
from tests.support.clock import FakeClock


class SetClock(FakeClock):
    """A clock whose wall time can be set."""

    offset = dt.timedelta()

    def now(self):
        return super().now() + self.offset


def test_time_that_passes_as_usual_is_not_missed():
    clock = FakeClock()
    lease_time = LeaseTime(clock)
    for _ in range(100):
        clock.advance(1.0)
        assert lease_time.missed_seconds() == 0.0


def test_the_time_of_a_freeze_is_missed_but_for_the_time_between_two_looks():
    clock = FakeClock()
    lease_time = LeaseTime(clock)
    clock.advance(305.0)
    assert lease_time.missed_seconds() == 300.0
    assert lease_time.missed_seconds() == 0.0


def test_a_wall_clock_that_is_set_is_followed_both_ways():
    clock = SetClock()
    lease_time = LeaseTime(clock)
    for hours in (2, -1):
        clock.offset += dt.timedelta(hours=hours)
        clock.advance(1.0)
        assert lease_time.missed_seconds() == hours * 3600.0
    clock.offset += dt.timedelta(milliseconds=400)
    assert lease_time.missed_seconds() == 0.0
