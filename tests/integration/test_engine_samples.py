"""Programs traced by the client, compiled and run on real processes, against its CPU backend."""

import dataclasses
import gzip
from pathlib import Path

import numpy as np
import pytest

from appliance.compiler.memory import MemoryNeed, limit_memory
from appliance.compiler.pipeline import compile_program
from appliance.core.micro_batches import WaferLimits, num_micro_batches
from appliance.core.plan import Precision
from tests.support.engine import make_engine

SAMPLES = Path(__file__).parents[1] / "conformance" / "samples"
NAMES = sorted(
    path.name.removesuffix(".mlir.gz")
    for path in SAMPLES.glob("*.mlir.gz")
    if not path.name.startswith("op.")
)
RANDOM = {"dropout"}
"""Samples whose random numbers are ours and not the CPU backend's."""

pytestmark = pytest.mark.slow


def load_sample(name):
    """Return plan, initial state and batches of a sample, and the CPU backend's results."""
    golden = np.load(SAMPLES / f"{name}.npz")
    inputs = {key.removeprefix("input/"): golden[key] for key in golden if key[:6] == "input/"}
    num_steps, batch_size = next(iter(inputs.values())).shape[:2]
    text = gzip.decompress((SAMPLES / f"{name}.mlir.gz").read_bytes()).decode()
    plan = compile_program(text, batch_size=batch_size, precision=Precision.F32)
    state = {
        tensor.resource_name: golden[f"initial/{tensor.resource_name}"] for tensor in plan.state
    }
    batches = [
        {tensor.value: inputs[tensor.input_name][step] for tensor in plan.inputs}
        for step in range(num_steps)
    ]
    return plan, state, batches, golden


def has_noise_gradient(resource_name, shape):
    """Mark elements whose gradient is zero but for rounding, which Adam then divides by itself.

    A constant added to every key of a softmax changes nothing, nor one in front of a batch norm.
    """
    index = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    if resource_name.endswith("attention.qkv.bias"):
        third = index.size // 3
        return (index >= third) & (index < 2 * third)
    is_conv_bias = "conv2.bias" in resource_name or "state.4.momentum_buffer" in resource_name
    return np.full(shape, is_conv_bias)


def assert_golden(name, found, want, tolerance):
    scale = np.nanmax(np.abs(want[np.isfinite(want)]), initial=0.0)
    np.testing.assert_allclose(
        found, want, rtol=tolerance, atol=tolerance * scale, equal_nan=True, err_msg=name
    )


def assert_result(name, result, golden, num_steps):
    for step, outputs in enumerate(result.outputs):
        for output, found in outputs.items():
            if f"output/{output}" in golden and name not in RANDOM:
                want = golden[f"output/{output}"][step]
                assert_golden(f"{name} {output} step {step}", found, want, 1e-5)
    for resource_name, found in result.snapshots[num_steps].items():
        key = f"final/{resource_name}"
        if key in golden and name not in RANDOM:
            kept = ~has_noise_gradient(resource_name, found.shape)
            assert_golden(f"{name} {resource_name}", found[kept], golden[key][kept], 1e-4)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("num_systems", [1, 2, 3])
def test_traced_programs_give_the_numbers_of_the_cpu_backend(tmp_path, num_systems):
    with make_engine(tmp_path, num_systems=num_systems) as engine:
        for session, name in enumerate(NAMES, start=1):
            plan, state, batches, golden = load_sample(name)
            result = engine.run(
                plan, state, batches, session=session, checkpoint_steps=[len(batches)]
            )
            assert_result(name, result, golden, len(batches))
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
    wafer_bytes = int(MemoryNeed(plan).peak_bytes(share, share) / 1.5)
    limits = WaferLimits(wafer_bytes=wafer_bytes)
    split = limit_memory(plan, num_systems=num_systems, limits=limits)
    assert num_micro_batches(split, num_systems) == 2
    with make_engine(tmp_path, num_systems=num_systems) as engine:
        result = engine.run(split, state, batches, checkpoint_steps=[len(batches)])
    assert_result("gpt_adamw", result, golden, len(batches))
    for system in range(num_systems):
        resident = result.readings["chief", system]["wsc_csx_activation_peak_bytes"]
        assert resident <= wafer_bytes


@pytest.mark.parametrize("name", ["cnn_bn_pool", "encoder_masks"])
def test_values_that_wait_for_the_whole_batch_are_right_in_micro_batches(tmp_path, name):
    plan, state, batches, golden = load_sample(name)
    split = dataclasses.replace(plan, micro_batch_size=1)
    with make_engine(tmp_path, num_systems=2) as engine:
        result = engine.run(split, state, batches, checkpoint_steps=[len(batches)])
    assert_result(name, result, golden, len(batches))
