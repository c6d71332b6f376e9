"""Patterns of masked tensors and their encodings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.sparsity.encodings import Encoding, MatrixShape, encoded, pattern_bytes
from appliance.core.sparsity.mask_patterns import Pattern, unpack

SPARSE = (Encoding.BITMAP, Encoding.ROWS)


@st.composite
def masks(draw: st.DrawFn) -> np.ndarray:
    shape = draw(st.tuples(st.integers(0, 9), st.integers(0, 40)))
    density = draw(st.floats(0, 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return rng.random(shape) < density


def shape_of(mask: np.ndarray) -> MatrixShape:
    return MatrixShape.of(mask.shape, 4)


@given(masks(), st.sampled_from(SPARSE))
def test_a_pattern_comes_back_from_its_bytes(mask: np.ndarray, encoding: Encoding) -> None:
    shape = shape_of(mask)
    pattern = Pattern.of_mask(mask, shape)
    packed = pattern.pack(encoding)
    assert packed.size == pattern_bytes(shape, encoding, pattern.num_values)
    found = unpack(packed, shape, encoding, pattern.num_values)
    np.testing.assert_array_equal(found.mask(), mask)
    np.testing.assert_array_equal(found.offsets, pattern.offsets)
    np.testing.assert_array_equal(found.columns, pattern.columns)


@given(masks())
def test_places_are_those_of_the_mask_in_order(mask: np.ndarray) -> None:
    places = Pattern.of_mask(mask, shape_of(mask)).places()
    np.testing.assert_array_equal(places, np.flatnonzero(mask))


@given(masks())
def test_no_other_encoding_takes_fewer_bytes(mask: np.ndarray) -> None:
    shape, num_values = shape_of(mask), int(mask.sum())
    best = encoded(shape, num_values)
    sizes = [4 * num_values + pattern_bytes(shape, how, num_values) for how in SPARSE]
    assert best.num_bytes == min(4 * mask.size, *sizes)


@pytest.mark.parametrize(
    ("density", "encoding", "ratio"),
    [
        (1.0, Encoding.DENSE, 1.0),
        (0.97, Encoding.DENSE, 1.0),
        (0.5, Encoding.BITMAP, 0.54),
        (0.1, Encoding.BITMAP, 0.132),
        (0.05, Encoding.ROWS, 0.078),
        (0.01, Encoding.ROWS, 0.018),
    ],
)
def test_the_encoding_follows_from_the_density(
    density: float, encoding: Encoding, ratio: float
) -> None:
    shape = MatrixShape.of((1024, 1024), 4)
    found = encoded(shape, round(density * shape.num_elements))
    assert found.encoding is encoding
    assert found.num_bytes <= ratio * 4 * shape.num_elements


def test_a_matrix_of_many_columns_has_columns_of_32_bits() -> None:
    shape = MatrixShape.of((2, 1 << 16, 2), 4)
    mask = np.zeros((2, 1 << 17), np.bool_)
    mask[1, -1] = True
    pattern = Pattern.of_mask(mask, shape)
    assert pattern.columns.dtype == np.uint32
    assert unpack(pattern.pack(Encoding.ROWS), shape, Encoding.ROWS, 1).places() == [(1 << 18) - 1]


@pytest.mark.parametrize(
    ("offsets", "columns"),
    [
        ([0, 2, 1, 3], [0, 1, 0]),
        ([1, 2, 2, 3], [0, 1, 0]),
        ([0, 1, 2, 2], [0, 1, 0]),
        ([0, 2, 2, 3], [1, 0, 0]),
        ([0, 2, 2, 3], [0, 4, 0]),
        ([0, 2, 2, 3], [1, 1, 0]),
    ],
)
def test_bytes_that_are_no_pattern_are_refused(offsets: list[int], columns: list[int]) -> None:
    packed = np.concatenate(
        [np.array(offsets, np.int64).view(np.uint8), np.array(columns, np.uint16).view(np.uint8)]
    )
    with pytest.raises(ValueError, match="of a pattern do not ascend"):
        unpack(packed, MatrixShape.of((3, 4), 4), Encoding.ROWS, 3)


def test_a_bitmap_of_another_number_of_values_is_refused() -> None:
    with pytest.raises(ValueError, match="a pattern of 3 values has 2"):
        unpack(np.array([0b101], np.uint8), MatrixShape.of((8,), 4), Encoding.BITMAP, 3)


def test_more_values_than_elements_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot have 7 values"):
        encoded(MatrixShape.of((2, 3), 4), 7)
