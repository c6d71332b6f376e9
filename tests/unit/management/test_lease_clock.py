"""Leases do not run out while management is frozen, nor because the wall clock is set."""

import datetime as dt

from appliance.management.store.lease_clock import LeaseClock
from appliance.management.store.state import State
from appliance.storage.engine.database import Database
from tests.support.clock import FakeClock


class SetClock(FakeClock):
    """A clock whose wall time can be set."""

    offset = dt.timedelta()

    def now(self):
        return super().now() + self.offset


def pass_seconds(clock, leases, seconds):
    """Let time pass as management sees it, which looks every second; return what has run out."""
    for _ in range(seconds):
        clock.advance(1.0)
        expired = [lease.id for lease in leases.expired()]
    return expired


def opened(tmp_path, clock):
    database = Database.open_sqlite(tmp_path / "state.db")
    return database, State.over(database, clock, lease_clock=LeaseClock(clock)).leases


def test_a_lease_runs_out_when_its_time_has_passed(tmp_path):
    clock = FakeClock()
    database, leases = opened(tmp_path, clock)
    leases.grant("wsjob-a", seconds=30)
    assert pass_seconds(clock, leases, 29) == []
    assert pass_seconds(clock, leases, 2) == ["wsjob-a"]
    database.close()


def test_a_freeze_counts_for_a_few_seconds_at_most(tmp_path):
    clock = FakeClock()
    database, leases = opened(tmp_path, clock)
    leases.grant("wsjob-a", seconds=30)
    clock.advance(3600.0)
    assert leases.expired() == []
    assert leases.renew("wsjob-a", holder="node")
    assert pass_seconds(clock, leases, 29) == []
    assert pass_seconds(clock, leases, 2) == ["wsjob-a"]
    database.close()


def test_a_wall_clock_that_is_set_changes_no_lease_before_or_after(tmp_path):
    clock = SetClock()
    database, leases = opened(tmp_path, clock)
    leases.grant("wsjob-a", seconds=30)
    for hours in (2, -4, 2):
        clock.offset += dt.timedelta(hours=hours)
        leases.grant(f"wsjob-{hours}", seconds=30)  # in the moment before anybody looks
        assert pass_seconds(clock, leases, 3) == []
    assert len(pass_seconds(clock, leases, 40)) == 3
    database.close()
