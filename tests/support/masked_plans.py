"""Traced programs with masked weights, and data for them.

`masked_adamw.mlir` is what the client makes of two linear layers under `cstorch.sparse.Static` and
AdamW, without places in the user's code; `masked_tied.mlir` is an embedding that is the head too,
with a linear layer between them and gradients clipped by their norm.

`CHANGING` are the two linear layers under algorithms that compute a new mask in every step and take
it in every second one: GMP, whose sparsity grows by an eighth a step from a quarter on, and RigL
and SET with gradients clipped by their norm.
"""

import dataclasses
from pathlib import Path

import numpy as np

from appliance.compiler.pipeline import compile_program
from appliance.core.ir.tensors import DType
from appliance.core.plans.plan import Plan, Precision

TEXT = Path(__file__).with_name("masked_adamw.mlir")
TIED = Path(__file__).with_name("masked_tied.mlir")
CHANGING = {
    name: Path(__file__).with_name(f"masked_{name}.mlir") for name in ("gmp", "rigl", "set")
}
BATCH_SIZE = 4


def masked_plan(precision: Precision = Precision.F32, text: Path = TEXT) -> Plan:
    return compile_program(text.read_text(), batch_size=BATCH_SIZE, precision=precision)


def dense(plan: Plan) -> Plan:
    """Return a plan that names no sparse weight."""
    return dataclasses.replace(plan, sparse=())


def masked_data(plan: Plan, *, density: float, num_steps: int = 5):
    """Return initial state, whose masks keep a share of the weights, and batches."""
    rng = np.random.default_rng(7)
    state = {}
    for tensor in plan.state:
        name, shape = tensor.resource_name, tensor.type.shape
        if tensor.type.dtype is DType.I1:
            state[name] = rng.random(shape) < density
        elif name.startswith("state.model"):
            state[name] = rng.normal(0, 0.3, shape).astype(np.float32)
        elif name.endswith("power"):
            state[name] = np.float32(0.9 if "beta1" in name else 0.999)
        else:
            state[name] = np.zeros(shape, tensor.type.dtype.container)
    return state, [_batch(plan, rng) for _ in range(num_steps)]


def _batch(plan: Plan, rng: np.random.Generator):
    return {
        tensor.value: rng.normal(size=tensor.type.shape).astype(np.float32)
        if tensor.type.dtype.is_float
        else rng.integers(0, 8, tensor.type.shape).astype(tensor.type.dtype.container)
        for tensor in plan.inputs
    }
