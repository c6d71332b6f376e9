"""Indexed reads and writes: kernels against definitions, wrong indices, fixed order of sums."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.ir.tensors import DType
from tests.unit.numerics.cases import (
    assert_agree,
    examples,
    make_node,
    numbers,
    run_kernel,
    run_reference,
    seeds,
    shapes,
    whole_numbers,
)

few = examples(20)
INDEX_TYPES = [np.int32, np.int64]


@few
@given(seed=seeds, shape=shapes(min_rank=1, min_size=1), data=st.data())
def test_gather_of_slices(seed, shape, data):
    axis = data.draw(st.integers(0, len(shape) - 1))
    batch_dims = data.draw(st.integers(0, axis))
    rest = data.draw(shapes(max_rank=2))
    dtype = data.draw(st.sampled_from(INDEX_TYPES))
    index = whole_numbers(seed, shape[:batch_dims] + rest, 0, shape[axis], dtype)
    table = numbers(seed, shape)
    if not batch_dims and len(rest) == len(shape):
        return  # reads single elements, see below
    result = shape[:axis] + rest + shape[axis + 1 :]
    node = make_node("Gather", table, index, shape=result, axis=axis, batch_dims=batch_dims)
    assert_agree(node, table, index)


@few
@given(seed=seeds, shape=shapes(min_rank=2, min_size=1), data=st.data())
def test_gather_of_single_elements(seed, shape, data):
    axis = data.draw(st.integers(0, len(shape) - 1))
    index_shape = tuple(data.draw(st.integers(0, size)) for size in shape)
    index = whole_numbers(seed, index_shape, 0, shape[axis])
    table = numbers(seed, shape)
    node = make_node("Gather", table, index, shape=index_shape, axis=axis, batch_dims=0)
    assert_agree(node, table, index)


@few
@given(seed=seeds, shape=shapes(min_rank=1, min_size=1), data=st.data())
def test_gather_nd(seed, shape, data):
    start = data.draw(st.integers(0, len(shape) - 1))
    depth = data.draw(st.integers(1, len(shape) - start))
    rest = data.draw(shapes(max_rank=2))
    addressed = shape[start : start + depth]
    columns = [whole_numbers(seed + i, shape[:start] + rest, 0, n) for i, n in enumerate(addressed)]
    index, table = np.stack(columns, axis=-1), numbers(seed, shape)
    assert_agree(make_node("GatherNd", table, index, start_dim=start), table, index)


@pytest.mark.parametrize("kind", ["NONE", "ADD", "MUL", "MAX", "MIN"])
@few
@given(seed=seeds, shape=shapes(min_rank=1, min_size=1), data=st.data())
def test_scatter(kind, seed, shape, data):
    axis = data.draw(st.integers(0, len(shape) - 1))
    update_shape = tuple(data.draw(st.integers(0, size)) for size in shape)
    if kind == "NONE":  # which of several updates of one element stays is not defined by torch
        index = np.argsort(numbers(seed, shape), axis=axis)
        index = index[tuple(slice(size) for size in update_shape)]
    else:
        index = whole_numbers(seed, update_shape, 0, shape[axis], np.int32)
    base, updates = numbers(seed, shape), numbers(seed + 1, update_shape)
    node = make_node("Scatter", base, index, updates, axis=axis, reduce_kind=kind)
    assert_agree(node, base, index, updates, atol=1e-5)


@few
@given(seed=seeds, shape=shapes(min_rank=1, min_size=1), data=st.data())
def test_scatter_nd_adds_up(seed, shape, data):
    depth = data.draw(st.integers(1, len(shape)))
    count = data.draw(st.integers(0, 9))
    columns = [whole_numbers(seed + i, (count,), 0, n) for i, n in enumerate(shape[:depth])]
    index, base = np.stack(columns, axis=-1), numbers(seed, shape)
    updates = numbers(seed + 1, (count, *shape[depth:]))
    assert_agree(make_node("ScatterNd", base, index, updates), base, index, updates, atol=1e-5)


@few
@given(seed=seeds, shape=shapes(max_rank=3), depth=st.integers(1, 5), data=st.data())
def test_one_hot_leaves_out_what_is_out_of_range(seed, shape, depth, data):
    axis = data.draw(st.integers(0, len(shape)))
    index = whole_numbers(seed, shape, -1, depth + 1)
    result = (*shape[:axis], depth, *shape[axis:])
    node = make_node("OneHot", index, shape=result, dtype=DType.F32, axis=axis, on=0.9, off=0.1)
    assert_agree(node, index)


@pytest.mark.parametrize("bad", [-1, 3])
def test_an_index_out_of_range_is_an_error(bad):
    table, index = numbers(0, (3, 2)), np.array([0, bad])
    vectors = index[:, None]
    for node, operands in [
        (make_node("Gather", table, index, axis=0, batch_dims=0), (table, index)),
        (make_node("GatherNd", table, vectors, start_dim=0), (table, vectors)),
        (
            make_node("ScatterNd", table, vectors, numbers(1, (2, 2))),
            (table, vectors, numbers(1, (2, 2))),
        ),
    ]:
        with pytest.raises(ValueError, match="out of range"):
            run_reference(node, *operands)
        with pytest.raises((IndexError, RuntimeError, ValueError), match="out of"):
            run_kernel(node, *operands)


def test_an_index_vector_out_of_range_is_an_error():
    table, index = numbers(0, (3, 2)), np.array([[0, 1], [1, 2]])
    node = make_node("GatherNd", table, index, start_dim=0)
    with pytest.raises(ValueError, match=r"index \[1, 2\] is out of range for sizes \[3, 2\]"):
        run_kernel(node, table, index)


def test_sums_at_equal_indices_have_the_same_bits_with_any_number_of_threads():
    index = whole_numbers(0, (20_000, 1), 0, 7)
    base, updates = numbers(0, (7, 16)), numbers(1, (20_000, 16))
    node = make_node("ScatterNd", base, index, updates)
    before = torch.get_num_threads()
    found = set()
    try:
        for threads in (1, 2, 2, 1):
            torch.set_num_threads(threads)
            found.add(run_kernel(node, base, index, updates)[0].tobytes())
    finally:
        torch.set_num_threads(before)
    assert len(found) == 1
