"""Kernels that move elements put them where the definitions say, as views where they can."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.ir.tensors import DType
from appliance.numerics.kernels import compile_node
from tests.unit.numerics.cases import (
    assert_agree,
    examples,
    make_node,
    numbers,
    seeds,
    shapes,
    type_of,
)

few = examples(20)


@few
@given(seed=seeds, shape=shapes(), data=st.data())
def test_transpose_and_reshape(seed, shape, data):
    x = numbers(seed, shape)
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    assert_agree(make_node("Transpose", x, permutation=order), x)
    target = data.draw(st.permutations(shape))
    assert_agree(make_node("Reshape", x, shape=tuple(target)), x)


@few
@given(seed=seeds, shape=shapes(max_rank=3), data=st.data())
def test_broadcast(seed, shape, data):
    target = [data.draw(st.integers(0, 3)) if size == 1 else size for size in shape]
    dimensions = list(range(len(shape)))
    for extra in data.draw(st.lists(st.integers(1, 3), max_size=2)):
        place = data.draw(st.integers(0, len(target)))
        target.insert(place, extra)
        dimensions = [d + (d >= place) for d in dimensions]
    x = numbers(seed, shape)
    node = make_node(
        "BroadcastInDim", x, shape=tuple(target), broadcast_dimensions=tuple(dimensions)
    )
    assert_agree(node, x)


@few
@given(seed=seeds, shape=shapes(min_rank=1), data=st.data())
def test_concat_and_split(seed, shape, data):
    axis = data.draw(st.integers(0, len(shape) - 1))
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    parts = [numbers(seed + i, (*shape[:axis], n, *shape[axis + 1 :])) for i, n in enumerate(sizes)]
    node = make_node("Concat", *parts, axis=axis)
    (whole,) = assert_agree(node, *parts)
    assert_agree(make_node("Split", whole, axis=axis, split_sizes=tuple(sizes)), whole)


@few
@given(seed=seeds, shape=shapes(max_size=6), data=st.data())
def test_strided_slice_and_its_gradient(seed, shape, data):
    bounds = [sorted(data.draw(st.tuples(*[st.integers(0, size)] * 2))) for size in shape]
    attributes = {
        "begin": tuple(low for low, _ in bounds),
        "end": tuple(high for _, high in bounds),
        "stride": tuple(data.draw(st.integers(1, 3)) for _ in shape),
    }
    x = numbers(seed, shape)
    node = make_node("StridedSlice", x, **attributes)
    (dy,) = assert_agree(node, x)
    assert_agree(make_node("StridedSliceGrad", dy, shape=shape, **attributes), dy)


@few
@given(seed=seeds, shape=shapes(max_rank=3), data=st.data())
def test_pad_with_negative_edges_and_gaps(seed, shape, data):
    low, high, interior, result = [], [], [], []
    for size in shape:
        gap = data.draw(st.integers(0, 2))
        spread = size + max(0, size - 1) * gap
        front = data.draw(st.integers(-spread, 3))
        back = data.draw(st.integers(-(spread + min(front, 0)), 3))
        low.append(front)
        high.append(back)
        interior.append(gap)
        result.append(spread + front + back)
    if min(result, default=0) < 0:
        return
    x = numbers(seed, shape)
    node = make_node(
        "pad",
        x,
        shape=tuple(result),
        edge_padding_low=tuple(low),
        edge_padding_high=tuple(high),
        interior_padding=tuple(interior),
        padding_mode="CONSTANT",
        value=0.5,
    )
    assert_agree(node, x)


@pytest.mark.parametrize("mode", ["REFLECT", "SYMMETRIC", "CIRCULAR"])
@few
@given(seed=seeds, shape=shapes(min_rank=1, min_size=2, max_rank=3), data=st.data())
def test_pad_with_the_elements_own_continuation(mode, seed, shape, data):
    low = tuple(data.draw(st.integers(0, size - 1)) for size in shape)
    high = tuple(data.draw(st.integers(0, size - 1)) for size in shape)
    x = numbers(seed, shape)
    node = make_node(
        "pad",
        x,
        shape=tuple(a + b + c for a, b, c in zip(shape, low, high, strict=True)),
        edge_padding_low=low,
        edge_padding_high=high,
        interior_padding=(0,) * len(shape),
        padding_mode=mode,
    )
    assert_agree(node, x)


@few
@given(seed=seeds, shape=shapes(max_rank=3), data=st.data())
def test_repeat_and_unpad(seed, shape, data):
    repeats = tuple(data.draw(st.integers(1, 3)) for _ in shape)
    x = numbers(seed, shape)
    assert_agree(make_node("Repeat", x, repeats=repeats), x)
    dropped = tuple(data.draw(st.integers(0, size)) for size in shape)
    assert_agree(make_node("unpad", x, edge_unpadding_high=dropped), x)


@few
@given(seed=seeds, lower=st.integers(-1, 3), upper=st.integers(-1, 3))
def test_band_part(seed, lower, upper):
    x = numbers(seed, (2, 3, 4), special=True)
    assert_agree(make_node("MatrixBandPart", x, num_lower=lower, num_upper=upper), x)
    truth = x > 0
    assert_agree(make_node("MatrixBandPart", truth, num_lower=lower, num_upper=upper), truth)


@few
@given(
    seed=seeds, outer=st.integers(1, 3), sizes=st.lists(st.integers(0, 3), min_size=1, max_size=4)
)
def test_the_shards_of_a_tensor_add_up_to_it(seed, outer, sizes):
    total = sum(sizes)
    x = numbers(seed, (2, outer * total, 3))
    whole = np.zeros_like(x)
    for index, size in enumerate(sizes):
        where = {"axis": 1, "outer": outer, "start": sum(sizes[:index]), "size": size}
        where["global_size"] = total
        node = make_node("wsc.ShardSlice", x, shape=(2, outer * size, 3), dtype=DType.F32, **where)
        (part,) = assert_agree(node, x)
        (placed,) = assert_agree(make_node("wsc.ShardPad", part, shape=x.shape, **where), part)
        whole += placed
    np.testing.assert_array_equal(whole, x)


@pytest.mark.parametrize("dtype", [DType.F32, DType.I32, DType.I64])
@pytest.mark.parametrize(("start", "step"), [(0, 1), (7, -1), (2, 3)])
def test_arange(dtype, start, step):
    node = make_node("Arange", shape=(2, 5), dtype=dtype, start=start, step=step, dim=1)
    assert_agree(node)


@pytest.mark.parametrize(
    ("op", "shape", "attributes"),
    [
        ("Reshape", (6, 4), {}),
        ("Transpose", (4, 3, 2), {"permutation": (2, 1, 0)}),
        ("BroadcastInDim", (5, 2, 3, 4), {"broadcast_dimensions": (1, 2, 3)}),
        ("StridedSlice", (2, 2, 4), {"begin": (0, 1, 0), "end": (2, 3, 4), "stride": (1, 1, 1)}),
    ],
)
def test_a_view_is_not_copied(op, shape, attributes):
    x = numbers(0, (2, 3, 4))
    kernel = compile_node(make_node(op, x, shape=shape, **attributes), [type_of(x)])
    tensor = torch.from_numpy(x)
    assert kernel.call(tensor).untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
