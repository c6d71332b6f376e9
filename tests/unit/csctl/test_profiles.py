import pytest
from jsonschema import ValidationError  # type: ignore[import-untyped]

from csctl.output.profiles import PROFILE_COLUMNS, chrome_trace, modules, profile_document
from csctl.output.table import render
from protos.appliance.appliance_service_pb2 import FinalizeResponse
from tests.support.chrome_trace import assert_chrome_trace

Event = FinalizeResponse.EventTrace


def step() -> list[Event]:
    return [
        Event(name="step = 1", event_type=Event.STEP, cat="step", dur=10.0),
        Event(name="fc.fwd", event_type=Event.OP, cat="fwd", dur=2.0, pytorch_ops=["MatMul"]),
        Event(name="fc.bwd", event_type=Event.OP, cat="bwd", ts=2.0, dur=4.0),
        Event(name="fc.fwd", event_type=Event.OP, cat="fwd", ts=6.0, dur=3.0),
        Event(name="iteration boundary", event_type=Event.OP, cat="layer-step", ts=9.0, dur=1.0),
    ]


def test_modules_are_added_up_by_direction_and_percentages_sum_to_one_hundred() -> None:
    rows = modules(step())
    assert [(row.module, row.direction) for row in rows] == [
        ("fc", "fwd"),
        ("fc", "bwd"),
        ("iteration boundary", ""),
    ]
    assert rows[0].simulated_seconds == pytest.approx(5e-6)
    assert [row.percent for row in rows] == pytest.approx([50, 40, 10])
    assert "SIMULATED-MS" in render(PROFILE_COLUMNS, rows)
    assert len(profile_document(rows)["items"]) == 3  # type: ignore[arg-type]


def test_the_trace_is_in_chromes_format() -> None:
    assert_chrome_trace(chrome_trace(step()))
    events = chrome_trace(step())["traceEvents"]
    assert isinstance(events, list)
    assert {"ph", "ts", "dur", "pid", "tid", "name", "cat"} <= events[1].keys()  # type: ignore[union-attr]
    assert [event["dur"] for event in events] == [10.0, 2.0, 4.0, 3.0, 1.0]  # type: ignore[index,call-overload]


def test_the_check_of_traces_finds_what_is_wrong() -> None:
    fine = {"name": "a", "ph": "X", "ts": 0.0, "dur": 2.0, "pid": 0, "tid": 0}
    assert_chrome_trace({"traceEvents": [fine, {**fine, "name": "b", "ts": 1.0, "dur": 1.0}]})
    for wrong in ({"ts": -1.0}, {"ph": "Z"}, {"name": ""}, {"cat": "a,,b"}, {"args": 3}):
        with pytest.raises(ValidationError):
            assert_chrome_trace({"traceEvents": [{**fine, **wrong}]})
    with pytest.raises(ValidationError):
        assert_chrome_trace({"traceEvents": [{k: v for k, v in fine.items() if k != "dur"}]})
    with pytest.raises(AssertionError, match="overlaps"):
        assert_chrome_trace({"traceEvents": [fine, {**fine, "ts": 1.0}]})
