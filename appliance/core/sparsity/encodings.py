"""How a masked tensor is sent and kept: which encoding takes the fewest bytes, and how many.

A tensor is seen as a matrix of its first axis by all others. Beside the values that are not masked
out, in row-major order, goes their *pattern*, in one of two encodings:

* `BITMAP`: one bit for each element, row-major, the lowest bit of a byte first;
* `ROWS` (CSR): an int64 for each row and one more, where the row's values begin; then the column of
  each value, in 16 bits where the matrix has at most 65,536 columns, else in 32.

Where neither takes fewer bytes than the tensor itself, it is `DENSE`, and there is no pattern. The
choice follows from shape and number of values alone, so both ends of a stream make it alike.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

_MOST_SHORT_COLUMNS = 1 << 16
_OFFSET_BYTES = 8


class Encoding(StrEnum):
    """How a tensor is written down."""

    DENSE = "dense"
    """Every element."""
    BITMAP = "bitmap"
    """The values, and a bit for each element."""
    ROWS = "rows"
    """The values, and the column of each, row by row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixShape:
    """A tensor seen as a matrix.

    Attributes:
        rows: Size of its first axis; 1 of a vector or scalar.
        columns: Product of the other sizes.
        itemsize: Bytes of an element.
    """

    rows: int
    columns: int
    itemsize: int

    @classmethod
    def of(cls, shape: tuple[int, ...], itemsize: int) -> "MatrixShape":
        """Return that of a tensor.

        Args:
            shape: Its shape.
            itemsize: Bytes of an element.
        """
        rows = shape[0] if len(shape) > 1 else 1
        return cls(rows=rows, columns=math.prod(shape[len(shape) > 1 :]), itemsize=itemsize)

    @property
    def num_elements(self) -> int:
        """Number of elements."""
        return self.rows * self.columns

    @property
    def column_type(self) -> np.dtype[np.unsignedinteger[Any]]:
        """The type that holds the number of a column."""
        return np.dtype(np.uint16 if self.columns <= _MOST_SHORT_COLUMNS else np.uint32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """The sizes of a tensor in the encoding that takes the fewest bytes.

    Attributes:
        num_values: Values that are written: those not masked out, or all of them if dense.
        value_bytes: Bytes of the values.
        pattern_bytes: Bytes of the pattern; 0 if dense.
    """

    encoding: Encoding
    num_values: int
    value_bytes: int
    pattern_bytes: int

    @property
    def num_bytes(self) -> int:
        """Bytes of both."""
        return self.value_bytes + self.pattern_bytes


def pattern_bytes(shape: MatrixShape, encoding: Encoding, num_values: int) -> int:
    """Return the bytes of a pattern.

    Args:
        shape: Of the tensor.
        encoding: How it is written.
        num_values: Elements that are not masked out.
    """
    match encoding:
        case Encoding.DENSE:
            return 0
        case Encoding.BITMAP:
            return -(-shape.num_elements // 8)
        case Encoding.ROWS:
            return _OFFSET_BYTES * (shape.rows + 1) + shape.column_type.itemsize * num_values


def encoded(shape: MatrixShape, num_values: int) -> Encoded:
    """Return the smallest encoding of a tensor; of two that are equal, the simpler one.

    Args:
        shape: Of the tensor.
        num_values: Elements that are not masked out.

    Raises:
        ValueError: The tensor has fewer elements than that.
    """
    if not 0 <= num_values <= shape.num_elements:
        raise ValueError(
            f"a matrix of {shape.rows} x {shape.columns} elements cannot have {num_values} values"
        )
    sparse = [_encoded(shape, how, num_values) for how in (Encoding.BITMAP, Encoding.ROWS)]
    dense = _encoded(shape, Encoding.DENSE, shape.num_elements)
    return min((dense, *sparse), key=lambda choice: choice.num_bytes)


def _encoded(shape: MatrixShape, encoding: Encoding, num_values: int) -> Encoded:
    return Encoded(
        encoding=encoding,
        num_values=num_values,
        value_bytes=shape.itemsize * num_values,
        pattern_bytes=pattern_bytes(shape, encoding, num_values),
    )
