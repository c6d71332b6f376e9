import pytest

from appliance.coordinator.run.simulated.profiles import profile, profiled_steps
from appliance.core.errors import UserError
from appliance.wafer.hardware import CS2
from appliance.wafer.timing.system_timing import plan_timing
from protos.appliance.appliance_service_pb2 import FinalizeResponse, LoadRequest
from tests.support.plans import two_layer_plan

Event = FinalizeResponse.EventTrace


def load_request(first: int, last: int) -> LoadRequest:
    config = LoadRequest.OpProfilerConfig(start_step=first, end_step=last)
    return LoadRequest(op_profiler_config=config)


def test_the_last_step_asked_for_belongs_to_the_profile() -> None:
    assert list(profiled_steps(load_request(2, 4))) == [2, 3, 4]
    assert list(profiled_steps(load_request(1, 2))) == [1, 2]
    assert list(profiled_steps(load_request(3, 3))) == [3]
    assert not profiled_steps(LoadRequest())


@pytest.mark.parametrize(("first", "last"), [(0, 2), (3, 2)])
def test_impossible_steps_are_refused(first: int, last: int) -> None:
    with pytest.raises(UserError, match="cannot be profiled"):
        profiled_steps(load_request(first, last))


def test_modules_fill_the_whole_time_and_the_last_event_ends_it() -> None:
    plan = two_layer_plan()
    events = profile(plan, range(2, 4), machine=CS2, num_systems=2)
    whole = events[-1].ts + events[-1].dur
    step = plan_timing(plan, machine=CS2, num_systems=2)
    assert whole == pytest.approx(2e6 * step.seconds)
    modules = [event for event in events if " = " not in event.name]
    assert sum(event.dur for event in modules) == pytest.approx(whole)
    assert {"fc1.fwd", "fc2.fwd", "loss"} <= {event.name for event in modules}


def test_steps_enclose_their_micro_batches_and_those_their_layer_steps() -> None:
    events = profile(two_layer_plan(), range(1, 3), machine=CS2, num_systems=1)
    steps = [event for event in events if event.event_type == Event.STEP]
    assert [event.name for event in steps] == ["step = 1", "step = 2"]
    enclosing: list[Event] = []
    for event in events:
        while enclosing and event.event_type <= enclosing[-1].event_type:
            enclosing.pop()
        if enclosing:
            outer = enclosing[-1]
            assert event.ts >= outer.ts - 1e-6
        enclosing.append(event)
    assert all(event.dur > 0 for event in events)


def test_operations_are_named() -> None:
    events = profile(two_layer_plan(), range(1, 2), machine=CS2, num_systems=1)
    (first,) = [event for event in events if event.name == "fc1.fwd"]
    assert first.pytorch_ops == ["MatMul"]
