"""Programs traced by the client, compiled and run on real processes, against its CPU backend."""

import dataclasses

import numpy as np
import pytest

from appliance.compiler.wafer_memory import limit_memory
from appliance.core.plans.micro_batches import WaferLimits, num_micro_batches
from appliance.core.plans.plan import Execution
from appliance.wafer.timing.program_operations import program_step
from appliance.wafer.timing.sample_memory import need_bytes
from tests.conformance.test_numerics import NAMES, assert_golden, has_noise_gradient, num_steps
from tests.conformance.test_plans import load
from tests.support.engine import make_engine
from tests.support.two_strands import TWO_STRANDS

SHOWN_AND_SENT = "op.norm_l2_over_batch"
"""An operation whose result MemoryX both gives out and sends back to the systems."""
MODELS = [name for name in NAMES if "." not in name or name == SHOWN_AND_SENT]
"""Whole models; the samples of other operations and layers are played without processes."""

pytestmark = pytest.mark.slow


def load_sample(name):
    """Return plan, initial state and batches of a sample, and the CPU backend's results."""
    plan, golden = load(name)
    state = {
        tensor.resource_name: golden[f"initial/{tensor.resource_name}"] for tensor in plan.state
    }
    batches = [
        {tensor.value: golden[f"input/{tensor.input_name}"][step] for tensor in plan.inputs}
        for step in range(num_steps(golden))
    ]
    return plan, state, batches, golden


def assert_result(result, golden, last_step):
    for step, outputs in enumerate(result.outputs):
        for output, found in outputs.items():
            if f"output/{output}" in golden:
                assert_golden(output, found, golden[f"output/{output}"][step], 1e-5)
    for resource_name, found in result.snapshots[last_step].items():
        if (expected := golden.get(f"final/{resource_name}")) is None:
            continue
        noise = has_noise_gradient(resource_name, np.arange(expected.size))
        kept = ~noise.reshape(expected.shape)
        assert_golden(resource_name, found[kept], expected[kept], 1e-4)


@pytest.mark.parametrize(
    ("num_systems", "options"),
    [(1, {}), (2, {}), (3, {}), (1, TWO_STRANDS)],
    ids=["1", "2", "3", "1 of two strands"],
)
def test_traced_programs_give_the_numbers_of_the_cpu_backend(tmp_path, num_systems, options):
    with make_engine(tmp_path, num_systems=num_systems, **options) as engine:
        for session, name in enumerate(MODELS, start=1):
            plan, state, batches, golden = load_sample(name)
            result = engine.run(
                plan, state, batches, session=session, checkpoint_steps=[len(batches)]
            )
            assert_result(result, golden, len(batches))
            for system in range(num_systems):
                held = result.readings["chief", system]["wsc_csx_layer_steps_held_peak"]
                assert held <= 2


def test_a_dropout_mask_does_not_depend_on_the_number_of_systems(tmp_path):
    plan, state, batches, _ = load_sample("dropout")
    losses = []
    for num_systems in (1, 3):
        directory = tmp_path / str(num_systems)
        directory.mkdir()
        with make_engine(directory, num_systems=num_systems) as engine:
            result = engine.run(plan, state, batches)
        losses.append([float(outputs["output_loss"]) for outputs in result.outputs])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)


def test_a_traced_gpt_gives_the_same_bits_every_time(tmp_path):
    plan, state, batches, _ = load_sample("gpt_adamw")
    with make_engine(tmp_path, num_systems=2) as engine:
        first, second = (
            engine.run(plan, state, batches, session=session, checkpoint_steps=[len(batches)])
            for session in (1, 2)
        )
    for one, two in zip(first.outputs, second.outputs, strict=True):
        assert all(tensor.tobytes() == two[name].tobytes() for name, tensor in one.items())
    state = second.snapshots[len(batches)]
    for name, tensor in first.snapshots[len(batches)].items():
        assert tensor.tobytes() == state[name].tobytes(), name


@pytest.mark.parametrize("num_systems", [1, 2])
def test_a_gpt_that_needs_one_and_a_half_wafers_trains_in_micro_batches(tmp_path, num_systems):
    plan, state, batches, golden = load_sample("gpt_adamw")
    share = plan.batch_size // num_systems
    wafer_bytes = int(need_bytes(program_step(plan), share) / 1.5)
    limits = WaferLimits(wafer_bytes=wafer_bytes)
    split = limit_memory(plan, num_systems=num_systems, limits=limits)
    assert num_micro_batches(split, num_systems) == 2
    with make_engine(tmp_path, num_systems=num_systems) as engine:
        result = engine.run(split, state, batches, checkpoint_steps=[len(batches)])
    assert_result(result, golden, len(batches))


@pytest.mark.parametrize("name", ["cnn_bn_pool", "encoder_masks"])
def test_values_that_wait_for_the_whole_batch_are_right_in_micro_batches(tmp_path, name):
    plan, state, batches, golden = load_sample(name)
    split = dataclasses.replace(plan, micro_batch_size=1)
    with make_engine(tmp_path, num_systems=2) as engine:
        result = engine.run(split, state, batches, checkpoint_steps=[len(batches)])
    assert_result(result, golden, len(batches))


@pytest.mark.parametrize("num_systems", [1, 2])
def test_pipelined_execution_gives_the_same_bits_and_streams_weights_once_a_step(
    tmp_path, num_systems
):
    plan, state, batches, golden = load_sample("gpt_adamw")
    found = {}
    for execution in Execution:
        directory = tmp_path / execution[:1]  # the path of a socket is at most 107 bytes long
        directory.mkdir()
        chosen = dataclasses.replace(plan, execution=execution)
        with make_engine(directory, num_systems=num_systems) as engine:
            found[execution] = engine.run(chosen, state, batches, checkpoint_steps=[len(batches)])
    streamed, resident = found[Execution.WEIGHT_STREAMING], found[Execution.PIPELINED]
    assert_result(resident, golden, len(batches))
    for one, two in zip(streamed.outputs, resident.outputs, strict=True):
        assert all(tensor.tobytes() == two[name].tobytes() for name, tensor in one.items())
    for name, tensor in streamed.snapshots[len(batches)].items():
        assert tensor.tobytes() == resident.snapshots[len(batches)][name].tobytes(), name
    loads = {name for step in plan.layer_steps for name in step.loads}
    once = sum(plan.types[name].num_bytes for name in loads)
    chief = resident.readings["chief", 0]
    assert chief["wsc_csx_resident_weight_bytes"] == once
    assert streamed.readings["chief", 0]["wsc_csx_resident_weight_bytes"] == 0
    copied = "wsc_swarmx_broadcast_copied_bytes"
    sent = resident.readings["broadcastreduce", 0][copied]
    assert sent <= once * len(batches) * 1.01
    assert sent < 0.7 * streamed.readings["broadcastreduce", 0][copied]


def test_pipelined_execution_is_right_with_statistics_of_the_batch_in_micro_batches(tmp_path):
    plan, state, batches, golden = load_sample("cnn_bn_pool")
    pipelined = dataclasses.replace(plan, execution=Execution.PIPELINED, micro_batch_size=1)
    with make_engine(tmp_path, num_systems=2) as engine:
        result = engine.run(pipelined, state, batches, checkpoint_steps=[len(batches)])
    assert_result(result, golden, len(batches))
