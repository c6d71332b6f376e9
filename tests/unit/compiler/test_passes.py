"""Formats and canonicalisation: types, identities, sharing."""

import numpy as np
import pytest

from appliance.compiler.passes.canonicalise import canonicalise
from appliance.compiler.passes.formats import carry_formats
from appliance.core.errors import ProgramError
from appliance.core.ir.tensors import DType
from appliance.core.plans.plan import Precision
from tests.support.graphs import GraphBuilder


def half_program(named: str | None, dtype: DType = DType.F16) -> GraphBuilder:
    builder = GraphBuilder(attributes={"cs.fp16_type": named} if named else {})
    x = builder.batch(4, 8)
    short = builder.op("Cast", x, dtype=dtype)
    scaled = builder.op("Mul", short, builder.splat(0.5, 4, 8, dtype=dtype))
    builder.output(builder.op("Cast", scaled, dtype=DType.F32))
    return builder


def test_f32_precision_leaves_no_short_type_and_no_cast():
    graph = canonicalise(carry_formats(half_program("cbfloat16").graph(), Precision.F32))
    assert [node.op for node in graph.nodes] == ["Const", "Mul"]
    assert {type_.dtype for type_ in graph.types().values()} == {DType.F32}


@pytest.mark.parametrize(
    ("named", "written", "carried"),
    [
        ("float16", DType.F16, DType.F16),
        ("bfloat16", DType.F16, DType.BF16),
        ("bfloat16", DType.BF16, DType.BF16),
        ("cbfloat16", DType.F16, DType.CB16),
        (None, DType.F16, DType.F16),
    ],
)
def test_exact_precision_gives_values_the_named_format(named, written, carried):
    graph = canonicalise(carry_formats(half_program(named, written).graph(), Precision.EXACT))
    multiply = next(node for node in graph.nodes if node.op == "Mul")
    assert multiply.types[0].dtype is carried
    assert graph.types()[multiply.operands[1]].dtype is carried


def test_an_unknown_format_is_refused():
    with pytest.raises(ProgramError, match="'float8'"):
        carry_formats(half_program("float8").graph(), Precision.EXACT)


def ops(builder: GraphBuilder) -> list[str]:
    return [node.op for node in canonicalise(builder.graph()).nodes]


def test_broadcasts_that_only_insert_dims_and_chains_of_reshapes_collapse():
    builder = GraphBuilder()
    x = builder.batch(4, 8)
    wide = builder.op("BroadcastInDim", x, shape=(1, 4, 8), broadcast_dimensions=(1, 2))
    builder.output(builder.op("Reshape", builder.op("Reshape", wide, shape=(32,)), shape=(8, 4)))
    assert ops(builder) == ["Reshape"]


def test_a_reshape_back_and_forth_vanishes():
    builder = GraphBuilder()
    x = builder.op("Relu", builder.batch(4, 8))
    there = builder.op("Reshape", x, shape=(32,))
    builder.output(builder.op("Abs", builder.op("Reshape", there, shape=(4, 8))))
    assert ops(builder) == ["Relu", "Abs"]


def test_constants_and_views_of_arguments_are_shared_and_nothing_else():
    builder = GraphBuilder()
    x = builder.batch(4, 8)
    a, b = (builder.op("Transpose", x, permutation=(1, 0)) for _ in range(2))
    c, d = (builder.splat(2.0, 8, 4) for _ in range(2))
    e, f = (builder.op("Tanh", x) for _ in range(2))
    builder.output(builder.op("Concat", a, b, c, d, axis=0))
    builder.output(builder.op("Concat", e, f, axis=0))
    assert sorted(ops(builder)) == sorted(
        ["Transpose", "Const", "Concat", "Tanh", "Tanh", "Concat"]
    )


def test_random_numbers_are_never_shared():
    builder = GraphBuilder()
    draws = [
        builder.op(
            "RandomUniform", shape=(4, 8), dtype=DType.F32, low=0.0, high=1.0, seed=1, stream=stream
        )
        for stream in (1, 1)
    ]
    builder.output(builder.op("Add", *draws))
    assert ops(builder).count("RandomUniform") == 2


def test_what_no_result_needs_is_dropped():
    builder = GraphBuilder()
    x = builder.batch(4, 8)
    builder.op("Tanh", builder.const(np.ones((2, 2))))
    builder.output(builder.op("Relu", x))
    assert ops(builder) == ["Relu"]
