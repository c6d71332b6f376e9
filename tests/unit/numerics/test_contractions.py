"""Products, convolutions and pooling: kernels against definitions, gradients against torch."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from appliance.core.errors import InternalError
from appliance.core.ir.tensors import DType
from appliance.numerics.float_formats import round_to
from tests.unit.numerics.cases import (
    assert_agree,
    examples,
    make_node,
    numbers,
    run_kernel,
    run_reference,
    seeds,
)

few = examples(20)
sizes = st.integers(0, 4)


@few
@given(seed=seeds, n=sizes, k=sizes, m=sizes, left=st.booleans(), right=st.booleans())
def test_matmul(seed, n, k, m, left, right):  # noqa: PLR0917 - one per drawn size
    a = numbers(seed, (k, n) if left else (n, k))
    b = numbers(seed + 1, (m, k) if right else (k, m))
    assert_agree(make_node("MatMul", a, b, transpose_a=left, transpose_b=right), a, b, atol=1e-5)


@few
@given(seed=seeds, data=st.data())
def test_dot_general(seed, data):
    kinds = ("batch", "dot", "free")
    left = data.draw(st.lists(st.sampled_from(kinds), max_size=4))
    shared = [kind for kind in left if kind != "free"]
    right_free = data.draw(st.integers(0, 2))
    right_order = data.draw(st.permutations(range(len(shared) + right_free)))
    extents = [data.draw(st.integers(1, 3)) for _ in left]
    shared_axes = [axis for axis, kind in enumerate(left) if kind != "free"]
    right_extents = [extents[axis] for axis in shared_axes] + [2] * right_free
    b_shape = [right_extents[i] for i in right_order]
    position = {index: right_order.index(index) for index in range(len(shared))}
    pairs = {kind: ([], []) for kind in kinds}
    for index, axis in enumerate(shared_axes):
        pairs[left[axis]][0].append(axis)
        pairs[left[axis]][1].append(position[index])
    a, b = numbers(seed, tuple(extents)), numbers(seed + 1, tuple(b_shape))
    node = make_node(
        "DotGeneral",
        a,
        b,
        lhs_batching_dimensions=tuple(pairs["batch"][0]),
        rhs_batching_dimensions=tuple(pairs["batch"][1]),
        lhs_contracting_dimensions=tuple(pairs["dot"][0]),
        rhs_contracting_dimensions=tuple(pairs["dot"][1]),
    )
    assert_agree(node, a, b, atol=1e-5)


@st.composite
def convolutions(draw):
    """Draw the geometry of a convolution that has at least one output element per axis."""
    rank, groups = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    kernel, stride, padding, dilation, size, extra = [], [], [], [], [], []
    for _ in range(rank):
        kernel.append(draw(st.integers(1, 3)))
        stride.append(draw(st.integers(1, 2)))
        padding.append(draw(st.integers(0, 1)))
        dilation.append(draw(st.integers(1, 2)))
        reach = dilation[-1] * (kernel[-1] - 1) + 1
        size.append(draw(st.integers(max(1, reach - 2 * padding[-1]), 6)) if reach < 6 else 6)
        extra.append((size[-1] + 2 * padding[-1] - reach) // stride[-1] + 1)
    batch = draw(st.integers(1, 2))
    x = (batch, 2 * groups, *size)
    w = (3 * groups, 2, *kernel)
    y = (batch, 3 * groups, *extra)
    attributes = {
        "stride": tuple(stride),
        "padding": tuple(padding),
        "dilation": tuple(dilation),
        "groups": groups,
        "data_format": "NCHW",
    }
    return x, w, y, attributes


def gradients(x, w, dy, attributes):
    """Return the gradients of a convolution by torch.autograd, in float64."""
    tensors = [torch.from_numpy(v).double().requires_grad_() for v in (x, w)]
    function = (functional.conv1d, functional.conv2d, functional.conv3d)[x.ndim - 3]
    y = function(
        *tensors,
        stride=attributes["stride"],
        padding=attributes["padding"],
        dilation=attributes["dilation"],
        groups=attributes["groups"],
    )
    y.backward(torch.from_numpy(dy).double())
    return y.detach().numpy(), tensors[0].grad.numpy(), tensors[1].grad.numpy()


@examples(12)
@given(seed=seeds, geometry=convolutions())
def test_the_passes_of_a_convolution(seed, geometry):
    x_shape, w_shape, y_shape, attributes = geometry
    x, w, dy = numbers(seed, x_shape), numbers(seed + 1, w_shape), numbers(seed + 2, y_shape)
    y, dx, dw = gradients(x, w, dy, attributes)
    for direction, transposed, operands, shape, expected in [
        ("FWD", False, (x, w), y_shape, y),
        ("BWD_INPUT", True, (dy, w), x_shape, dx),
        ("BWD_KERNEL", False, (x, dy), w_shape, dw),
        ("FWD", True, (dy, w), x_shape, dx),  # a transposed convolution's forward pass
        ("BWD_INPUT", False, (x, w), y_shape, y),  # and its gradient
    ]:
        node = make_node(
            "Convolution",
            *operands,
            shape=shape,
            conv_pass_direction=direction,
            transposed=transposed,
            **attributes,
        )
        (found,) = assert_agree(node, *operands, atol=1e-5)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_channels_last_convolution_is_the_channels_first_one_transposed():
    x, w = numbers(0, (2, 5, 6, 3)), numbers(1, (4, 3, 3, 3))
    attributes = {
        "conv_pass_direction": "FWD",
        "stride": (2, 1),
        "padding": (1, 0),
        "dilation": (1, 1),
        "groups": 1,
    }
    last = make_node("Convolution", x, w, shape=(2, 3, 4, 4), data_format="NHWC", **attributes)
    (found,) = assert_agree(last, x, w, atol=1e-5)
    first_x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    first = make_node(
        "Convolution", first_x, w, shape=(2, 4, 3, 4), data_format="NCHW", **attributes
    )
    np.testing.assert_allclose(found.transpose(0, 3, 1, 2), run_reference(first, first_x, w)[0])


@few
@given(seed=seeds, dim=st.integers(0, 3))
def test_bias_add_and_its_gradient(seed, dim):
    x = numbers(seed, (2, 3, 4, 1))
    bias = numbers(seed + 1, (x.shape[dim],))
    assert_agree(make_node("BiasAdd", x, bias, dim=dim), x, bias)
    assert_agree(make_node("BiasAddGrad", x, dim=dim), x, atol=1e-5)


def pool_node(x, second, shape, kind, *, gradient=False, **window):
    """Return a Pool node over the last two axes of an NCDHW tensor."""
    kernel, stride, padding = window["kernel"], window["stride"], window.get("padding", 0)
    return make_node(
        "Pool",
        x,
        second,
        shape=shape,
        pool_type=kind,
        data_format="NCDHW",
        ksize=(1, 1, 1, kernel, kernel),
        strides=(1, 1, 1, stride, stride),
        padding=(0, 0, 0, 0, 0, 0, padding, padding, padding, padding),
        dilation=(1, 1, 1, 1, 1),
        gradient=gradient,
    )


POOLS = [
    ("MAX", {"kernel": 2, "stride": 2}, functional.max_pool2d, {}),
    ("MAX", {"kernel": 3, "stride": 2, "padding": 1}, functional.max_pool2d, {"padding": 1}),
    ("MAX", {"kernel": 2, "stride": 2}, functional.max_pool2d, {"ceil_mode": True}),
    ("MAX", {"kernel": 2, "stride": 1}, functional.max_pool2d, {"dilation": 2}),
    ("AVERAGE", {"kernel": 2, "stride": 2}, functional.avg_pool2d, {}),
    ("AVERAGE", {"kernel": 3, "stride": 2, "padding": 1}, functional.avg_pool2d, {"padding": 1}),
    ("AVERAGE", {"kernel": 2, "stride": 2}, functional.avg_pool2d, {"ceil_mode": True}),
]


@pytest.mark.parametrize(("kind", "window", "function", "options"), POOLS)
@examples(6)
@given(seed=seeds, height=st.integers(6, 8), width=st.integers(6, 8))
def test_pooling_and_its_gradient_as_torch_does_it(  # noqa: PLR0917 - parameters and draws
    kind, window, function, options, seed, height, width
):
    x = numbers(seed, (2, 3, 1, height, width))
    leaf = torch.from_numpy(x[:, :, 0]).double().requires_grad_()
    y = function(leaf, window["kernel"], window["stride"], **options)
    shape = (2, 3, 1, *y.shape[2:])
    dy = numbers(seed + 1, shape)
    y.backward(torch.from_numpy(dy[:, :, 0]).double())
    (found,) = assert_agree(pool_node(x, x, shape, kind, **window), x, x)
    np.testing.assert_allclose(found[:, :, 0], y.detach().numpy(), rtol=1e-5, atol=1e-6)
    node = pool_node(x, dy, x.shape, kind, gradient=True, **window)
    (found,) = assert_agree(node, x, dy)
    np.testing.assert_allclose(found[:, :, 0], leaf.grad.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sizes", [(8, 3), (6, 4), (7, 5), (5, 5), (13, 6), (3, 7)])
def test_an_adaptive_mean_and_its_gradient_have_the_windows_of_torch(sizes):
    size, pooled = sizes
    x = numbers(3, (2, 3, 1, size, 6))
    leaf = torch.from_numpy(x[:, :, 0]).double().requires_grad_()
    y = functional.adaptive_avg_pool2d(leaf, (pooled, 4))
    dy = numbers(4, (2, 3, 1, pooled, 4))
    y.backward(torch.from_numpy(dy[:, :, 0]).double())
    attributes = {"pool_type": "AVERAGE", "adaptive": True}
    (found,) = assert_agree(make_node("Pool", x, x, shape=dy.shape, **attributes), x, x)
    np.testing.assert_allclose(found[:, :, 0], y.detach().numpy(), rtol=1e-5, atol=1e-6)
    gradient = make_node("Pool", x, dy, shape=x.shape, gradient=True, **attributes)
    (found,) = assert_agree(gradient, x, dy)
    np.testing.assert_allclose(found[:, :, 0], leaf.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_a_pooling_without_a_stride_moves_by_its_kernel():
    x = numbers(0, (1, 1, 1, 6, 6))
    node = pool_node(x, x, (1, 1, 1, 3, 3), "MAX", kernel=2, stride=1)
    (found,) = assert_agree(node, x, x)
    np.testing.assert_array_equal(
        found[:, :, 0], functional.max_pool2d(torch.from_numpy(x[:, :, 0]), 2)
    )


def test_a_padding_that_differs_from_side_to_side_is_pooled_too():
    x = numbers(0, (1, 2, 1, 4, 4))
    for kind in ("MAX", "AVERAGE"):
        node = make_node(
            "Pool",
            x,
            x,
            shape=(1, 2, 1, 2, 2),
            pool_type=kind,
            data_format="NCDHW",
            ksize=(1, 1, 1, 2, 3),
            strides=(1, 1, 1, 2, 2),
            padding=(0, 0, 0, 0, 0, 0, 0, 1, 1, 0),
            dilation=(1, 1, 1, 1, 1),
        )
        assert_agree(node, x, x)
        dy = numbers(1, (1, 2, 1, 2, 2))
        attributes = {**node.attributes, "gradient": True}
        assert_agree(make_node("Pool", x, dy, shape=x.shape, **attributes), x, dy)


def test_a_pooling_whose_shapes_make_no_sense_is_an_error():
    x = numbers(0, (1, 1, 1, 6, 6))
    node = pool_node(x, x, (1, 1, 1, 77, 77), "MAX", kernel=2, stride=1)
    with pytest.raises(InternalError, match=r"do not turn sizes \(1, 6, 6\) into \(1, 77, 77\)"):
        run_kernel(node, x, x)


def test_a_product_of_halves_adds_up_in_float32():
    a, b = np.full((1, 4096), 1.0, np.float32), np.full((4096, 1), 1.0, np.float32)
    attributes = {"transpose_a": False, "transpose_b": False}
    node = make_node("MatMul", a, b, half=DType.BF16, dtype=DType.F32, **attributes)
    assert math.isclose(run_kernel(node, a, b, half=DType.BF16)[0].item(), 4096.0)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_a_bfloat16_product_is_off_by_one_unit_of_the_format_at_most(transpose_a, transpose_b):
    # 2^-8 is one unit in the last place of a number just above a power of two; the sum itself is
    # exact but for float32, whose errors matter where positive and negative terms cancel.
    a, b = (
        round_to(DType.BF16, torch.from_numpy(numbers(seed, shape))).numpy()
        for seed, shape in ((1, (96, 48) if transpose_a else (48, 96)), (2, (96, 32)))
    )
    b = np.ascontiguousarray(b.T) if transpose_b else b
    attributes = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    node = make_node("MatMul", a, b, half=DType.BF16, **attributes)
    found = run_kernel(node, a, b, half=DType.BF16)[0]
    left, right = (a.T if transpose_a else a), (b.T if transpose_b else b)
    exact = left.astype(np.float64) @ right.astype(np.float64)
    np.testing.assert_allclose(found, exact, rtol=2.0**-8, atol=1e-4)
    np.testing.assert_array_equal(found, round_to(DType.BF16, torch.from_numpy(found)).numpy())
