from appliance.core.cluster import readings
from appliance.core.cluster.records import PodRecord
from appliance.core.ids import JobId, PodName, Role
from appliance.wire.job_times import time_properties


def pod(role: Role, index: int, values: dict[str, float]) -> PodRecord:
    name = PodName(f"wsjob-a-{role.value}-{index}")
    return PodRecord(
        name=name, job=JobId("wsjob-a"), role=role, index=index, node="", readings=values
    )


def chief(index: int, *, step: float, rate: float, utilization: float, wall: float) -> PodRecord:
    return pod(
        Role.CHIEF,
        index,
        {
            readings.SIMULATED_STEP: step,
            readings.SIMULATED_RATE: rate,
            readings.SIMULATED_UTILIZATION: utilization,
            readings.WALL_STEP: wall,
            "wsc_csx_weight_bytes": 7.0,
        },
    )


def test_rates_add_up_times_are_the_slowest_and_utilisation_is_the_mean() -> None:
    properties = time_properties(
        [
            chief(0, step=0.5, rate=6.0, utilization=0.2, wall=1.25),
            chief(1, step=0.5, rate=4.0, utilization=0.1, wall=1.5),
        ]
    )
    assert properties["simulated_step_seconds"] == "0.5"
    assert properties["simulated_samples_per_second"] == "10"
    assert properties["simulated_utilization"] == "0.15"
    assert properties["wall_step_seconds"] == "1.5"
    assert properties["chief-1/wall_step_seconds"] == "1.5"
    assert properties["chief-0/simulated_samples_per_second"] == "6"
    assert properties.pop("execution") == "weight-streaming"
    assert len(properties) == 4 * 3


def test_a_job_without_simulated_readings_has_no_time_properties() -> None:
    assert time_properties([pod(Role.CHIEF, 0, {}), pod(Role.WEIGHT, 0, {"wsc_x": 1.0})]) == {}
