"""Rounding to the 16-bit formats: to nearest even, subnormals, overflow, NaN."""

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from appliance.core.ir.tensors import DType
from appliance.numerics.float_formats import round_to
from appliance.numerics.reference.definition import round_to_format
from tests.unit.numerics.cases import (
    assert_agree,
    examples,
    make_node,
    numbers,
    run_kernel,
    run_reference,
)

HALVES = [DType.F16, DType.BF16, DType.CB16]
SMALLEST = {DType.F16: 2.0**-24, DType.BF16: 2.0**-133, DType.CB16: 2.0**-39}
LARGEST = {
    DType.F16: 65504.0,
    DType.BF16: (2 - 2.0**-7) * 2.0**127,
    DType.CB16: (2 - 2.0**-9) * 2.0**31,
}


def rounded(dtype, *values):
    return round_to(dtype, torch.tensor(values, dtype=torch.float32)).tolist()


@pytest.mark.parametrize("dtype", HALVES)
@examples(60)
@given(bits=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
@example(bits=[0x7F800000, 0xFF800000, 0x7FC00000, 0x7F7FFFFF, 0x00000001, 0x80000000])
def test_the_fast_rounding_is_the_defined_one_for_any_bit_pattern(dtype, bits):
    x = np.array(bits, dtype=np.uint32).view(np.float32)
    found = round_to(dtype, torch.from_numpy(x.copy())).numpy()
    with np.errstate(all="ignore"):
        expected = round_to_format(x, dtype)
    np.testing.assert_array_equal(found, expected)
    kept = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[kept], np.signbit(expected)[kept])


@pytest.mark.parametrize("dtype", HALVES)
def test_the_ends_of_the_range(dtype):
    small, large = SMALLEST[dtype], LARGEST[dtype]
    assert rounded(dtype, small, large, -large) == [small, large, -large]
    assert rounded(dtype, small * 0.5, small * 1.5) == [0.0, small * 2]
    assert rounded(dtype, large * (1 + 2.0**-15)) == [large]
    if dtype != DType.BF16:
        assert rounded(dtype, large * 1.01) == [float("inf")]


@pytest.mark.parametrize(("dtype", "quantum"), [(DType.F16, 2.0**-10), (DType.CB16, 2.0**-9)])
def test_a_half_goes_to_even(dtype, quantum):
    low, high = 1 + 0.5 * quantum, 1 + 1.5 * quantum
    assert rounded(dtype, low, high) == [1.0, 1 + 2 * quantum]


def test_other_types_stay_as_they_are():
    x = torch.randn(3)
    assert round_to(DType.F32, x) is x


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("op", ["Add", "Mul", "Exp", "Tanh"])
def test_a_16_bit_result_is_rounded_once(dtype, op):
    operands = [
        round_to_format(numbers(seed, (300,)), dtype)
        for seed in ((0, 1) if op in "AddMul" else (0,))
    ]
    node = make_node(op, *operands, half=dtype)
    (found,) = run_kernel(node, *operands, half=dtype)
    np.testing.assert_array_equal(found, round_to_format(found, dtype))
    (expected,) = run_reference(node, *operands)
    unequal = np.flatnonzero(found != expected)  # the kernel's float32 may lie across a tie
    np.testing.assert_allclose(found[unequal], expected[unequal], rtol=2.0**-7)
    assert len(unequal) <= 3


@pytest.mark.parametrize("dtype", HALVES)
def test_a_16_bit_product_with_a_float32_result_is_not_rounded(dtype):
    a, b = (round_to_format(numbers(seed, (8, 8)), dtype) for seed in (0, 1))
    attributes = {"transpose_a": False, "transpose_b": True}
    node = make_node("MatMul", a, b, half=dtype, dtype=DType.F32, **attributes)
    (found,) = assert_agree(node, a, b, atol=1e-5)
    assert (found != round_to_format(found, dtype)).any()


@pytest.mark.parametrize("dtype", HALVES)
def test_a_splat_stays_one_element(dtype):
    once = torch.from_numpy(numbers(3, (1,)))
    found = round_to(dtype, once.expand(4, 300))
    assert not any(found.stride())
    np.testing.assert_array_equal(found[0, :1], round_to(dtype, once))
