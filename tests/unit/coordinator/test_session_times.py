from appliance.coordinator.run.session_times import session_event
from appliance.core.cluster import readings
from protos.wsc.v1.management_pb2 import PodReport


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
        "Session 2: simulated wafer time 0.01 s for 5 steps on 2 system(s), "
        "weight-streaming, 1000 simulated samples/s, 25.00% simulated utilisation; wall time 1.5 s."
    )


def test_a_session_without_a_step_tells_nothing() -> None:
    assert session_event(1, [PodReport(role="weight", step=3), report(0, step=0, wall=0.0)]) is None


def test_a_session_whose_weights_stayed_says_so() -> None:
    pod = report(0, step=5, wall=1.0)
    pod.readings[readings.RESIDENT_WEIGHTS] = 1024.0
    event = session_event(1, [pod])
    assert event is not None
    assert "on 1 system(s), pipelined, 500 simulated" in event.message
