"""A frozen process is waited for, a dead one is not, and one's own sleep is nobody's silence."""

import pytest

from appliance.core.cluster.liveness import (
    AWAKE_SECONDS,
    Activity,
    ListenedTime,
    ProcessLook,
    Silence,
    activity_of,
    describe,
    patience_seconds,
)
from tests.support.clock import FakeClock


@pytest.mark.parametrize(
    ("states", "cpu_seconds", "activity"),
    [
        ("", 0.0, Activity.GONE),
        ("Z", 0.0, Activity.GONE),
        ("TT", 0.0, Activity.STOPPED),
        ("t", 0.0, Activity.STOPPED),
        ("SDS", 9.0, Activity.BLOCKED),
        ("SR", 0.1, Activity.STARVED),
        ("SR", 9.0, Activity.AWAKE),
        ("SS", 0.0, Activity.AWAKE),
    ],
)
def test_the_states_of_its_threads_say_what_a_silent_process_does(states, cpu_seconds, activity):
    first = ProcessLook(states="S", cpu_seconds=0.0)
    look = ProcessLook(states=states, cpu_seconds=cpu_seconds)
    assert activity_of(look, first, watched_seconds=10.0) is activity


def test_what_a_process_has_used_before_its_silence_does_not_count():
    first = ProcessLook(states="S", cpu_seconds=100.0)
    for used, activity in ((0.1, Activity.STARVED), (9.0, Activity.AWAKE)):
        look = ProcessLook(states="R", cpu_seconds=first.cpu_seconds + used)
        assert activity_of(look, first, watched_seconds=10.0) is activity


def test_a_process_is_watched_before_it_counts_as_starved():
    look = ProcessLook(states="R")
    assert activity_of(look, look, watched_seconds=0.0) is Activity.AWAKE


@pytest.mark.parametrize("activity", [*Activity])
def test_a_frozen_process_is_waited_for_until_shortly_before_the_job_stalls(activity):
    patience = patience_seconds(activity, stall_seconds=600.0)
    assert (patience == 480.0) == activity.is_frozen
    assert patience == 0.0 or activity is not Activity.GONE
    assert bool(describe(activity, 7)) == (activity is not Activity.UNKNOWN)


def silence(**changes):
    fields = {"seconds": 3.0, "num_refused": 0, "activity": Activity.AWAKE, "is_far": False}
    return Silence(**{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "is_too_long"),
    [
        ({}, False),
        ({"seconds": AWAKE_SECONDS + 1}, True),
        ({"activity": Activity.GONE}, True),
        ({"activity": Activity.STOPPED, "seconds": 400.0}, False),
        ({"activity": Activity.STOPPED, "seconds": 500.0}, True),
        ({"activity": Activity.UNKNOWN, "num_refused": 3}, True),
        ({"activity": Activity.UNKNOWN, "num_refused": 3, "is_far": True}, False),
        ({"num_refused": 3}, False),
    ],
)
def test_a_coordinator_is_given_up_by_what_its_process_does(changes, is_too_long):
    assert silence(**changes).is_too_long(stall_seconds=600.0) is is_too_long


def test_the_time_in_which_one_was_frozen_oneself_is_not_listened_to():
    clock = FakeClock()
    listened = ListenedTime(clock, most_seconds=1.0)
    for seconds in (0.2, 0.2, 300.0, 0.2):
        clock.advance(seconds)
        listened.tick()
    assert listened.seconds == pytest.approx(1.6)
