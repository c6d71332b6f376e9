"""Patterns: what is spelled out in nodes gives the same numbers as the one kernel for it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.ir.tensors import DType, TensorType
from appliance.numerics.programs.grouping import group_nodes
from appliance.numerics.programs.program import Program
from tests.unit.numerics.cases import examples, seeds
from tests.unit.numerics.test_products import f32, node, one_by_one, random_tensors


def softmax_gradient(shape, axis, *, swapped=False, kept=True, dtype=DType.F32):
    """Return the nodes of `y * (dy - sum(dy * y))`, as the client traces them or nearly so."""
    full = TensorType(shape, dtype)
    reduced = TensorType((*shape[:axis], *shape[axis + 1 :]), dtype)
    unit = TensorType((*shape[:axis], 1, *shape[axis + 1 :]), dtype)
    others = tuple(other for other in range(len(shape)) if other != axis)
    product, scaled = ("y dy", "d y") if swapped else ("dy y", "y d")
    total = {"dimensions": (axis,), "keep_dims": (), "reduce_kind": "ADD"}
    wide = [
        node("Reshape", "t", "t1", unit),
        node("BroadcastInDim", "t1", "w", full, broadcast_dimensions=tuple(range(len(shape)))),
    ]
    if not kept:
        wide = [node("BroadcastInDim", "t", "w", full, broadcast_dimensions=others)]
    return [
        node("Mul", product, "p", full),
        node("Reduce", "p", "t", reduced, **total),
        *wide,
        node("Sub", "dy w", "d", full),
        node("Mul", scaled, "dx", full),
    ]


def groups_of(nodes, types, live_out=("dx",)):
    every = types | {each.results[0]: each.types[0] for each in nodes}
    return group_nodes(nodes, every, {}, set(live_out))


@examples(25)
@given(
    seed=seeds,
    shape=st.lists(st.integers(1, 7), min_size=1, max_size=4).map(tuple),
    data=st.data(),
    swapped=st.booleans(),
    kept=st.booleans(),
)
def test_the_gradient_of_softmax_is_one_kernel(seed, shape, data, swapped, kept):
    axis = data.draw(st.integers(0, len(shape) - 1))
    nodes = softmax_gradient(shape, axis, swapped=swapped, kept=kept)
    types = {"dy": f32(*shape), "y": f32(*shape)}
    assert len(groups_of(nodes, types)) == 1
    values = random_tensors(types, seed % 1000)
    expected = one_by_one(nodes, types, values)["dx"]
    program = Program(nodes, types=types, live_out={"dx"})
    given_out = dict(values)
    program.run(values, step=0)
    torch.testing.assert_close(values["dx"], expected, rtol=1e-5, atol=1e-5)
    backwards = tuple(reversed(range(len(shape))))
    written = Program(
        [*nodes, node("Transpose", "dx", "g", f32(*shape[::-1]), permutation=backwards)],
        types=types,
        live_out=(),
        written=["g"],
    )
    out = torch.full(shape[::-1], torch.nan)
    written.run(given_out, step=0, out={"g": out})
    torch.testing.assert_close(out, expected.permute(backwards), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("between", ["p", "t", "t1", "w", "d"])
def test_a_value_between_that_others_read_makes_it_no_pattern(between):
    types = {"dy": f32(4, 6), "y": f32(4, 6)}
    nodes = softmax_gradient((4, 6), 1)
    assert len(groups_of(nodes, types, ("dx", between))) > 1


def test_sixteen_bits_between_make_it_no_pattern():
    half = TensorType((4, 6), DType.F16)
    nodes = softmax_gradient((4, 6), 1, dtype=DType.F16)
    assert len(groups_of(nodes, {"dy": half, "y": half})) > 1


def test_another_axis_or_another_factor_is_no_pattern():
    types = {"dy": f32(6, 6), "y": f32(6, 6), "z": f32(6, 6)}
    nodes = softmax_gradient((6, 6), 1, kept=False)
    turned = [
        node("BroadcastInDim", "t", "w", f32(6, 6), broadcast_dimensions=(1,))
        if each.op == "BroadcastInDim"
        else each
        for each in nodes
    ]
    assert len(groups_of(turned, types)) > 1
    stranger = [*nodes[:-1], node("Mul", "z d", "dx", f32(6, 6))]
    assert len(groups_of(stranger, types)) > 1


def test_softmax_into_memory_that_lies_otherwise():
    type_ = f32(4, 6)
    nodes = [
        node("Softmax", "x", "s", type_, axis=1),
        node("Transpose", "s", "t", f32(6, 4), permutation=(1, 0)),
    ]
    program = Program(nodes, types={"x": type_}, live_out=(), written=["t"])
    values = random_tensors({"x": type_})
    expected = torch.softmax(values["x"], 1).T
    out = torch.zeros(6, 4)
    program.run(values, step=0, out={"t": out})
    torch.testing.assert_close(out, expected)
