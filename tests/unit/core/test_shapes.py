"""Shapes of results: PyTorch's own, where it has the operation, and those of the definition."""

import pytest
import torch
from torch.nn import functional

from appliance.core.ir import shapes
from tests.support.plans import f32, node


def rule(name, operands, result=(), **attributes):
    """Return the shapes that a rule gives for operands of some shapes."""
    made = node("Op", "x", "y", f32(*result), **attributes)
    return getattr(shapes, name)(made, [f32(*shape) for shape in operands])


def x_of(*shape):
    return torch.zeros(shape)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("num_spatial", [1, 2, 3])
def test_convolutions(stride, padding, dilation, num_spatial):
    sizes, kernel = (9, 11, 10)[:num_spatial], (3, 2, 4)[:num_spatial]
    convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[num_spatial - 1]
    x, weight = (2, 3, *sizes), (5, 3, *kernel)
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    wanted = tuple(convolve(x_of(*x), x_of(*weight), **options).shape)
    each = {name: (value,) * num_spatial for name, value in options.items()}
    first = {**each, "conv_pass_direction": "FWD", "data_format": "NCHW"}
    assert rule("convolution", (x, weight), **first) == (wanted,)
    last = {**first, "data_format": "NHWC"}
    moved = (2, *sizes, 3)
    assert rule("convolution", (moved, weight), **last) == ((2, *wanted[2:], 5),)
    backwards = {**first, "conv_pass_direction": "BWD_DATA"}
    assert rule("convolution", (x, weight), (7, 7), **backwards) == ((7, 7),)
    with pytest.raises(ValueError, match="stride"):
        rule("convolution", (x, weight[1:]), **first)


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("depth", [1, 2])
def test_gathered_pieces_replace_the_dims_that_are_addressed(start, depth):
    table = (4, 5, 6, 7)
    indices = (*table[:start], 3, depth)
    wanted = (*table[:start], 3, *table[start + depth :])
    assert rule("gather_nd", (table, indices), start_dim=start) == (wanted,)
    if start:
        with pytest.raises(ValueError, match="and"):
            rule("gather_nd", (table, (9, 3, depth)), start_dim=start)


@pytest.mark.parametrize(
    ("axis", "batch", "indices", "wanted"),
    [
        (0, 0, (2, 3), (2, 3, 5, 6)),
        (1, 0, (2,), (4, 2, 6)),
        (2, 0, (), (4, 5)),
        (1, 1, (4, 3), (4, 3, 6)),
        (2, 1, (4, 3), (4, 5, 3)),
    ],
)
def test_indices_take_the_place_of_the_axis(axis, batch, indices, wanted):
    found = rule("gather", ((4, 5, 6), indices), wanted, axis=axis, batch_dims=batch)
    assert found == (wanted,)


def test_single_elements_are_gathered_where_torch_gather_does_it():
    index = torch.zeros((4, 2), dtype=torch.int64)
    wanted = tuple(torch.gather(x_of(4, 5), 1, index).shape)
    assert rule("gather", ((4, 5), (4, 2)), wanted, axis=1, batch_dims=0) == (wanted,)


