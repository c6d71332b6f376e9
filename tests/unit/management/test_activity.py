"""Use of the cluster over time."""

import datetime as dt

import pytest

from appliance.core.clock import SystemClock
from appliance.core.cluster.jobs import Phase
from appliance.core.queries.usage import Span
from appliance.management.background.activity_service import ActivityService, shares, utilization
from appliance.scheduler.policy import Policy
from appliance.storage.cluster.activity import Holding, uses_between
from tests.support.management import move, new_job, opened_state

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


def test_a_report_reads_what_jobs_held_and_the_labels_asked_for(tmp_path) -> None:
    with opened_state(tmp_path, SystemClock()) as state:
        for name, labels in (("wsjob-a", {"project": "gpt", "other": "x"}), ("wsjob-b", {})):
            job = state.jobs.create(new_job(name, labels=labels, num_systems=2)).id
            move(state.jobs, job, Phase.QUEUED, Phase.SCHEDULED, systems=["s0", "s1"])
            if labels:
                move(state.jobs, job, Phase.SCHEDULED, Phase.CANCELLED)
        state.jobs.create(new_job("wsjob-waits"))
        now = state.clock.now()
        span = Span(since=now - HOUR, until=now + HOUR)
        first, second = uses_between(state.database, span, labels=["project"])
        assert (first.labels, first.phase, first.num_systems) == (
            {"project": "gpt"},
            Phase.CANCELLED,
            2,
        )
        assert (second.labels, second.phase, second.ended_at) == ({}, Phase.SCHEDULED, None)
        before = Span(since=now - 2 * HOUR, until=now - HOUR)
        assert uses_between(state.database, before, labels=[]) == []
        activity = ActivityService(state, Policy())
        lines = activity.report(["label=project"], activity.last_days(None, None))
        assert {line.keys: line.num_jobs for line in lines} == {("gpt",): 1, ("",): 1}
