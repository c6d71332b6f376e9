"""Products of routed rows cost and hold their share; so does what is made of their results."""

import pytest

from appliance.core.ir.graph import Direction, Node
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.plans.plan import InputTensor, LayerStep, Plan, Precision
from appliance.wafer.timing.operations import Kind
from appliance.wafer.timing.plan_memory import plan_memory
from appliance.wafer.timing.program_operations import program_step
from appliance.wafer.timing.routing import routed_values

BATCH, TOKENS, WIDTH, HIDDEN = 4, 32, 8, 16
X = TensorType((BATCH, TOKENS, WIDTH), DType.F16)
H = TensorType((BATCH, TOKENS, HIDDEN), DType.F16)
MASK = TensorType((BATCH, TOKENS), DType.I16)
W = TensorType((HIDDEN, WIDTH), DType.F16)


def node(op: str, operands: tuple[str, ...], results: dict[str, TensorType], **attributes) -> Node:
    return Node(
        op=op,
        operands=operands,
        results=tuple(results),
        types=tuple(results.values()),
        attributes=attributes,
    )


def expert(share: float | None) -> Plan:
    """One expert with a bias: its masked product, the mask once more, an activation."""
    attributes = {} if share is None else {"active_share": share}
    wide = {"dx": X, "dw": W}
    nodes = (
        node("Cast", ("mask",), {"m": MASK}),
        node("SparseActMatMul", ("x", "m", "w"), {"h": H}, **attributes),
        node("BroadcastInDim", ("mask",), {"spread": H}, broadcast_dimensions=(0, 1)),
        node("Add", ("h", "bias"), {"shifted": H}),
        node("Mul", ("shifted", "spread"), {"masked": H}),
        node("Gelu", ("masked",), {"active": H}, approximation="NONE"),
        node("SparseActMatMulGrad", ("active", "x", "m", "w"), wide, **attributes),
    )
    types = {"x": X, "w": W, "mask": MASK, "bias": H}
    types |= {name: t for n in nodes for name, t in zip(n.results, n.types, strict=True)}
    step = LayerStep(
        name="experts.fwd",
        module="experts",
        direction=Direction.FORWARD,
        loads=("w",),
        nodes=nodes,
        sums=(),
    )
    return Plan(
        key="cs_0",
        batch_size=BATCH,
        precision=Precision.F32,
        state=(),
        inputs=(InputTensor(input_name="x", value="x", type=X, wire_dtype=DType.F16),),
        outputs=(),
        wafer_constants=(),
        layer_steps=(step,),
        update_constants=(),
        updates=(),
        sharded={name: 0 for name in types if name not in ("w", "dw")},
        types=types,
    )


def test_zeros_are_followed_through_mask_and_activation():
    shares = routed_values(expert(0.25))
    assert set(shares.values()) == {0.25}
    assert {"h", "masked", "active", "dx"} <= set(shares)
    assert "shifted" not in shares  # a bias is added to every row


def test_an_unknown_share_is_the_whole():
    assert routed_values(expert(None)) == {}


def test_products_count_the_rows_that_they_compute():
    table = program_step(expert(0.25)).table
    whole = program_step(expert(None)).table
    products = (table.kind == Kind.MATMUL) | (table.kind == Kind.WEIGHT_GRADIENT)
    assert products.sum() == 3
    assert table.macs().sum() == pytest.approx(0.25 * whole.macs().sum())
    assert whole.macs().sum() == 3 * TOKENS * WIDTH * HIDDEN


def test_memory_counts_the_rows_that_are_held():
    def held(plan: Plan) -> dict[str, float]:
        return {value.name: value.sample_bytes for value in plan_memory(plan, set()).values}

    some, whole = held(expert(0.25)), held(expert(None))
    assert some["h"] == 0.25 * whole["h"] == 0.25 * 2 * TOKENS * HIDDEN
    assert some["shifted"] == whole["shifted"]
