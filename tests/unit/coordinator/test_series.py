"""Points of training on their way to management."""

import math

import numpy as np
import pytest

from appliance.coordinator.run.series import MAX_POINTS, SAMPLES_PER_SECOND, SeriesLog
from tests.support.clock import FakeClock


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def series(clock):
    log = SeriesLog(clock)
    log.begin(1, batch_size=8)
    return log


def of(points, name):
    return [(point.step, point.value) for point in points if point.name == name]


def test_scalar_outputs_become_points_and_others_do_not(series):
    outputs = {"output_loss": np.float32(2.5), "output_logits": np.zeros((2, 2), np.float32)}
    series.record(0, {name: np.asarray(value) for name, value in outputs.items()})
    points = series.take()
    assert of(points, "output_loss") == [(1, 2.5)]
    assert {point.name for point in points} == {"output_loss"}
    assert series.take() == []


def test_the_rate_is_of_the_time_between_two_reports(series, clock):
    series.record(0, {})
    clock.advance(2)
    assert of(series.take(), SAMPLES_PER_SECOND) == [(1, 4.0)]
    for step in range(1, 11):
        series.record(step, {})
    clock.advance(10)
    assert of(series.take(), SAMPLES_PER_SECOND) == [(11, 8.0)]
    assert of(series.take(), SAMPLES_PER_SECOND) == []


def test_a_fast_run_is_thinned_out_and_keeps_its_newest_step(series):
    num_steps = 7 * MAX_POINTS + 3
    for step in range(num_steps):
        series.record(step, {"output_loss": np.asarray(float(step))})
    steps = [step for step, _ in of(series.take(), "output_loss")]
    assert len(steps) <= MAX_POINTS
    assert steps[-1] == num_steps
    assert steps == sorted(steps)
    assert steps[0] < num_steps / 4


def test_values_that_are_no_numbers_are_passed_on(series):
    series.record(0, {"output_loss": np.asarray(np.nan)})
    assert math.isnan(of(series.take(), "output_loss")[0][1])
