import pytest

from csctl.output.profiles import PROFILE_COLUMNS, chrome_trace, modules, profile_document
from csctl.output.table import render
from protos.appliance.appliance_service_pb2 import FinalizeResponse

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
    events = chrome_trace(step())["traceEvents"]
    assert isinstance(events, list)
    assert {"ph", "ts", "dur", "pid", "tid", "name", "cat"} <= events[1].keys()  # type: ignore[union-attr]
    assert [event["dur"] for event in events] == [10.0, 2.0, 4.0, 3.0, 1.0]  # type: ignore[index,call-overload]
