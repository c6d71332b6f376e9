"""The wall time of a step, from when steps were seen to be complete."""

import pytest

from appliance.coordinator.run.session_times import WINDOW_SECONDS, Pace


def test_the_first_step_is_not_timed_and_the_others_are_by_their_mean() -> None:
    pace = Pace()
    assert pace.step_seconds(0.0) is None
    pace.note(0, 0.0)
    pace.note(1, 30.0)
    assert pace.step_seconds(31.0) is None
    for look in range(1, 6):
        pace.note(1 + 5 * look, 30.0 + 2 * look)
    assert pace.step_seconds(40.0) == pytest.approx(0.4)


def test_looks_between_two_steps_change_nothing() -> None:
    pace = Pace()
    for step, seen in ((1, 0.0), (1, 2.0), (2, 10.0), (2, 12.0), (3, 20.0), (3, 22.0)):
        pace.note(step, seen)
    assert pace.step_seconds(22.0) == pytest.approx(10.0)


def test_a_step_that_takes_long_lengthens_the_mean_while_it_runs() -> None:
    pace = Pace()
    for step in range(1, 11):
        pace.note(step, float(step))
    assert pace.step_seconds(10.5) == pytest.approx(1.0)
    assert pace.step_seconds(60.0) == pytest.approx(59 / 10)


def test_what_was_before_the_window_is_forgotten() -> None:
    pace = Pace()
    now = 0.0
    for step in range(1, 101):
        now += 4.0
        pace.note(step, now)
    for step in range(101, 201):
        now += 1.0
        pace.note(step, now)
    assert WINDOW_SECONDS < 100 * 1.0
    assert pace.step_seconds(now) == pytest.approx(1.0)
