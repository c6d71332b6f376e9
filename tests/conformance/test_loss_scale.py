"""A dynamic loss scale overflows where 16-bit formats are rounded to, and nowhere else."""

import gzip
from dataclasses import replace

import numpy as np
import pytest

from appliance.compiler.importer import import_program
from appliance.compiler.pipeline import lower, normal_form
from appliance.core.plans.plan import Precision
from tests.conformance.test_numerics import SAMPLES, Machine, by_program

SCALE = "state.grad_scaler.0.loss_scale"
WEIGHT = "state.model.fc1.weight"
FIRST = 2.0**31
STEPS = 20
TEXT = gzip.decompress((SAMPLES / "dynamic_loss_scale.mlir.gz").read_bytes()).decode()


def trained(precision, half="float16"):
    """Train from a loss scale of 2^31; return scale and whether weights changed, step by step."""
    graph = normal_form(import_program(TEXT))
    graph = replace(graph, attributes={**graph.attributes, "cs.fp16_type": half})
    graph = lower(graph, precision=precision)
    golden = dict(np.load(SAMPLES / "dynamic_loss_scale.npz"))
    golden[f"initial/{SCALE}"] = np.float32(FIRST)
    machine, run = Machine(graph, golden), by_program(graph)
    value = {a.resource_name: a.name for a in machine.state}
    seen = []
    for _ in range(STEPS):
        before = machine.values[value[WEIGHT]]
        machine.step(run, golden, 0)
        after = machine.values[value[WEIGHT]]
        assert np.isfinite(after).all()
        seen.append((float(machine.values[value[SCALE]]), bool((after != before).any())))
    return seen


def test_exact_float16_skips_steps_until_the_scale_fits():
    seen = trained(Precision.EXACT)
    skipped = [changed for _, changed in seen].index(True)
    assert 8 <= skipped < STEPS
    assert [scale for scale, _ in seen[:skipped]] == [FIRST / 2**n for n in range(1, skipped + 1)]
    fits = seen[skipped][0]
    assert all(scale <= 2 * fits for scale, _ in seen[skipped:])


@pytest.mark.parametrize(
    ("precision", "half"),
    [(Precision.F32, "float16"), (Precision.F32, "cbfloat16"), (Precision.EXACT, "bfloat16")],
)
def test_where_nothing_overflows_no_step_is_skipped_and_the_scale_grows(precision, half):
    seen = trained(precision, half)
    assert all(changed for _, changed in seen)
    assert [scale for scale, _ in seen] == sorted(scale for scale, _ in seen)
    assert seen[-1][0] > FIRST
