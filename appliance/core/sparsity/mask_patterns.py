"""Where a masked tensor is not masked out, and the bytes that say so.

Slow parts of a program use `appliance.numerics.sparse`; this defines what the bytes mean.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from appliance.core.sparsity.encodings import Encoding, MatrixShape, pattern_bytes

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pattern:
    """The places of a matrix that are not masked out, in row-major order.

    Attributes:
        offsets: Where the values of each row begin, and the end; int64 (rows + 1,).
        columns: Column of each value, ascending within a row; `MatrixShape.column_type` (values,).
    """

    shape: MatrixShape
    offsets: NDArray[np.int64]
    columns: NDArray[np.unsignedinteger[Any]]

    @classmethod
    def of_mask(cls, mask: NDArray[np.bool_], shape: MatrixShape) -> "Pattern":
        """Return the pattern of a mask.

        Args:
            mask: True where a value is kept; as many elements as the matrix has.
        """
        rows = mask.reshape(shape.rows, shape.columns)
        counts = np.count_nonzero(rows, axis=1)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        places = np.flatnonzero(rows)
        places -= np.repeat(np.arange(shape.rows) * shape.columns, counts)
        return cls(shape=shape, offsets=offsets, columns=places.astype(shape.column_type))

    @property
    def num_values(self) -> int:
        """How many places there are."""
        return self.columns.size

    def places(self) -> NDArray[np.int64]:
        """Return where each value lies in the row-major matrix; int64 (values,)."""
        starts = np.arange(self.shape.rows, dtype=np.int64) * self.shape.columns
        return np.repeat(starts, np.diff(self.offsets)) + self.columns.astype(np.int64)

    def mask(self) -> NDArray[np.bool_]:
        """Return the mask; bool (rows, columns)."""
        found = np.zeros(self.shape.num_elements, np.bool_)
        found[self.places()] = True
        return found.reshape(self.shape.rows, self.shape.columns)

    def pack(self, encoding: Encoding) -> Bytes:
        """Return the pattern's bytes; uint8 (`pattern_bytes`,).

        Args:
            encoding: How to write it; none is needed if it is dense.
        """
        match encoding:
            case Encoding.DENSE:
                return np.empty(0, np.uint8)
            case Encoding.BITMAP:
                return np.packbits(self.mask().reshape(-1), bitorder="little")
            case Encoding.ROWS:
                return np.concatenate([self.offsets.view(np.uint8), self.columns.view(np.uint8)])


def unpack(packed: Bytes, shape: MatrixShape, encoding: Encoding, num_values: int) -> Pattern:
    """Return the pattern that bytes describe; `ROWS` shares their memory where alignment allows.

    Args:
        packed: As `Pattern.pack` returns them, of the size that `pattern_bytes` says.
        encoding: How they are written.
        num_values: Places of the pattern.

    Raises:
        ValueError: The bytes describe no such pattern.
    """
    wanted = pattern_bytes(shape, encoding, num_values)
    if packed.size != wanted:
        raise ValueError(f"a pattern of {wanted} bytes came in {packed.size}")
    pattern = _unpacked(packed, shape, encoding)
    if pattern.num_values != num_values:
        raise ValueError(f"a pattern of {num_values} values has {pattern.num_values}")
    return pattern


def _unpacked(packed: Bytes, shape: MatrixShape, encoding: Encoding) -> Pattern:
    match encoding:
        case Encoding.DENSE:
            return Pattern.of_mask(np.ones(shape.num_elements, np.bool_), shape)
        case Encoding.BITMAP:
            bits = np.unpackbits(packed, count=shape.num_elements, bitorder="little")
            return Pattern.of_mask(bits.view(np.bool_), shape)
        case Encoding.ROWS:
            return _rows(packed, shape)


def _rows(packed: Bytes, shape: MatrixShape) -> Pattern:
    end = 8 * (shape.rows + 1)
    offsets, columns = packed[:end].view(np.int64), packed[end:].view(shape.column_type)
    counts = np.diff(offsets)
    if offsets[0] != 0 or offsets[-1] != columns.size or (counts < 0).any():
        raise ValueError(f"rows of a pattern do not ascend from 0 to {columns.size} values")
    found = Pattern(shape=shape, offsets=offsets, columns=columns)
    if (columns >= shape.columns).any() or (np.diff(found.places()) <= 0).any():
        raise ValueError(f"columns of a pattern do not ascend below {shape.columns} in each row")
    return found
