import itertools
import json

import pytest

from appliance.wafer.hardware import CS2
from appliance.wafer.planner.transformer import Transformer
from appliance.wafer.planner.transformer_program import transformer_program
from appliance.wafer.timing.layer_timing import StepTiming, step_timing
from appliance.wafer.timing.step_profile import SpanKind, module_shares, run_spans, trace_events
from tests.support.chrome_trace import assert_chrome_trace


@pytest.fixture
def timing() -> StepTiming:
    model = Transformer(
        name="small", layers=4, hidden=512, heads=8, ffn=2048, vocab=32_000, sequence=512
    )
    return step_timing(transformer_program(model), machine=CS2, batch_size=64, micro_batch=32)


def test_percentages_sum_to_one_hundred(timing: StepTiming) -> None:
    assert sum(row.percent for row in module_shares(timing)) == pytest.approx(100)


def test_the_most_expensive_module_comes_first_and_backward_costs_more(timing: StepTiming) -> None:
    rows = module_shares(timing)
    seconds = {(row.module, row.direction): row.seconds for row in rows}
    assert [row.seconds for row in rows] == sorted(seconds.values(), reverse=True)
    assert seconds["blocks.2", "bwd"] > seconds["blocks.2", "fwd"]


def test_shares_are_all_of_the_computation(timing: StepTiming) -> None:
    whole = sum(row.seconds for row in module_shares(timing))
    assert whole == pytest.approx(timing.num_micro_batches * timing.layers[-1].end_seconds)


def test_the_trace_is_what_perfetto_reads(timing: StepTiming) -> None:
    trace = {"traceEvents": trace_events(timing), "displayTimeUnit": "ms"}
    assert_chrome_trace(trace)
    events = json.loads(json.dumps(trace))["traceEvents"]
    complete = [event for event in events if event["ph"] == "X"]
    assert {event["tid"] for event in complete} == {0, 1, 2}
    for event in complete:
        assert event["ts"] >= 0
        assert event["dur"] > 0
        assert {"name", "cat", "pid", "tid"} <= event.keys()


def test_nothing_on_one_track_overlaps(timing: StepTiming) -> None:
    for track in (0, 2):
        spans = [
            (event["ts"], event["dur"])
            for event in trace_events(timing)
            if event["ph"] == "X" and event["tid"] == track
        ]
        for (start, length), (following, _) in itertools.pairwise(spans):
            assert following >= start + length - 1e-6  # type: ignore[operator]


def test_a_runs_layer_steps_and_boundaries_are_all_of_its_time(timing: StepTiming) -> None:
    spans = run_spans(timing, range(3, 5))
    parts = [span for span in spans if span.kind is SpanKind.LAYER_STEP]
    assert parts[0].start_seconds == 0.0
    for span, following in itertools.pairwise(parts):
        assert following.start_seconds == pytest.approx(span.start_seconds + span.seconds)
    assert parts[-1].start_seconds + parts[-1].seconds == pytest.approx(2 * timing.seconds)
    assert [span.name for span in spans if span.kind is SpanKind.STEP] == ["step = 3", "step = 4"]
    assert {span.direction for span in parts} <= {"fwd", "bwd", ""}
