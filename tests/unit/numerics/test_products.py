"""Products as they stand in a model: between moved axes, in front of loops."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.ir.tensors import DType, TensorType
from appliance.numerics.programs.grouping import group_nodes, single_group
from appliance.numerics.programs.pool import TensorPool
from appliance.numerics.programs.program import Program
from tests.support.plans import node
from tests.unit.numerics.cases import examples, numbers, seeds

BATCH, HEADS, LENGTH, SIZE = 2, 3, 64, 48
"""Of attention: one sample's products are large enough to be computed where the operands lie."""


def f32(*shape):
    return TensorType(shape, DType.F32)


def random_tensors(types, seed=0):
    return {
        name: torch.from_numpy(numbers(seed + index, type_.shape))
        for index, (name, type_) in enumerate(types.items())
    }


def one_by_one(nodes, types, values):
    """Run nodes with their own kernels, with every operand row by row."""
    table, known = dict(values), dict(types)
    for each in nodes:
        known.update(zip(each.results, each.types, strict=True))
        kernel = single_group(each, known).kernel
        table[each.results[0]] = kernel.call(*[table[n].contiguous() for n in each.operands])
    return table


@examples(20)
@given(
    seed=seeds,
    left=st.permutations(range(4)),
    right=st.permutations(range(4)),
    result=st.permutations(range(4)),
    length=st.sampled_from([2, LENGTH]),
)
def test_a_product_over_samples_and_heads_reads_and_writes_any_order(
    seed, left, right, result, length
):
    """Axes of the values are (sample, head, row, column); in memory they lie in any order."""
    dot = node(
        "DotGeneral",
        "a b",
        "c",
        f32(BATCH, HEADS, length, length),
        lhs_batching_dimensions=(0, 1),
        rhs_batching_dimensions=(0, 1),
        lhs_contracting_dimensions=(3,),
        rhs_contracting_dimensions=(2,),
    )
    types = {"a": f32(BATCH, HEADS, length, SIZE), "b": f32(BATCH, HEADS, SIZE, length)}
    values = random_tensors(types, seed % 1000)
    kernel = single_group(dot, types).kernel
    expected = torch.matmul(values["a"].double(), values["b"].double()).float()
    a, b = lying(values["a"], left), lying(values["b"], right)
    out = lying(torch.empty(expected.shape), result)
    kernel.into(out, a, b)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(kernel.call(a, b), expected, rtol=1e-5, atol=1e-4)


def lying(tensor, order):
    """Return the same tensor with its axes in some order in memory."""
    back = [order.index(axis) for axis in range(tensor.dim())]
    return tensor.permute(order).contiguous().permute(back)


def attention():
    """Scores, weights and attended values of one layer; heads lie beside each other at the ends."""
    flat, split = f32(BATCH, LENGTH, HEADS * SIZE), f32(BATCH, LENGTH, HEADS, SIZE)
    heads, turned = f32(BATCH, HEADS, LENGTH, SIZE), f32(BATCH, HEADS, SIZE, LENGTH)
    scores = f32(BATCH, HEADS, LENGTH, LENGTH)
    batched = {"lhs_batching_dimensions": (0, 1), "rhs_batching_dimensions": (0, 1)}
    dot = {"lhs_contracting_dimensions": (3,), "rhs_contracting_dimensions": (2,)}
    nodes = [
        node("Reshape", "query", "query1", split),
        node("Transpose", "query1", "q", heads, permutation=(0, 2, 1, 3)),
        node("Reshape", "key", "key1", split),
        node("Transpose", "key1", "key2", heads, permutation=(0, 2, 1, 3)),
        node("Transpose", "key2", "key3", turned, permutation=(0, 1, 3, 2)),
        node("Abs", "key3", "k", turned),
        node("Reshape", "value", "value1", split),
        node("Transpose", "value1", "v", heads, permutation=(0, 2, 1, 3)),
        node("DotGeneral", "q k", "scores", scores, **batched, **dot),
        node("Softmax", "scores", "weights", scores, axis=3),
        node("DotGeneral", "weights v", "out", heads, **batched, **dot),
        node("Sign", "out", "signs", heads),
        node("Transpose", "signs", "out1", split, permutation=(0, 2, 1, 3)),
        node("Reshape", "out1", "attended", flat),
    ]
    return nodes, dict.fromkeys(("query", "key", "value"), flat)


def test_heads_are_split_and_merged_without_a_copy():
    nodes, types = attention()
    names = {each.results[0] for each in nodes}
    program = Program(nodes, types=types, live_out=names, pool=TensorPool())
    values = random_tensors(types)
    expected = one_by_one(nodes, types, values)
    program.run(values, step=0)
    for name in names:
        torch.testing.assert_close(values[name], expected[name], rtol=1e-4, atol=1e-5)
    assert values["attended"].data_ptr() == values["signs"].data_ptr()
    assert values["k"].permute(0, 3, 1, 2).is_contiguous()
    assert values["scores"].is_contiguous()


def test_a_loop_wants_its_operands_row_by_row():
    type_, turned = f32(8, 6), f32(6, 8)
    nodes = [
        node("Transpose", "x", "t", turned, permutation=(1, 0)),
        node("Abs", "t", "a", turned),
        node("Softmax", "a", "s", turned, axis=1),
        node("Add", "s a", "b", turned),
        node("Mul", "b a", "c", turned),
    ]
    types = {"x": type_}
    program = Program(nodes, types=types, live_out={"a", "c"}, pool=TensorPool())
    values = random_tensors(types)
    expected = one_by_one(nodes, types, values)
    program.run(values, step=0)
    assert values["a"].is_contiguous()
    np.testing.assert_allclose(values["c"], expected["c"], rtol=1e-6)


def test_what_a_loop_reads_at_its_source_is_not_repeated_in_memory():
    shape = f32(16, 32)
    nodes = [
        node("BroadcastInDim", "bias", "wide", shape, broadcast_dimensions=(1,)),
        node("Add", "wide x", "y", shape),
        node("Mul", "y y", "z", shape),
    ]
    types = {"x": shape, "bias": f32(32)}
    every = types | {each.results[0]: each.types[0] for each in nodes}
    assert len(group_nodes(nodes, every, {}, {"z"})) == 1
    assert len(group_nodes(nodes, every, {}, {"z", "wide"})) == 2
    values = random_tensors(types)
    expected = one_by_one(nodes, types, values)["z"]
    Program(nodes, types=types, live_out={"z"}).run(values, step=0)
    np.testing.assert_array_equal(values["z"], expected)
    assert values.keys() == {"z"}
