import dataclasses

import pytest

from appliance.coordinator.run.session_times import SessionProgress, mask_changes, session_event
from appliance.core.cluster import readings
from appliance.core.cluster.run import RunSchedule
from appliance.core.sparsity.masked_weights import MaskedWeights
from protos.wsc.v1.management_pb2 import PodReport
from tests.support.clock import FakeClock


def report(index: int, *, step: int, wall: float, role: str = "chief") -> PodReport:
    values = {
        readings.SIMULATED_STEP: 0.002,
        readings.SIMULATED_TOTAL: 0.002 * step,
        readings.SIMULATED_RATE: 500.0,
        readings.SIMULATED_UTILIZATION: 0.25,
        readings.WALL_TOTAL: wall,
    }
    return PodReport(role=role, index=index, step=step, readings=values)


def test_the_end_of_a_session_tells_simulated_beside_wall_time() -> None:
    pods = [PodReport(role="weight"), report(0, step=5, wall=1.0), report(1, step=5, wall=1.5)]
    event = session_event(2, pods)
    assert event is not None
    assert event.reason == "SessionTimed"
    assert event.message == (
        "Session 2: simulated wafer time 10 ms for 5 steps on 2 system(s), "
        "weight-streaming, 1 k simulated samples/s, 25 % simulated utilisation; wall time 1.5 s."
    )


def test_a_session_without_a_step_tells_nothing() -> None:
    assert session_event(1, [PodReport(role="weight", step=3), report(0, step=0, wall=0.0)]) is None


def test_a_session_whose_weights_stayed_says_so() -> None:
    pod = report(0, step=5, wall=1.0)
    pod.readings[readings.RESIDENT_WEIGHTS] = 1024.0
    event = session_event(1, [pod])
    assert event is not None
    assert "on 1 system(s), pipelined, 500 simulated" in event.message


class Pods:
    """What pods report, as a test sets it."""

    def __init__(self) -> None:
        self.step = 0
        self.input: list[PodReport] = []

    def completed_steps(self, session: int) -> int:
        return self.step if session == 2 else 0

    def reports(self, session: int | None = None) -> list[PodReport]:
        assert session == 2
        return [PodReport(role="chief", readings={readings.WALL_STEP: 0.7}), *self.input]


def test_progress_tells_planned_and_completed_steps_and_the_pace() -> None:
    clock, pods = FakeClock(), Pods()
    schedule = RunSchedule(num_steps=600, output_interval=1, checkpoint_steps=frozenset())
    progress = SessionProgress(2, schedule, is_training=True, clock=clock)
    assert progress.report(pods).step_seconds == 0.0
    pods.step = 1
    assert progress.report(pods).step_seconds == 0.7, "the pods' word, before two looks found steps"
    for step in (6, 11, 16):
        clock.advance(2.0)
        pods.step = step
        told = progress.report(pods)
    assert (told.num_steps, told.completed_steps, told.is_training) == (600, 16, True)
    assert told.step_seconds == pytest.approx(0.4)
    assert not told.is_over
    assert progress.report(pods, is_over=True).is_over


def input_pods(ready: int, *workers: tuple[int, float], systems: int = 1) -> list[PodReport]:
    """Return the input's reports: steps with a batch, and each worker's batches and their time."""
    return [
        *(PodReport(role="activation", index=index, step=ready) for index in range(systems)),
        *(
            PodReport(
                role="worker", index=index, step=step, readings={readings.BATCH_LOADING: seconds}
            )
            for index, (step, seconds) in enumerate(workers)
        ),
    ]


def seconds_to_go(pods: Pods, *looks: tuple[int, list[PodReport]]) -> float:
    """Return what 40 steps have to go after looks half a second apart."""
    clock = FakeClock()
    schedule = RunSchedule(num_steps=40, output_interval=1, checkpoint_steps=frozenset())
    progress = SessionProgress(2, schedule, is_training=True, clock=clock)
    told = progress.report(pods)
    for pods.step, pods.input in looks:
        told = progress.report(pods)
        clock.advance(0.1)
    return (told.num_steps - told.completed_steps) * told.step_seconds


@pytest.mark.parametrize(
    ("looks", "seconds"),
    [
        pytest.param([(1, []), (4, [])], 36 * 0.1 / 3, id="nobody says how long batches take"),
        pytest.param(
            [(1, input_pods(3, (4, 5.2))), (4, input_pods(6, (7, 7.6)))],
            34 * 0.8,
            id="the first four were loaded before",
        ),
        pytest.param(
            [(1, input_pods(6, (7, 7.6))), (4, input_pods(6, (7, 7.6)))],
            34 * 7.6 / 7,
            id="no batch since the first look",
        ),
        pytest.param(
            [(1, input_pods(1, (1, 5.0))), (4, input_pods(1, (1, 5.0)))],
            36 * 0.1 / 3,
            id="the first batch alone is not timed",
        ),
        pytest.param(
            [(1, input_pods(3, (2, 5.2), (2, 5.2))), (4, input_pods(6, (4, 6.8), (4, 6.8)))],
            34 * 0.8 / 2,
            id="two workers take turns",
        ),
        pytest.param(
            [
                (1, input_pods(3, (4, 1.2), (4, 5.2), systems=2)),
                (4, input_pods(6, (7, 1.5), (7, 7.6), systems=2)),
            ],
            34 * 0.8,
            id="the slower of two systems",
        ),
        pytest.param(
            [(1, input_pods(40, (40, 33.0))), (4, input_pods(40, (40, 33.0)))],
            36 * 0.1 / 3,
            id="all batches are there",
        ),
        pytest.param(
            [(1, input_pods(3, (4, 0.1))), (4, input_pods(6, (7, 0.13)))],
            36 * 0.1 / 3,
            id="batches are faster than steps",
        ),
    ],
)
def test_steps_on_batches_that_were_loaded_before_do_not_set_the_pace(looks, seconds) -> None:
    assert seconds_to_go(Pods(), *looks) == pytest.approx(seconds)


def test_changes_of_masks_are_those_that_memoryx_reports() -> None:
    changes = {readings.MEMORYX_MASK_CHANGES: 3.0}
    pods = [PodReport(role="weight", readings=changes), PodReport(role="chief", readings=changes)]
    assert mask_changes(pods) == 3
    assert mask_changes([PodReport(role="weight")]) == 0


def test_progress_tells_of_masks_as_they_were_counted_last() -> None:
    schedule = RunSchedule(num_steps=6, output_interval=1, checkpoint_steps=frozenset())
    weights = MaskedWeights(num_masked=2, num_sparse=2, num_elements=8, num_nonzeros=6)
    progress = SessionProgress(
        2, schedule, is_training=True, clock=FakeClock(), masked_weights=weights
    )
    assert progress.report(Pods()).masked_weights.num_nonzeros == 6
    progress.masked_weights = dataclasses.replace(weights, num_nonzeros=4)
    assert progress.report(Pods()).masked_weights.num_nonzeros == 4
