"""Reductions, scans and order statistics: kernels against definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.ir.tensors import DType
from tests.unit.numerics.cases import (
    assert_agree,
    examples,
    make_node,
    numbers,
    run_kernel,
    seeds,
    shapes,
    whole_numbers,
)

few = examples(15)


def draw_axes(data, rank):
    return tuple(sorted(data.draw(st.sets(st.integers(0, rank - 1))))) if rank else ()


def reduce_node(x, kind, axes, kept, dtype=None):
    return make_node("Reduce", x, dtype=dtype, dimensions=axes, keep_dims=kept, reduce_kind=kind)


@pytest.mark.parametrize("kind", ["ADD", "MUL", "MEAN"])
@few
@given(seed=seeds, shape=shapes(), data=st.data())
def test_a_sum_product_or_mean(kind, seed, shape, data):
    x = numbers(seed, shape)
    axes = draw_axes(data, len(shape))
    kept = tuple(axis for axis in axes if data.draw(st.booleans()))
    assert_agree(reduce_node(x, kind, axes, kept), x, atol=1e-5)


@pytest.mark.parametrize("kind", ["MAX", "MIN"])
@few
@given(seed=seeds, shape=shapes(min_size=1), data=st.data())
def test_an_extremum(kind, seed, shape, data):
    x = numbers(seed, shape, special=True)
    axes = draw_axes(data, len(shape))
    assert_agree(reduce_node(x, kind, axes, ()), x)
    whole = whole_numbers(seed, shape)
    assert_agree(reduce_node(whole, kind, axes, ()), whole)


@pytest.mark.parametrize("kind", ["ARGMAX", "ARGMIN"])
@few
@given(seed=seeds, shape=shapes(min_rank=1, min_size=1), data=st.data())
def test_the_place_of_an_extremum_is_the_first_of_equals(kind, seed, shape, data):
    x = np.rint(numbers(seed, shape))
    axes = draw_axes(data, len(shape)) or (0,)
    assert_agree(reduce_node(x, kind, axes, (), DType.I64), x)


@pytest.mark.parametrize("kind", ["AND", "OR", "ADD"])
@few
@given(seed=seeds, shape=shapes(), data=st.data())
def test_truth_values(kind, seed, shape, data):
    x = whole_numbers(seed, shape, 0, 3) > 0
    assert_agree(reduce_node(x, kind, draw_axes(data, len(shape)), ()), x)


@few
@given(seed=seeds, shape=shapes(), data=st.data())
def test_a_sum_of_integers(seed, shape, data):
    for dtype in (np.int32, np.int64):
        x = whole_numbers(seed, shape, dtype=dtype)
        assert_agree(reduce_node(x, "ADD", draw_axes(data, len(shape)), ()), x)


def test_a_sum_over_no_axis_is_a_copy():
    x = numbers(0, (3,))
    node = reduce_node(x, "ADD", (), ())
    (found,) = run_kernel(node, x)
    assert not np.shares_memory(found, x)


@few
@given(seed=seeds, shape=shapes(), data=st.data(), kept=st.booleans())
def test_l2_norm(seed, shape, data, kept):
    x = numbers(seed, shape)
    assert_agree(make_node("L2Norm", x, dims=draw_axes(data, len(shape)), keepdim=kept), x)


@few
@given(seed=seeds, shape=shapes(min_rank=1, min_size=1), data=st.data())
def test_softmax(seed, shape, data):
    x = numbers(seed, shape) * 5
    axis = data.draw(st.integers(0, len(shape) - 1))
    assert_agree(make_node("Softmax", x, axis=axis), x)


@pytest.mark.parametrize("op", ["CumSum", "CumProd"])
@few
@given(
    seed=seeds,
    shape=shapes(min_rank=1),
    data=st.data(),
    exclusive=st.booleans(),
    reverse=st.booleans(),
)
def test_a_scan(op, seed, shape, data, exclusive, reverse):  # noqa: PLR0917 - parameters and draws
    axis = data.draw(st.integers(0, len(shape) - 1))
    for x in (numbers(seed, shape), whole_numbers(seed, shape)):
        node = make_node(op, x, axis=axis, exclusive=exclusive, reverse=reverse)
        assert_agree(node, x, atol=1e-5)


@few
@given(seed=seeds, shape=shapes(min_rank=1, min_size=1), data=st.data(), largest=st.booleans())
def test_top_k_prefers_the_lowest_index_among_equals(seed, shape, data, largest):
    axis = data.draw(st.integers(0, len(shape) - 1))
    k = data.draw(st.integers(0, shape[axis]))
    x = np.rint(numbers(seed, shape, special=True))
    node = make_node("TopK", x, k=k, dimension=axis, largest=largest, sorted=True)
    types = (node.types[0], type(node.types[1])(node.types[1].shape, DType.I64))
    node = type(node)(
        op=node.op,
        operands=node.operands,
        results=node.results,
        types=types,
        attributes=node.attributes,
    )
    assert_agree(node, x)


@few
@given(seed=seeds, shape=shapes(min_rank=1, min_size=1), data=st.data())
def test_an_order_statistic_is_the_mask_of_the_k_largest(seed, shape, data):
    axis = data.draw(st.integers(0, len(shape) - 1))
    k = data.draw(st.integers(1, shape[axis]))
    x = np.rint(numbers(seed, shape, special=True))
    node = make_node("NthOrderStatistic", x, k=k, dimension=axis, dtype=DType.I16)
    assert_agree(node, x)
    assert (run_kernel(node, x)[0].sum(axis) == k).all()
