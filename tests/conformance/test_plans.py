"""Compiled plans, played on 1, 2 and 3 systems, give the numbers of the client's CPU backend."""

import gzip
from functools import cache

import numpy as np
import pytest

from appliance.compiler.passes.layers import layer_of_resource
from appliance.compiler.pipeline import compile_program
from appliance.core.plans.plan import Plan, Precision
from appliance.core.plans.plan_text import parse_plan, print_plan
from tests.conformance.test_numerics import (
    LOOSE,
    NAMES,
    SAMPLES,
    assert_golden,
    has_noise_gradient,
    num_steps,
)
from tests.support.plan_machine import PlanMachine

# Two samples differ between any two correct implementations by more than the rest: the lowering of
# scaled dot product attention rests on a 16-bit constant.
TOLERANCE = {**LOOSE, "layer.scaled_dot_product_attention": 2e-4}


@cache  # seven tests play the plan of each sample
def load(name: str, precision: Precision = Precision.F32) -> tuple[Plan, dict[str, np.ndarray]]:
    text = gzip.decompress((SAMPLES / f"{name}.mlir.gz").read_bytes()).decode()
    golden = dict(np.load(SAMPLES / f"{name}.npz"))
    sizes = [a.shape[1] for key, a in golden.items() if key.startswith("input/") and a.ndim > 1]
    return compile_program(text, batch_size=min(sizes), precision=precision), golden


def play(plan: Plan, golden: dict[str, np.ndarray], num_systems: int):
    """Yield the outputs of each step, then the final state."""
    state = {key.removeprefix("initial/"): a for key, a in golden.items() if "initial/" in key}
    machine = PlanMachine(plan, state, num_systems)
    for step in range(num_steps(golden)):
        yield machine.step(
            {key.removeprefix("input/"): a[step] for key, a in golden.items() if "input/" in key},
            step,
        )
    yield machine.final_state()


# Two systems are held against one below, for programs of more than one operation.
@pytest.mark.parametrize("num_systems", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_a_plan_gives_the_numbers_of_the_cpu_backend(name, num_systems):
    plan, golden = load(name)
    tolerance = TOLERANCE.get(name, 1e-5)
    *steps, final = play(plan, golden, num_systems)
    for index, outputs in enumerate(steps):
        for output, value in outputs.items():
            if f"output/{output}" in golden:
                assert_golden(output, value, golden[f"output/{output}"][index], tolerance)
    for resource, value in final.items():
        if (expected := golden.get(f"final/{resource}")) is None:
            continue
        noise = has_noise_gradient(resource, np.arange(expected.size)).reshape(expected.shape)
        assert_golden(resource, value[~noise], expected[~noise], max(1e-4, tolerance))


@pytest.mark.parametrize("precision", list(Precision))
@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(("op.", "omit."))])
def test_the_number_of_systems_changes_nothing_but_rounding(name, precision):
    plan, golden = load(name, precision)
    tolerance = 1e-6 if precision is Precision.F32 else 2e-2
    one, two = (next(play(plan, golden, num_systems)) for num_systems in (1, 2))
    for output, value in one.items():
        assert_golden(output, two[output], value, tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_of_real_locations_survives_being_printed(name):
    plan, _ = load(name)
    assert parse_plan(print_plan(plan)) == plan


@pytest.mark.parametrize("name", NAMES)
def test_layer_steps_hold_one_layers_weights_and_run_both_ways(name):
    plan, _ = load(name)
    resources = {tensor.value: tensor.resource_name for tensor in plan.state}
    for step in plan.layer_steps:
        weights = [n for n in step.loads if plan.types[n].shape and n in resources]
        layers = {layer_of_resource(resources[n]) for n in weights}
        # A module may use a child's weights itself, as nn.MultiheadAttention does: one layer.
        inner = {layer for layer in layers if any(layer.startswith(f"{o}.") for o in layers)}
        assert len(layers - inner) <= 1
    if name == "gpt_adamw":
        names = [step.name for step in plan.layer_steps]
        forward = ["tokens.fwd", "Gpt_1.fwd", "blocks.0.fwd", "blocks.1.fwd", "norm.fwd"]
        backward = ["head.bwd", "norm.bwd", "blocks.1.bwd", "blocks.0.bwd", "tokens.bwd"]
        assert names == ["counts", *forward, "head.fwd", *backward]