@pytest.mark.parametrize("dims", [(0,), (1,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("keeps", [False, True])
def test_reduced_dims_vanish_or_stay(dims, keeps):
    wanted = tuple(x_of(3, 4, 5).sum(dims, keepdim=keeps).shape)
    kept = dims if keeps else ()
    assert rule("reduce", ((3, 4, 5),), dimensions=dims, keep_dims=kept) == (wanted,)
    assert rule("l2_norm", ((3, 4, 5),), dims=dims, keepdim=keeps) == (wanted,)
    with pytest.raises(ValueError, match="over"):
        rule("reduce", ((3, 4, 5),), dimensions=(3,), keep_dims=())


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_what_joins_cuts_and_shrinks_along_an_axis(axis):
    shape = (4, 5, 6)
    other = tuple(size + (dim == axis) for dim, size in enumerate(shape))
    joined = tuple(torch.cat([x_of(*shape), x_of(*other)], axis).shape)
    assert rule("concat", (shape, other), axis=axis) == (joined,)
    wrong = tuple(size + (dim != axis) for dim, size in enumerate(shape))
    with pytest.raises(ValueError, match="and"):
        rule("concat", (shape, wrong), axis=axis)
    sizes = (1, shape[axis] - 1)
    parts = tuple(tuple(part.shape) for part in x_of(*shape).split(sizes, axis))
    assert rule("split", (shape,), axis=axis, split_sizes=sizes) == parts
    with pytest.raises(ValueError, match="into"):
        rule("split", (shape,), axis=axis, split_sizes=(1, shape[axis]))
    largest = tuple(x_of(*shape).topk(2, axis).values.shape)
    assert rule("top_k", (shape,), dimension=axis, k=2) == (largest, largest)
    both = tuple(2 * size if dim == axis else size for dim, size in enumerate(largest))
    assert rule("fused_top_k", (shape,), dimension=axis, k=2) == (both,)
    deep = (*shape[:axis], 9, *shape[axis:])
    assert rule("one_hot", (shape,), deep, axis=axis) == (deep,)


@pytest.mark.parametrize(
    ("begin", "end", "stride"),
    [((0, 0), (4, 6), (1, 1)), ((1, 2), (4, 5), (2, 1)), ((0, 1), (3, 6), (3, 4))],
)
def test_slices_and_what_they_came_from(begin, end, stride):
    cuts = tuple(slice(*each) for each in zip(begin, end, stride, strict=True))
    wanted = tuple(x_of(4, 6)[cuts].shape)
    where = {"begin": begin, "end": end, "stride": stride}
    assert rule("strided_slice", ((4, 6),), **where) == (wanted,)
    assert rule("strided_slice_grad", (wanted,), (4, 6), **where) == ((4, 6),)
    with pytest.raises(ValueError, match="up to"):
        rule("strided_slice", ((end[0] - 1, 6),), **where)
    with pytest.raises(ValueError, match="into"):
        rule("strided_slice_grad", (wanted,), (end[0] - 1, 6), **where)


@pytest.mark.parametrize(
    ("low", "high", "inner", "wanted"),
    [(0, 0, 0, 5), (1, 2, 0, 8), (0, 0, 1, 9), (1, 2, 3, 20), (-1, 0, 0, 4)],
)
def test_padding_grows_sizes_at_the_edges_and_between_elements(low, high, inner, wanted):
    edges = {"edge_padding_low": (low,), "edge_padding_high": (high,), "interior_padding": (inner,)}
    assert rule("pad", ((5,),), **edges) == ((wanted,),)
    assert rule("pad", ((0,),), **edges) == ((low + high,),)
    assert rule("unpad", ((5, 6),), edge_unpadding_high=(2, 0)) == ((3, 6),)
    assert rule("repeat", ((5, 6),), repeats=(2, 3)) == ((10, 18),)


@pytest.mark.parametrize("a", [False, True])
@pytest.mark.parametrize("b", [False, True])
def test_products_of_matrices(a, b):
    left, right = ((3, 2) if a else (2, 3)), ((4, 3) if b else (3, 4))
    assert rule("matmul", (left, right), transpose_a=a, transpose_b=b) == ((2, 4),)
    with pytest.raises(ValueError, match="and"):
        rule("matmul", (left, right), transpose_a=not a, transpose_b=b)


def test_products_over_any_dims_have_batches_then_the_rest_of_both():
    sides = {
        "lhs_batching_dimensions": (2,),
        "rhs_batching_dimensions": (0,),
        "lhs_contracting_dimensions": (0,),
        "rhs_contracting_dimensions": (2,),
    }
    wanted = tuple(torch.einsum("kib,bjk->bij", x_of(3, 4, 5), x_of(5, 6, 3)).shape)
    assert rule("dot_general", ((3, 4, 5), (5, 6, 3)), **sides) == (wanted,)
    for wrong in ((4, 6, 3), (5, 6, 4)):
        with pytest.raises(ValueError, match="and"):
            rule("dot_general", ((3, 4, 5), wrong), **sides)


@pytest.mark.parametrize(
    ("tokens", "index", "update", "dim", "error"),
    [
        ((2, 8), (2, 1), (2, 1), 1, ""),
        ((2, 8, 3), (2, 1), (2, 1, 3), 1, ""),
        ((2, 8), (2, 1), (2, 2), 1, "is no slice"),
        ((2, 8), (8, 1), (2, 1), 1, "the index is"),
        ((2, 8), (1,), (1, 8), 0, "the loop is over dim 0"),
        ((2, 8), (2, 8, 1), (2, 8, 1), 2, "the loop is over dim 2"),
    ],
)
def test_generated_tokens_are_a_slice_along_the_loop(tokens, index, update, dim, error):
    operands = (tokens, index, update)
    if error:
        with pytest.raises(ValueError, match=error):
            rule("next_tokens", operands, loop_dim=dim)
    else:
        assert rule("next_tokens", operands, loop_dim=dim) == (tokens,)


@pytest.mark.parametrize(("layout", "channels"), [("NCHW", 6), ("NHWC", 8)])
def test_vectors_of_channels_follow_the_layout(layout, channels):
    x, vector, form = (2, 6, 7, 8), (channels,), {"data_format": layout}
    assert rule("batch_norm", (x, *[vector] * 4), **form) == (x, vector, vector)
    assert rule("channel_norm_grad", (x, x), **form) == (x, vector, vector)
    groups = (2, channels // 2)
    assert rule("group_norm", (x, groups, groups), num_groups=2, **form) == (x,)
    with pytest.raises(ValueError, match="and"):
        rule("group_norm", (x, groups, groups), num_groups=1, **form)
    with pytest.raises(ValueError, match="and"):
        rule("batch_norm", (x, (7,), *[vector] * 3), **form)
