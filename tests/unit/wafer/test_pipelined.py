"""Pipelined execution: what replicas exchange."""

import pytest

from appliance.wafer.hardware import CS2
from appliance.wafer.planner.transformer_program import transformer_program
from appliance.wafer.timing.pipelined import GRADIENT_BYTES, pipelined_timing
from benchmarks.wafer_model.logs import BERT_LARGE_128


@pytest.fixture(scope="module")
def program():
    return transformer_program(BERT_LARGE_128)


def test_replicas_send_and_receive_each_layers_gradients_over_the_systems_links(program):
    timing = pipelined_timing(program, machine=CS2, batch_size=8, num_systems=2)
    exchanged = [
        layer.gradient_elements * GRADIENT_BYTES / CS2.io_bytes_per_second
        for layer in program.layers
    ]
    assert max(exchanged) > 0
    assert [layer.injection_seconds for layer in timing.layers] == pytest.approx(exchanged)
    assert [layer.drain_seconds for layer in timing.layers] == pytest.approx(exchanged)


def test_one_system_exchanges_nothing(program):
    timing = pipelined_timing(program, machine=CS2, batch_size=8)
    assert {layer.injection_seconds + layer.drain_seconds for layer in timing.layers} == {0.0}


def test_layer_steps_follow_each_other_and_share_the_step(program):
    layers = pipelined_timing(program, machine=CS2, batch_size=8, num_systems=2).layers
    starts = [layer.start_seconds for layer in layers]
    ends = [layer.end_seconds for layer in layers]
    assert starts == pytest.approx([0.0, *ends[:-1]])
    assert [end - start for start, end in zip(starts, ends, strict=True)] == pytest.approx(
        [layer.compute_seconds for layer in layers]
    )
