"""16-bit numbers in two bytes: the digits of the formats, whatever the bits."""

import numpy as np
import pytest
import torch

from appliance.core.ir.tensors import DType
from appliance.numerics.float_formats import round_to
from appliance.numerics.packed_values import pack, unpack

HALVES = [DType.F16, DType.BF16, DType.CB16]
EVERY_PATTERN = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16)
SIZE = (1 << 17) + 21
"""More than one thread's share, and a rest that no vector holds."""


def packed(dtype, values):
    out = torch.empty(values.shape, dtype=torch.int16)
    pack(dtype, values, out)
    return out


def unpacked(dtype, bits):
    out = torch.empty(bits.shape, dtype=torch.float32)
    unpack(dtype, bits, out)
    return out


def numbers_of_every_kind():
    bits = np.random.default_rng(3).integers(0, 1 << 32, SIZE, dtype=np.uint32)
    return torch.from_numpy(bits.view(np.float32))


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("dtype", HALVES)
def test_packing_rounds_as_the_format_does(dtype, num_threads):
    values, before = numbers_of_every_kind(), torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        found = unpacked(dtype, packed(dtype, values))
    finally:
        torch.set_num_threads(before)
    want = round_to(dtype, values)
    is_number = ~want.isnan()
    assert torch.equal(found.isnan(), want.isnan())
    assert torch.equal(found[is_number].view(torch.int32), want[is_number].view(torch.int32))


@pytest.mark.parametrize("dtype", HALVES)
def test_every_pattern_is_a_number_that_packs_to_it_again(dtype):
    numbers = unpacked(dtype, EVERY_PATTERN)
    is_number = ~numbers.isnan()
    assert torch.equal(packed(dtype, numbers)[is_number], EVERY_PATTERN[is_number])
    assert torch.equal(round_to(dtype, numbers)[is_number], numbers[is_number])
    assert unpacked(dtype, packed(dtype, numbers)).isnan()[~is_number].all()


@pytest.mark.parametrize(
    ("dtype", "known"), [(DType.F16, torch.float16), (DType.BF16, torch.bfloat16)]
)
def test_bits_are_those_that_torch_knows(dtype, known):
    numbers = EVERY_PATTERN.view(known)
    is_number = ~numbers.isnan()
    assert torch.equal(unpacked(dtype, EVERY_PATTERN)[is_number], numbers.float()[is_number])


def test_cbfloat16_has_a_sign_six_bits_of_exponent_and_nine_of_fraction():
    values = torch.tensor([1.0, -2.0, 1.5, 2.0**-39, -0.0, float("inf")])
    want = [31 << 9, 32 << 9 | 1 << 15, 31 << 9 | 1 << 8, 1, 1 << 15, 63 << 9]
    assert [bits & 0xFFFF for bits in packed(DType.CB16, values).tolist()] == want
