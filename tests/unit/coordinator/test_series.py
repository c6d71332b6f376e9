"""Points of training on their way to management."""

import math

import numpy as np
import pytest

from appliance.coordinator.run.series import MAX_POINTS, MAX_WARNINGS, SAMPLES_PER_SECOND, SeriesLog
from appliance.core.cluster import run
from appliance.core.cluster.readings import POD_ANONYMOUS, POD_PROCESSORS, POD_SHARED
from appliance.core.cluster.run import POD_MEMORY
from protos.wsc.v1.management_pb2 import PodReport
from tests.support.clock import FakeClock

GIB = 2**30


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


def test_what_the_pods_use_is_told_with_the_rate_and_shared_pages_once(series, clock):
    pods = [
        PodReport(readings={POD_ANONYMOUS: 2 * GIB, POD_SHARED: shared * GIB, POD_PROCESSORS: 0.75})
        for shared in (1, 4)
    ]
    silent = PodReport(pod="worker-0")
    series.record(0, {})
    clock.advance(2)
    points = series.take([*pods, silent])
    assert of(points, POD_MEMORY) == [(1, 8.0)]
    assert of(points, run.POD_PROCESSORS) == [(1, 1.5)]
    assert series.take(pods) == []  # no step, no point
    series.record(1, {})
    clock.advance(2)
    assert {point.name for point in series.take([silent])} == {SAMPLES_PER_SECOND}


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


def warn(series, *values, name="output_loss", session=None):
    if session is not None:
        series.begin(session, batch_size=8)
    for step, value in enumerate(values):
        series.record(step, {name: np.asarray(value, dtype=np.float32)})
    return [warning.message for warning in series.take_warnings()]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((2.5, 2.25), []),
        ((2.5, np.nan), ["loss is nan at step 2 of session 1; it was 2.5 at step 1"]),
        ((2.5, np.inf, np.nan), ["loss is inf at step 2 of session 1; it was 2.5 at step 1"]),
        ((-np.inf,), ["loss is -inf at step 1 of session 1, the first that was looked at"]),
        (
            (np.nan, 1.0, np.nan),
            [
                "loss is nan at step 1 of session 1, the first that was looked at",
                "loss is nan at step 3 of session 1; it was 1 at step 2",
            ],
        ),
    ],
)
def test_an_output_that_ceases_to_be_finite_is_warned_of(series, values, expected):
    assert warn(series, *values) == expected
    assert series.take_warnings() == []


def test_an_output_that_stays_nan_through_sessions_is_warned_of_once(series):
    assert len(warn(series, 1.0, np.nan)) == 1
    assert warn(series, np.nan, np.nan, session=2) == []
    assert warn(series, 1.0, session=3) == []
    assert len(warn(series, np.nan, session=4)) == 1


def test_an_output_that_overflows_again_and_again_is_warned_of_a_few_times(series):
    assert len(warn(series, *[1.0, np.inf] * 50, name="output_norm")) == MAX_WARNINGS
    assert len(warn(series, 1.0, np.nan)) == 1, "others are counted by themselves"


def test_counts_and_arrays_are_no_reason_to_warn(series):
    series.record(0, {"n": np.asarray(3), "logits": np.full((2, 2), np.nan, np.float32)})
    assert series.take_warnings() == []


def test_the_first_value_that_is_no_number_is_kept_however_fast_the_run(series):
    for step in range(2 * MAX_POINTS - 7):
        value = np.nan if step >= 102 else 1.0
        series.record(step, {"output_loss": np.asarray(value)})
    found = of(series.take(), "output_loss")
    assert next(step for step, value in found if math.isnan(value)) == 103
    assert len(found) <= MAX_POINTS + 1
