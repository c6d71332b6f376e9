from dataclasses import replace
from pathlib import Path

import pytest

from appliance.core.cluster import readings
from appliance.core.errors import UserError
from appliance.core.ids import JobId, Role
from appliance.core.pods.pod_options import ChiefPodOptions
from appliance.core.pods.pod_spec import PodSpec
from appliance.wafer.hardware import CS2
from appliance.wafer.timing.system_timing import system_timing
from tests.support.plans import two_layer_plan
from workers.csx.simulated import SimulatedTime


def spec(index: int = 0, **options) -> PodSpec:
    here = Path("/run")
    return PodSpec(
        job=JobId("wsjob-a"),
        role=Role.CHIEF,
        index=index,
        runtime_dir=here,
        work_dir=here,
        management_address="",
        options=ChiefPodOptions(**options),
    )


def rates(num_systems: int, batch_size: int) -> list[dict[str, float]]:
    plan = two_layer_plan(batch_size=batch_size)
    return [
        dict(SimulatedTime.of(plan, spec(index), num_systems).readings(4))
        for index in range(num_systems)
    ]


def test_systems_go_in_step_and_their_rates_add_up_to_the_batch() -> None:
    systems = rates(3, 5)
    steps = {values[readings.SIMULATED_STEP] for values in systems}
    assert len(steps) == 1
    (step,) = steps
    assert sum(values[readings.SIMULATED_RATE] for values in systems) == pytest.approx(5 / step)
    assert systems[0][readings.SIMULATED_TOTAL] == pytest.approx(4 * step)
    assert systems[0][readings.SIMULATED_RATE] > systems[2][readings.SIMULATED_RATE]
    assert 0 < systems[2][readings.SIMULATED_UTILIZATION] < 1
    assert systems[0][readings.SIMULATED_WEIGHT_STREAM] > 0


def test_a_faster_machine_takes_less_time() -> None:
    plan = two_layer_plan(batch_size=4096, features=512, hidden=2048)
    times = [
        SimulatedTime.of(plan, spec(machine=name), 1).readings(1)[readings.SIMULATED_STEP]
        for name in ("cs2", "cs3")
    ]
    assert times[1] < times[0]


def test_a_pace_is_a_multiple_of_the_simulated_step() -> None:
    plan = two_layer_plan()
    paced = SimulatedTime.of(plan, spec(pace=10.0), 1)
    step = paced.readings(1)[readings.SIMULATED_STEP]
    assert paced.paced_step_seconds == pytest.approx(10 * step)
    assert SimulatedTime.of(plan, spec(pace=""), 1).paced_step_seconds == 0.0


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(UserError, match="CS-9"):
        SimulatedTime.of(two_layer_plan(), spec(machine="CS-9"), 1)


def test_a_plan_in_micro_batches_streams_its_weights_once_for_each() -> None:
    plan = two_layer_plan(batch_size=8)
    timings = [
        system_timing(replace(plan, micro_batch_size=size), machine=CS2, num_systems=2, index=0)
        for size in (None, 2, 1)
    ]
    assert [timing.weight_bytes / timings[0].weight_bytes for timing in timings] == pytest.approx(
        [1, 2, 4]
    )
    seconds = [timing.step_seconds for timing in timings]
    assert seconds == sorted(seconds)
