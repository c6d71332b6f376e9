"""Traced programs in micro-batches: what comes out is what a share at once gives, but rounding."""

import gzip
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from appliance.compiler.pipeline import compile_program
from appliance.core.plans.micro_batches import WaferLimits, num_micro_batches, segments
from appliance.core.plans.plan import Plan, Precision
from appliance.wafer.timing.program_operations import program_step
from appliance.wafer.timing.sample_memory import need_bytes
from tests.support.plan_machine import PlanMachine

SAMPLES = Path(__file__).parent / "samples"
PROGRAMS = ["mlp_sgd", "mlp_with_logits", "gpt_adamw", "dropout", "encoder_masks", "cnn_bn_pool"]
NUM_STEPS = 2


def load(name: str, limits: WaferLimits) -> tuple[Plan, dict[str, np.ndarray]]:
    text = gzip.decompress((SAMPLES / f"{name}.mlir.gz").read_bytes()).decode()
    golden = dict(np.load(SAMPLES / f"{name}.npz"))
    batch = next(a.shape[1] for key, a in golden.items() if key[:6] == "input/" and a.ndim > 1)
    plan = compile_program(text, batch_size=batch, precision=Precision.F32, limits=limits)
    return plan, golden


@cache
def unsplit(name: str) -> tuple[Plan, dict[str, np.ndarray], dict[str, np.ndarray]]:
    plan, golden = load(name, WaferLimits())
    return plan, golden, play(plan, golden, num_systems=1)


def play(plan: Plan, golden: dict[str, np.ndarray], num_systems: int) -> dict[str, np.ndarray]:
    """Return the outputs of two steps and the state after them."""
    state = {key.removeprefix("initial/"): a for key, a in golden.items() if "initial/" in key}
    inputs = {key.removeprefix("input/"): a for key, a in golden.items() if "input/" in key}
    machine = PlanMachine(plan, state, num_systems)
    found = {}
    for step in range(NUM_STEPS):
        batch = {name: array[step] for name, array in inputs.items()}
        found |= {f"{name} {step}": value for name, value in machine.step(batch, step).items()}
    return found | machine.final_state()


def assert_same(found, want):
    for name, value in want.items():
        scale = np.abs(value).max(initial=0.0)
        # Gradients that are zero but for rounding leave nothing to compare.
        atol = max(1e-5 * scale, 1e-7)
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=atol, err_msg=name)


@pytest.mark.parametrize("num_systems", [1, 2, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_micro_batches_give_the_numbers_of_the_share_at_once(name, num_systems):
    plan, golden, want = unsplit(name)
    for micro_batch_size in (1, 2, 3):
        split = replace(plan, micro_batch_size=micro_batch_size)
        assert_same(play(split, golden, num_systems), want)


def test_logits_of_every_sample_come_out_in_order():
    plan, golden, want = unsplit("mlp_with_logits")
    found = play(replace(plan, micro_batch_size=1), golden, num_systems=2)
    logits = [name for name, value in want.items() if value.shape[:1] == (plan.batch_size,)]
    assert logits
    for name in logits:
        np.testing.assert_allclose(found[name], want[name], rtol=1e-5, atol=1e-7)


def test_a_gpt_that_needs_one_and_a_half_wafers_is_split_and_trains():
    plan, golden, want = unsplit("gpt_adamw")
    wafer_bytes = int(need_bytes(program_step(plan), plan.batch_size) / 1.5)
    split, _ = load("gpt_adamw", WaferLimits(wafer_bytes=wafer_bytes))
    assert num_micro_batches(split, 1) == 2
    assert_same(play(split, golden, num_systems=1), want)


def test_the_count_of_labels_and_batch_statistics_cut_a_step_into_segments():
    assert [len(part) for part in segments(unsplit("gpt_adamw")[0])] == [1, 11]
    assert len(segments(unsplit("cnn_bn_pool")[0])) == 7
