"""Arrays of the host as words of the device, and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.sdk.host.arrays import (
    MemcpyOrder,
    calculate_cycles,
    input_array_to_u32,
    memcpy_view,
    to_device,
    to_host,
)

ROW, COL = MemcpyOrder.ROW_MAJOR, MemcpyOrder.COL_MAJOR
SIZES = st.integers(1, 5)


@pytest.mark.parametrize("order", [ROW, COL])
@given(w=SIZES, h=SIZES, length=SIZES)
def test_every_element_lies_where_the_order_says(order, w, h, length):
    flat = np.arange(w * h * length, dtype=np.uint32)
    data = to_device(flat, order, w=w, h=h, l=length)
    for x, y, i in np.ndindex(w, h, length):
        row, col = (y * w + x) * length + i, (i * w + x) * h + y
        assert data[y, x, i] == (row if order is ROW else col)


@pytest.mark.parametrize("order", [ROW, COL])
@given(w=SIZES, h=SIZES, length=SIZES)
def test_what_goes_to_the_device_comes_back(order, w, h, length):
    source = np.random.default_rng(0).normal(size=w * h * length).astype(np.float32)
    target = np.zeros((w * h * length, 1), np.float32)
    to_host(to_device(source, order, w=w, h=h, l=length), target, order)
    np.testing.assert_array_equal(target[:, 0], source)


def test_a_target_that_is_a_view_is_filled_in_place():
    whole = np.zeros((4, 6), np.int32)
    to_host(np.arange(12, dtype=np.uint32).reshape(2, 3, 2), whole[:, ::2], ROW)
    np.testing.assert_array_equal(whole[:, ::2].ravel(), np.arange(12))
    assert not whole[:, 1::2].any()


def test_an_array_of_another_width_or_size_is_refused():
    with pytest.raises(ValueError, match="must have 32 bits"):
        to_device(np.zeros(4, np.float64), ROW, w=2, h=2, l=1)
    with pytest.raises(ValueError, match="has 3 elements; 2 x 2 PEs with 1 each take 4"):
        to_device(np.zeros(3, np.float32), ROW, w=2, h=2, l=1)
    with pytest.raises(ValueError, match="has 3 elements; the copy brings 4"):
        to_host(np.zeros((2, 2, 1), np.uint32), np.zeros(3, np.int32), ROW)


@pytest.mark.parametrize("order", [ROW, COL])
def test_of_a_longer_array_the_beginning_is_copied(order):
    longer, exact = np.arange(9, dtype=np.int32), np.arange(4, dtype=np.int32)
    sent = to_device(longer, order, w=2, h=2, l=1)
    np.testing.assert_array_equal(sent, to_device(exact, order, w=2, h=2, l=1))
    target = np.full(9, -1, np.int32)
    to_host(sent, target, order)
    assert target.tolist() == [0, 1, 2, 3, -1, -1, -1, -1, -1]


def test_a_view_of_the_low_bits_writes_through():
    words = np.array([0x00013C00, 0x00024000], np.uint32)
    view = memcpy_view(words, np.dtype(np.float16))
    np.testing.assert_array_equal(view, np.array([1.0, 2.0], np.float16))
    view[0] = 2.0
    assert words[0] == 0x00014000
    assert memcpy_view(words.reshape(2, 1)[::-1], np.uint8).shape == (2, 1)


def test_16_bit_inputs_carry_their_index_if_asked():
    data = np.array([1, -1, 2], np.int16)
    assert input_array_to_u32(data, None, 3).tolist() == [1, 0xFFFF, 2]
    assert input_array_to_u32(data, 0, 2).tolist() == [1, 0x1FFFF, 2]
    halves = np.array([1.0], np.float16)
    assert input_array_to_u32(halves, None, 1).tolist() == [0x3C00]


def test_cycles_are_the_difference_of_two_48_bit_time_stamps():
    start, end = (5 << 32) + 7, (6 << 32) + 9
    words = [value >> shift & 0xFFFF for value in (start, end) for shift in (0, 16, 32)]
    packed = np.array(words, np.uint16).view(np.float32)
    assert calculate_cycles(packed) == end - start
