"""Use of the cluster over time."""

import datetime as dt

import pytest

from appliance.management.background.activity_service import shares, utilization
from appliance.storage.cluster.activity import Holding

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


def held(start: float, end: float | None, *, num_systems: int = 1, user: str = "ada") -> Holding:
    """Return a holding by hours before now."""
    return Holding(
        user=user,
        uid=1000,
        session="job-operator",
        num_systems=num_systems,
        started_at=NOW - start * HOUR,
        ended_at=None if end is None else NOW - end * HOUR,
    )


def test_use_is_the_system_time_of_each_span() -> None:
    found = utilization(
        [held(1.0, 0.5, num_systems=2), held(0.25, None)], now=NOW, window=2 * HOUR, num_systems=4
    )
    used = sum(found.share_in_use) / len(found.share_in_use) * 2 * 4  # in system hours
    assert used == pytest.approx(2 * 0.5 + 0.25)
    assert found.at[-1] == NOW
    assert found.share_in_use[0] == 0
    assert found.share_in_use[-1] == pytest.approx(0.25)


def test_use_from_before_the_window_counts_from_its_beginning() -> None:
    found = utilization([held(100, None)], now=NOW, window=HOUR, num_systems=1)
    assert found.share_in_use == pytest.approx([1.0] * len(found.share_in_use))


def test_use_is_forgotten_by_half_with_every_half_life() -> None:
    recent, old = held(1, 0, user="ada"), held(3, 2, user="bob")
    first, second = shares([old, recent], now=NOW, half_life=2 * HOUR)
    assert (first.user, second.user) == ("ada", "bob")
    assert first.system_seconds == pytest.approx(3600)
    assert second.system_seconds == pytest.approx(1800)
    assert first.share + second.share == pytest.approx(1.0)
