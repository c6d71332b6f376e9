"""Elementwise kernels compute what the definitions say, special values included."""

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

ANY_FLOAT = [
    "Abs", "Ceil", "Erf", "Exp", "Floor", "Log", "Reciprocal", "Relu", "Round", "Rsqrt", "Sigmoid",
    "Sign", "Sqrt", "Tanh", "HardSigmoid", "wsc.Copy",
]  # fmt: skip
MODERATE_FLOAT = ["Cos", "Sin"]
PAIRS = ["Add", "Sub", "Mul", "Div", "Atan2"]
GRADIENTS = ["HardSigmoidGrad", "ReluGrad", "SigmoidGrad"]
few = examples(12)


@pytest.mark.parametrize("op", ANY_FLOAT)
@few
@given(seed=seeds, shape=shapes())
def test_a_function_of_one_number(op, seed, shape):
    x = numbers(seed, shape, special=True)
    assert_agree(make_node(op, x), x)


@pytest.mark.parametrize("op", MODERATE_FLOAT)
@few
@given(seed=seeds, shape=shapes())
def test_a_periodic_function(op, seed, shape):
    x = numbers(seed, shape)
    assert_agree(make_node(op, x), x)


@pytest.mark.parametrize("op", PAIRS)
@few
@given(seed=seeds, shape=shapes())
def test_a_function_of_two_numbers(op, seed, shape):
    a, b = numbers(seed, shape, special=True), numbers(seed + 1, shape, special=True)
    assert_agree(make_node(op, a, b), a, b)


@few
@given(seed=seeds, shape=shapes())
def test_a_power(seed, shape):
    a, b = numbers(seed, shape, special=True), np.rint(numbers(seed + 1, shape) * 2)
    assert_agree(make_node("Pow", a, b), a, b)


@pytest.mark.parametrize("op", GRADIENTS)
@few
@given(seed=seeds, shape=shapes())
def test_a_gradient_without_parameters(op, seed, shape):
    dy, x = numbers(seed, shape), numbers(seed + 1, shape) * 3
    assert_agree(make_node(op, dy, x), dy, x)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("Elu", {"alpha": 0.7}),
        ("LeakyRelu", {"alpha": 0.2}),
        ("Softplus", {"beta": 2.0, "threshold": 3.0}),
        ("Gelu", {"approximation": "NONE"}),
        ("Gelu", {"approximation": "TANH"}),
    ],
)
@few
@given(seed=seeds, shape=shapes())
def test_an_activation(op, attributes, seed, shape):
    x = numbers(seed, shape) * 3
    assert_agree(make_node(op, x, **attributes), x)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("EluGrad", {"alpha": 0.7}),
        ("LeakyReluGrad", {"alpha": 0.2}),
        ("GeluGrad", {"approximation": "NONE"}),
        ("GeluGrad", {"approximation": "TANH"}),
    ],
)
@few
@given(seed=seeds, shape=shapes())
def test_the_gradient_of_an_activation(op, attributes, seed, shape):
    dy, x = numbers(seed, shape), numbers(seed + 1, shape) * 3
    # Where a slope crosses zero, terms of the size of dy cancel.
    assert_agree(make_node(op, dy, x, **attributes), dy, x, atol=1e-5)


@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
@few
@given(seed=seeds, shape=shapes())
def test_a_comparison(direction, seed, shape):
    a, b = numbers(seed, shape, special=True), numbers(seed + 1, shape, special=True)
    node = make_node("Compare", a, b, dtype=DType.I1, comparison_direction=direction)
    assert_agree(node, a, b)


@few
@given(seed=seeds, shape=shapes(), is_scalar=st.booleans())
def test_select_and_clamp(seed, shape, is_scalar):
    a, b = numbers(seed, shape, special=True), numbers(seed + 1, shape, special=True)
    condition = numbers(seed + 2, () if is_scalar else shape) > 0
    assert_agree(
        make_node("Select", condition, a, b, shape=shape, dtype=DType.F32), condition, a, b
    )
    low, high = (
        np.float32(-0.5) + np.zeros(() if is_scalar else shape, np.float32),
        numbers(seed, ()),
    )
    assert_agree(make_node("Clamp", a, low, high, shape=shape), a, low, high)


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "And", "Or", "Xor", "Pow"])
@few
@given(seed=seeds, shape=shapes())
def test_integers(op, seed, shape):
    a, b = whole_numbers(seed, shape), whole_numbers(seed + 1, shape)
    assert_agree(make_node(op, a, b), a, b)


@pytest.mark.parametrize("op", ["And", "Or", "Xor"])
@few
@given(seed=seeds, shape=shapes())
def test_truth_values(op, seed, shape):
    a, b = whole_numbers(seed, shape) > 0, whole_numbers(seed + 1, shape) > 0
    assert_agree(make_node(op, a, b), a, b)
    assert_agree(make_node("Not", a), a)


@few
@given(seed=seeds, shape=shapes())
def test_integer_division_rounds_down_as_floor_divide(seed, shape):
    a, b = whole_numbers(seed, shape), whole_numbers(seed + 1, shape)
    b[b == 0] = 1
    node = make_node("Div", a, b)
    (expected,) = assert_agree(node, a, b)
    by_torch = torch.floor_divide(torch.from_numpy(a), torch.from_numpy(b))
    np.testing.assert_array_equal(expected, by_torch.numpy())


def test_integer_division_by_zero_is_an_error():
    a, b = np.array([1, 2]), np.array([1, 0])
    node = make_node("Div", a, b)
    with pytest.raises(ValueError, match="division by zero"):
        run_reference(node, a, b)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run_kernel(node, a, b)


@pytest.mark.parametrize("source", [np.float32, np.int32, np.int64, np.bool_])
@pytest.mark.parametrize("target", [DType.F32, DType.I64, DType.I32, DType.I16, DType.I1])
def test_a_cast(source, target):
    x = (numbers(3, (40,)) * 9).astype(source)
    assert_agree(make_node("Cast", x, dtype=target), x)


@pytest.mark.parametrize("op", ["ExtSI", "ExtUI"])
@pytest.mark.parametrize("source", [np.bool_, np.int8, np.int16, np.int32])
def test_a_wider_integer(op, source):
    x = whole_numbers(4, (40,)).astype(source)
    assert_agree(make_node(op, x, dtype=DType.I64), x)


def test_round_takes_a_half_to_even():
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5], dtype=np.float32)
    (found,) = run_kernel(make_node("Round", x), x)
    np.testing.assert_array_equal(found, [0, 2, 2, 0, -2])
