"""A plan written by hand: one attention block, forward and backward, against its description."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from appliance.core.ir.graph import Attribute, Direction, Node
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.plans.plan import InputTensor, LayerStep, Plan, Precision, StateTensor, Sum
from appliance.wafer.hardware import CS2
from appliance.wafer.planner.transformer import Transformer
from appliance.wafer.planner.transformer_program import transformer_program
from appliance.wafer.timing.layer_timing import step_timing
from appliance.wafer.timing.operations import Kind, Operation
from appliance.wafer.timing.program_operations import _causal, program_step

BATCH, SEQUENCE, HIDDEN, HEADS, FFN = 4, 64, 128, 4, 512
WIDTH = HIDDEN // HEADS


class PlanBuilder:
    """Collects nodes and types; weights and gradients are replicated, the rest is sharded."""

    def __init__(self, sequence: int, dtype: DType) -> None:
        self.dtype = dtype
        self.sequence = sequence
        self.tokens = BATCH * sequence
        self.types: dict[str, TensorType] = {}
        self.sharded: dict[str, int] = {}
        self.nodes: list[Node] = []

    def value(self, name: str, shape: Iterable[int], *, is_sharded: bool = True) -> str:
        self.types[name] = TensorType(tuple(shape), self.dtype)
        if is_sharded:
            self.sharded[name] = 0
        return name

    def node(
        self,
        op: str,
        operands: tuple[str, ...],
        result: str,
        shape: Iterable[int],
        *,
        is_sharded: bool = True,
        **attributes: Attribute,
    ) -> None:
        self.value(result, shape, is_sharded=is_sharded)
        self.nodes.append(
            Node(
                op=op,
                operands=operands,
                results=(result,),
                types=(self.types[result],),
                attributes=attributes,
            )
        )

    def product(self, left: str, weight: str, result: str, columns: int) -> None:
        self.node(
            "MatMul",
            (left, weight),
            result,
            (self.tokens, columns),
            transpose_a=False,
            transpose_b=True,
        )

    def product_backward(self, grad: str, weight: str, saved: str, name: str) -> None:
        rows, columns = self.types[weight].shape
        self.node("MatMul", (grad, weight), f"{name}_dx", (self.tokens, columns), transpose_a=False)
        self.node(
            "MatMul",
            (grad, saved),
            f"{name}_dw",
            (rows, columns),
            is_sharded=False,
            transpose_a=True,
        )

    def batched(
        self, left: str, right: str, result: str, columns: int, axes: tuple[int, int]
    ) -> None:
        self.node(
            "DotGeneral",
            (left, right),
            result,
            (BATCH, HEADS, self.sequence, columns),
            lhs_batching_dimensions=(0, 1),
            rhs_batching_dimensions=(0, 1),
            lhs_contracting_dimensions=(axes[0],),
            rhs_contracting_dimensions=(axes[1],),
        )

    def take(self) -> tuple[Node, ...]:
        nodes, self.nodes = tuple(self.nodes), []
        return nodes


WEIGHTS = {
    "wqkv": (3 * HIDDEN, HIDDEN),
    "wo": (HIDDEN, HIDDEN),
    "w1": (FFN, HIDDEN),
    "w2": (HIDDEN, FFN),
}


def forward(build: PlanBuilder) -> tuple[Node, ...]:
    per_head = (BATCH, HEADS, build.sequence, WIDTH)
    build.product("x", "wqkv", "qkv", 3 * HIDDEN)
    for name in ("q", "k", "v"):
        build.node("Split", ("qkv",), name, per_head)
    build.batched("q", "k", "scores", build.sequence, (3, 3))
    build.node("Softmax", ("scores",), "p", build.types["scores"].shape, axis=3)
    build.batched("p", "v", "context", WIDTH, (3, 2))
    build.node("Reshape", ("context",), "flat", (build.tokens, HIDDEN))
    build.product("flat", "wo", "attended", HIDDEN)
    build.product("attended", "w1", "inner", FFN)
    build.node("Gelu", ("inner",), "active", (build.tokens, FFN))
    build.product("active", "w2", "y", HIDDEN)
    return build.take()


def backward(build: PlanBuilder) -> tuple[Node, ...]:
    per_head = (BATCH, HEADS, build.sequence, WIDTH)
    build.product_backward("y", "w2", "active", "ffn_out")
    build.node("GeluGrad", ("ffn_out_dx", "inner"), "dinner", (build.tokens, FFN))
    build.product_backward("dinner", "w1", "attended", "ffn_in")
    build.product_backward("ffn_in_dx", "wo", "flat", "projection")
    build.node("Reshape", ("projection_dx",), "dcontext", per_head)
    build.batched("dcontext", "v", "dp", build.sequence, (3, 3))
    build.batched("p", "dcontext", "dv", WIDTH, (2, 2))
    build.batched("dp", "k", "dq", WIDTH, (3, 2))
    build.batched("dp", "q", "dk", WIDTH, (2, 2))
    build.node("Concat", ("dq", "dk", "dv"), "dqkv", (build.tokens, 3 * HIDDEN))
    build.product_backward("dqkv", "wqkv", "x", "qkv_in")
    build.node("Reduce", ("dqkv",), "db", (3 * HIDDEN,), is_sharded=False)
    return build.take()


@pytest.fixture
def plan() -> Plan:
    return make_plan(sequence=SEQUENCE)


def make_plan(
    *, sequence: int, dtype: DType = DType.BF16, precision: Precision = Precision.F32
) -> Plan:
    build = PlanBuilder(sequence, dtype)
    build.value("x", (build.tokens, HIDDEN))
    for name, shape in WEIGHTS.items():
        build.value(name, shape, is_sharded=False)
    steps = []
    for direction, nodes in (
        (Direction.FORWARD, forward(build)),
        (Direction.BACKWARD, backward(build)),
    ):
        sums: tuple[Sum, ...] = ()
        if direction is Direction.BACKWARD:
            partials = ("ffn_out_dw", "ffn_in_dw", "projection_dw", "qkv_in_dw")
            sums = tuple(Sum(partial=name, total=f"{name}_sum") for name in partials)
            build.types.update({sum_.total: build.types[sum_.partial] for sum_ in sums})
        steps.append(
            LayerStep(
                name=f"blocks.0.{direction.value}",
                module="blocks.0",
                direction=direction,
                loads=tuple(WEIGHTS),
                nodes=nodes,
                sums=sums,
            )
        )
    return Plan(
        key="cs_0",
        batch_size=BATCH,
        precision=precision,
        state=tuple(
            StateTensor(
                resource_name=name, value=name, type=build.types[name], wire_dtype=DType.BF16
            )
            for name in WEIGHTS
        ),
        inputs=(
            InputTensor(input_name="x", value="x", type=build.types["x"], wire_dtype=DType.BF16),
        ),
        outputs=(),
        wafer_constants=(),
        layer_steps=tuple(steps),
        update_constants=(),
        updates=(),
        sharded=build.sharded,
        types=build.types,
    )


def description() -> Transformer:
    return Transformer(
        name="block",
        layers=1,
        hidden=HIDDEN,
        heads=HEADS,
        ffn=FFN,
        vocab=0,
        sequence=SEQUENCE,
        is_causal=False,
    )


def test_sharding_tells_products_gradients_and_attention_apart(plan: Plan) -> None:
    kinds = [Kind(kind) for kind in program_step(plan).table.kind.tolist()]
    assert kinds.count(Kind.MATMUL) == 8
    assert kinds.count(Kind.WEIGHT_GRADIENT) == 4
    assert kinds.count(Kind.SCORES) == 2
    assert kinds.count(Kind.CONTEXT) == 4
    assert kinds.count(Kind.REDUCTION) == 1


def test_a_program_does_the_arithmetic_of_its_description(plan: Plan) -> None:
    program = float(program_step(plan).table.macs().sum())
    described = transformer_program(description()).table
    of_blocks = described.macs()[described.layer_step % 3 != 0].sum()
    assert program == pytest.approx(float(of_blocks))


def test_a_program_takes_about_as_long_as_its_description(plan: Plan) -> None:
    timing = step_timing(program_step(plan), machine=CS2, batch_size=64)
    described = step_timing(transformer_program(description()), machine=CS2, batch_size=64)
    of_block = sum(layer.compute_seconds for layer in described.layers[1:3])
    ours = sum(layer.compute_seconds for layer in timing.layers)
    assert ours == pytest.approx(of_block, rel=0.3)


def test_scores_are_made_again_in_the_backward_pass_only(plan: Plan) -> None:
    table = program_step(plan).table
    scores = table.kind == Kind.SCORES
    assert table.repeat[scores].tolist() == [1, 2]


def test_traffic_is_what_the_plan_loads_and_sends(plan: Plan) -> None:
    weights = sum(rows * columns for rows, columns in WEIGHTS.values())
    ahead, back = program_step(plan).layers
    assert ahead.weight_elements == back.weight_elements == weights
    assert (ahead.gradient_elements, back.gradient_elements) == (0, weights)
    assert back.is_backward


def test_scores_are_not_kept_and_what_the_backward_pass_reads_is(plan: Plan) -> None:
    program = program_step(plan)
    token_bytes = 2 * SEQUENCE
    kept = HIDDEN + 3 * HIDDEN + HIDDEN + HIDDEN + FFN + FFN + HIDDEN
    assert program.boundary_bytes_per_sample == pytest.approx(token_bytes * kept, rel=0.3)
    name, size = program.largest
    assert name in ("%inner", "%active", "%ffn_out_dx", "%dinner")
    assert size == token_bytes * FFN
    assert program.working_bytes_per_sample >= 2 * size


def test_sequences_as_long_as_a_head_is_wide_do_not_confuse_the_kinds() -> None:
    short = make_plan(sequence=WIDTH)
    kinds = [Kind(kind) for kind in program_step(short).table.kind.tolist()]
    assert kinds.count(Kind.SCORES) == 2
    assert kinds.count(Kind.CONTEXT) == 4


def test_a_plan_carried_in_float32_is_priced_at_the_width_that_the_program_has() -> None:
    half = program_step(make_plan(sequence=SEQUENCE))
    wide = make_plan(sequence=SEQUENCE, dtype=DType.F32)
    carried = program_step(replace(wide, narrow=frozenset(wide.types)))
    assert carried.table.bits.tolist() == half.table.bits.tolist()
    assert carried.working_bytes_per_sample == half.working_bytes_per_sample
    assert set(program_step(wide).table.bits.tolist()) == {32.0}


def test_densities_of_loads_and_totals_reach_their_products_and_the_streams(plan: Plan) -> None:
    step = program_step(plan, densities={"w1": 0.1, "ffn_in_dw_sum": 0.2})
    dense = program_step(plan)
    assert sorted({float(density) for density in step.table.density}) == [0.1, 0.2, 1.0]
    assert {float(density) for density in dense.table.density} == {1.0}
    assert all(layer.density < 1.0 for layer in step.layers)
    assert step.updated_share < 1.0 == dense.updated_share


def test_of_a_causal_square_only_what_is_up_to_the_diagonal_is_computed() -> None:
    whole = Operation(
        name="Softmax", kind=Kind.ELEMENTWISE, layer_step=0, tokens=8, inner=8, outer=8, work=10.0
    )
    assert _causal(whole, (4, 8, 8)).work == 10.0 * (8 + 1) / 2 / 8
    assert _causal(replace(whole, kind=Kind.SCORES), (4, 8, 8)).is_causal
    assert _causal(replace(whole, kind=Kind.MATMUL), (4, 8, 8)).work == 10.0
