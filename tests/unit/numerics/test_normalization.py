"""Normalisation and losses: kernels against definitions, gradients against torch.autograd."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from appliance.numerics.kernels import compile_node, normalization
from tests.unit.numerics.cases import (
    assert_agree,
    examples,
    make_node,
    numbers,
    run_kernel,
    run_reference,
    seeds,
    type_of,
    whole_numbers,
)

few = examples(12)
small = st.integers(1, 4)
EPSILON = 1e-5


def autograd(function, dy, *operands):
    """Return the value of a function and the gradients of its operands, in float64."""
    leaves = [torch.from_numpy(x).double().requires_grad_() for x in operands]
    y = function(*leaves)
    y.backward(torch.from_numpy(dy).double())
    return y.detach().numpy(), [leaf.grad.numpy() for leaf in leaves]


def assert_close(found, expected):
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)


@few
@given(seed=seeds, rows=small, middle=small, width=st.integers(2, 5), trailing=st.integers(1, 2))
def test_layer_norm_and_its_gradient(seed, rows, middle, width, trailing):
    x, dy = numbers(seed, (rows, middle, width)), numbers(seed + 1, (rows, middle, width))
    shape = x.shape[-trailing:]
    beta, gamma = numbers(seed + 2, shape), numbers(seed + 3, shape)
    (found,) = assert_agree(
        make_node("LayerNorm", x, beta, gamma, epsilon=EPSILON), x, beta, gamma, atol=1e-5
    )
    y, (dx, dbeta, dgamma) = autograd(
        lambda x, b, g: functional.layer_norm(x, shape, g, b, EPSILON), dy, x, beta, gamma
    )
    assert_close([found], [y])
    node = make_node("LayerNormGrad", dy, x, beta, gamma, epsilon=EPSILON)
    assert_close(assert_agree(node, dy, x, beta, gamma, atol=1e-4), [dx, dbeta, dgamma])


@few
@given(seed=seeds, batch=small, groups=st.integers(1, 3), per_group=st.integers(1, 2), size=small)
def test_group_norm_and_its_gradient(seed, batch, groups, per_group, size):
    shape = (batch, groups * per_group, size, 3)
    x, dy = numbers(seed, shape), numbers(seed + 1, shape)
    gamma, beta = numbers(seed + 2, (groups, per_group)), numbers(seed + 3, (groups, per_group))
    attributes = {"epsilon": EPSILON, "num_groups": groups, "affine": True, "data_format": "NCHW"}
    node = make_node("GroupNorm", x, gamma, beta, **attributes)
    (found,) = assert_agree(node, x, gamma, beta, atol=1e-5)
    y, expected = autograd(
        lambda x, g, b: functional.group_norm(x, groups, g.flatten(), b.flatten(), EPSILON),
        dy,
        x,
        gamma,
        beta,
    )
    assert_close([found], [y])
    node = make_node("GroupNormGrad", dy, x, gamma, **attributes)
    assert_close(assert_agree(node, dy, x, gamma, atol=2e-5), expected)
    node = make_node("GroupNormGrad", dy, x, **attributes)
    plain = [np.ones_like(gamma), np.zeros_like(beta)]
    _, (expected_dx, *_) = autograd(
        lambda x, g, b: functional.group_norm(x, groups, g.flatten(), b.flatten(), EPSILON),
        dy,
        x,
        *plain,
    )
    assert_close(assert_agree(node, dy, x, atol=2e-5), [expected_dx])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@few
@given(seed=seeds, batch=st.integers(2, 3), channels=small, size=small)
def test_batch_norm_in_training_and_its_gradient(layout, seed, batch, channels, size):
    shape = (batch, channels, size, 2)
    x, dy = numbers(seed, shape), numbers(seed + 1, shape)
    scale, offset = numbers(seed + 2, (channels,)), numbers(seed + 3, (channels,))
    mean, variance = numbers(seed + 4, (channels,)), np.abs(numbers(seed + 5, (channels,)))
    running = [torch.from_numpy(v.copy()).double() for v in (mean, variance)]
    y, expected = autograd(
        lambda x, s, o: functional.batch_norm(x, *running, s, o, True, 0.1, EPSILON),
        dy,
        x,
        scale,
        offset,
    )
    given_x, given_dy = (arranged(v, layout) for v in (x, dy))
    common = {"epsilon": EPSILON, "data_format": layout, "is_training": True}
    node = make_node(
        "FusedBatchNorm",
        *(operands := (given_x, scale, offset, mean, variance)),
        exponential_avg_factor=0.1,
        **common,
    )
    found = assert_agree(node, *operands, atol=1e-5)
    assert_close(found, [arranged(y, layout), *[v.numpy() for v in running]])
    node = make_node("FusedBatchNormGrad", given_dy, given_x, scale, **common)
    found = assert_agree(node, given_dy, given_x, scale, rtol=1e-3, atol=1e-4)
    expected[0] = arranged(expected[0], layout)
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-4)


def arranged(x, layout):
    return x if layout == "NCHW" else np.ascontiguousarray(np.moveaxis(x, 1, -1))


def test_batch_norm_in_evaluation_uses_the_running_statistics():
    x, mean, scale = numbers(0, (2, 3, 4, 4)), numbers(1, (3,)), numbers(2, (3,))
    variance, offset = np.abs(numbers(3, (3,))), numbers(4, (3,))
    node = make_node(
        "FusedBatchNorm",
        *(operands := (x, scale, offset, mean, variance)),
        epsilon=EPSILON,
        exponential_avg_factor=0.1,
        data_format="NCHW",
        is_training=False,
    )
    y, new_mean, new_variance = assert_agree(node, *operands, atol=1e-5)
    expected = functional.batch_norm(
        *[torch.from_numpy(v) for v in (x, mean, variance, scale, offset)], False, 0.1, EPSILON
    )
    np.testing.assert_allclose(y, expected.numpy(), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(new_mean, mean)
    np.testing.assert_array_equal(new_variance, variance)


@few
@given(seed=seeds, shape=st.lists(small, min_size=1, max_size=3).map(tuple), data=st.data())
def test_sparse_cross_entropy_and_its_gradient(seed, shape, data):
    axis = data.draw(st.integers(0, len(shape)))
    classes = data.draw(st.integers(2, 5))
    logits = numbers(seed, (*shape[:axis], classes, *shape[axis:])) * 4
    labels = whole_numbers(seed, shape, 0, classes)
    op = "SparseSoftmaxCrossEntropyWithLogits"
    found = assert_agree(make_node(op, logits, labels, axis=axis), logits, labels, atol=1e-5)
    moved, flat = np.moveaxis(logits, axis, -1), torch.from_numpy(labels).flatten()
    y, (gradient,) = autograd(
        lambda x: functional.cross_entropy(x.flatten(0, -2), flat, reduction="none"),
        np.ones(labels.size, np.float32),
        np.ascontiguousarray(moved),
    )
    assert_close(found, [y.reshape(shape), np.moveaxis(gradient, -1, axis)])


@few
@given(seed=seeds, rows=small, classes=st.integers(2, 5))
def test_cross_entropy_with_probabilities(seed, rows, classes):
    logits = numbers(seed, (rows, classes)) * 4
    weights = np.exp(numbers(seed + 1, (rows, classes)))
    labels = (weights / weights.sum(1, keepdims=True)).astype(np.float32)
    node = make_node("SoftmaxCrossEntropyWithLogits", logits, labels, axis=1)
    found = assert_agree(node, logits, labels, atol=1e-5)
    y, (gradient,) = autograd(
        lambda x: functional.cross_entropy(x, torch.from_numpy(labels).double(), reduction="none"),
        np.ones(rows, np.float32),
        logits,
    )
    assert_close(found, [y, gradient])


@pytest.mark.parametrize("bad", [-1, -99, -101, 4])
def test_a_label_out_of_range_is_an_error_that_names_it(bad):
    logits, labels = numbers(0, (3, 4)), np.array([0, -100, bad])
    node = make_node("SparseSoftmaxCrossEntropyWithLogits", logits, labels, axis=1)
    for run in (run_reference, run_kernel):
        with pytest.raises(ValueError, match=f"label {bad} is out of range for 4 classes"):
            run(node, logits, labels)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("labels", [[0, -100, 3], [-100, -100, -100]])
def test_a_row_whose_label_is_ignored_adds_neither_loss_nor_gradient(axis, labels):
    logits, labels = numbers(0, (3, 4)), np.array(labels)
    moved = np.moveaxis(logits, 1, axis)
    node = make_node("SparseSoftmaxCrossEntropyWithLogits", moved, labels, axis=axis)
    loss, gradient = assert_agree(node, moved, labels, atol=1e-6)
    flat = torch.from_numpy(labels)
    y, (expected,) = autograd(
        lambda x: functional.cross_entropy(x, flat, reduction="none"),
        np.ones(3, np.float32),
        logits,
    )
    assert_close([loss, gradient], [y, np.moveaxis(expected, 1, axis)])


@pytest.mark.parametrize(
    ("op", "attributes", "function", "takes_result"),
    [
        ("GeluGrad", {"approximation": "NONE"}, functional.gelu, False),
        (
            "GeluGrad",
            {"approximation": "TANH"},
            lambda x: functional.gelu(x, approximate="tanh"),
            False,
        ),
        ("EluGrad", {"alpha": 0.7}, lambda x: functional.elu(x, 0.7), False),
        ("LeakyReluGrad", {"alpha": 0.2}, lambda x: functional.leaky_relu(x, 0.2), False),
        ("HardSigmoidGrad", {}, functional.hardsigmoid, False),
        ("ReluGrad", {}, torch.relu, True),
    ],
)
def test_the_gradient_of_an_activation_is_that_of_torch(op, attributes, function, takes_result):
    x, dy = numbers(0, (200,)) * 3, numbers(1, (200,))
    y, (expected,) = autograd(function, dy, x)
    second = y.astype(np.float32) if takes_result else x
    (found,) = run_reference(make_node(op, dy, second, **attributes), dy, second)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_gradient_of_sigmoid_takes_its_result_first():
    x, dy = numbers(0, (200,)), numbers(1, (200,))
    y, (expected,) = autograd(torch.sigmoid, dy, x)
    y = y.astype(np.float32)
    (found,) = run_reference(make_node("SigmoidGrad", y, dy), y, dy)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def layer_norm_case(shape=(3, 5, 70), dtype=np.float32):
    """Return the nodes of a normalization and of its gradient, and the operands of the latter."""
    dy, x = (numbers(seed, shape).astype(dtype) for seed in (1, 2))
    beta, gamma = (numbers(seed, shape[-1:]).astype(dtype) for seed in (3, 4))
    forward = make_node("LayerNorm", x, beta, gamma, epsilon=EPSILON)
    backward = make_node("LayerNormGrad", dy, x, beta, gamma, epsilon=EPSILON)
    return forward, backward, (dy, x, beta, gamma)


def test_layer_norm_is_right_without_onednn(monkeypatch):
    monkeypatch.setattr(normalization, "find_layer_norm", lambda: None)
    forward, backward, operands = layer_norm_case()
    assert_agree(forward, *operands[1:], atol=1e-5)
    assert_agree(backward, *operands, atol=1e-4)


def test_layer_norm_of_float64_is_left_to_torch():
    forward, backward, operands = layer_norm_case(dtype=np.float64)
    assert_agree(forward, *operands[1:], rtol=1e-12)
    assert_agree(backward, *operands, rtol=1e-11)


def with_gaps(tensor):
    """Return a copy whose elements lie apart."""
    return torch.stack([tensor, torch.zeros_like(tensor)], -1)[..., 0]


def test_layer_norm_gives_the_same_bits_however_its_tensors_lie():
    forward, backward, operands = layer_norm_case()
    types = [type_of(operand) for operand in operands]
    plain = [torch.from_numpy(operand) for operand in operands]
    gapped = [with_gaps(tensor) for tensor in plain]
    assert not any(tensor.is_contiguous() for tensor in gapped)
    kernel = compile_node(forward, types[1:])
    expected, out = kernel.call(*plain[1:]), with_gaps(plain[1])
    assert not out.is_contiguous()
    kernel.into(out, *gapped[1:])
    np.testing.assert_array_equal(out.numpy(), expected.numpy())
    kernel = compile_node(backward, types)
    outs = [with_gaps(tensor) for tensor in plain[1:]]
    kernel.fill(outs, gapped)
    for found, wanted in zip(outs, kernel.call(*plain), strict=True):
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())


def test_a_row_is_normalized_to_the_same_bits_whatever_rows_are_beside_it():
    shape = (50, 700)
    forward, _, (_, x, beta, gamma) = layer_norm_case(shape)
    (whole,) = run_kernel(forward, x, beta, gamma)
    part = make_node("LayerNorm", x[17:24], beta, gamma, epsilon=EPSILON)
    np.testing.assert_array_equal(run_kernel(part, x[17:24], beta, gamma)[0], whole[17:24])
