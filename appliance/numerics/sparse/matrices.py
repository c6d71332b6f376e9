"""A matrix that is mostly zero, by its rows.

A *pattern* says where it is not zero; it outlives the values, which change with every step. The
same matrix by its columns, which a product with the transposed matrix reads, has a pattern of its
own and takes its values from the first one's; it is worked out once for a pattern.
"""

from dataclasses import dataclass, field

import torch

from appliance.numerics.sparse.native.native_calls import (
    BitmapWork,
    CheckWork,
    ConversionWork,
    MatrixRecord,
    TransposeWork,
    functions,
)

MOST_SHORT_COLUMNS = 1 << 16
"""Columns up to which a column's number has 16 bits."""
_MOST_VALUES = (1 << 31) - 1


def index_type(num_columns: int) -> torch.dtype:
    """Return the type of the numbers of so many columns."""
    return torch.uint16 if num_columns <= MOST_SHORT_COLUMNS else torch.uint32


@dataclass(frozen=True, slots=True, eq=False)
class _Other:
    """A pattern by its columns, and the position of each of its values by rows, int32."""

    pattern: "Pattern"
    sources: torch.Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pattern:
    """Where a matrix is not zero, in rows of ascending columns.

    Attributes:
        num_rows: Of the matrix.
        num_columns: Of the matrix.
        offsets: int64 [num_rows + 1], ascending from 0: where each row's values begin, and the end.
        columns: uint16, or uint32 for more than 65,536 columns; of every value.
    """

    num_rows: int
    num_columns: int
    offsets: torch.Tensor
    columns: torch.Tensor
    _by_columns: list[_Other] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check what costs nothing to check.

        Raises:
            ValueError: Types or sizes do not fit one another.
        """
        wanted = index_type(self.num_columns)
        if self.columns.dtype is not wanted or self.offsets.dtype is not torch.int64:
            raise ValueError(
                f"a pattern of {self.num_columns} columns has columns of {self.columns.dtype} and "
                f"offsets of {self.offsets.dtype}, not {wanted} and torch.int64"
            )
        if self.offsets.shape != (self.num_rows + 1,):
            raise ValueError(f"{self.num_rows} rows have offsets of shape {self.offsets.shape}")
        if not (self.offsets.is_contiguous() and self.columns.is_contiguous()):
            raise ValueError("offsets and columns of a pattern have to be contiguous")
        if self.num_values > _MOST_VALUES:
            raise ValueError(f"a matrix has {self.num_values} values; {_MOST_VALUES} is the most")

    @property
    def num_values(self) -> int:
        """How many elements are not zero."""
        return self.columns.numel()

    @property
    def density(self) -> float:
        """Their share of the matrix; 1 of a matrix without elements."""
        size = self.num_rows * self.num_columns
        return self.num_values / size if size else 1.0

    def verify(self) -> None:
        """Check all that the machine code relies on; for a pattern that comes from elsewhere.

        Raises:
            ValueError: Offsets descend, or columns do not ascend in a row or are too large.
        """
        work = CheckWork(matrix=self.record(None), num_values=self.num_values)
        functions().check(work)
        if not work.are_offsets:
            raise ValueError(f"offsets of a pattern do not ascend from 0 to {self.num_values}")
        if not work.are_columns:
            raise ValueError(
                f"columns of a pattern do not ascend below {self.num_columns} in each row"
            )

    def _rows(self) -> torch.Tensor:
        """Return the row of each value."""
        return torch.arange(self.num_rows).repeat_interleave(self.offsets.diff())

    def places(self) -> torch.Tensor:
        """Return where each value is in the matrix laid out row by row; int64."""
        return self._rows() * self.num_columns + self.columns.to(torch.int64)

    def transposed(self) -> "tuple[Pattern, torch.Tensor]":
        """Return the pattern of the transposed matrix, and where its values are in ours (int32)."""
        if not self._by_columns:
            self._by_columns.append(self._transpose())
        (other,) = self._by_columns
        return other.pattern, other.sources

    def _transpose(self) -> _Other:
        offsets = torch.empty(self.num_columns + 1, dtype=torch.int64)
        rows = torch.empty(self.num_values, dtype=index_type(self.num_rows))
        sources = torch.empty(self.num_values, dtype=torch.int32)
        work = TransposeWork(
            matrix=self.record(None),
            is_long=rows.dtype is torch.uint32,
            offsets=offsets.data_ptr(),
            rows=rows.data_ptr(),
            sources=sources.data_ptr(),
        )
        functions().transpose(work)
        pattern = Pattern(
            num_rows=self.num_columns, num_columns=self.num_rows, offsets=offsets, columns=rows
        )
        return _Other(pattern, sources)

    def record(self, values: torch.Tensor | None) -> MatrixRecord:
        """Return what machine code is told; it holds addresses, no references."""
        return MatrixRecord(
            num_rows=self.num_rows,
            num_columns=self.num_columns,
            is_long=self.columns.dtype is torch.uint32,
            offsets=self.offsets.data_ptr(),
            columns=self.columns.data_ptr(),
            values=None if values is None else values.data_ptr(),
        )


def pattern_of_bits(
    bits: torch.Tensor, *, num_rows: int, num_columns: int, num_values: int
) -> Pattern:
    """Return the pattern of a bitmap.

    Args:
        bits: uint8, a bit for each element, row by row, the lowest bit of a byte first.
        num_rows: Of the matrix.
        num_columns: Of the matrix.
        num_values: How many bits are set.

    Raises:
        ValueError: Another number of bits is set, or there are too few bytes.
    """
    if bits.numel() < -(-num_rows * num_columns // 8) or not bits.is_contiguous():
        raise ValueError(f"a bitmap of {num_rows} x {num_columns} has {bits.numel()} bytes")
    offsets = torch.empty(num_rows + 1, dtype=torch.int64)
    columns = torch.empty(num_values, dtype=index_type(num_columns))
    work = BitmapWork(
        num_rows=num_rows,
        num_columns=num_columns,
        num_values=num_values,
        is_long=columns.dtype is torch.uint32,
        bits=bits.data_ptr(),
        offsets=offsets.data_ptr(),
        columns=columns.data_ptr(),
    )
    if not functions().unpack(work):
        raise ValueError(f"a bitmap has not the {num_values} ones that it was said to have")
    return Pattern(num_rows=num_rows, num_columns=num_columns, offsets=offsets, columns=columns)


def full_pattern(num_rows: int, num_columns: int) -> Pattern:
    """Return the pattern of a matrix without zeros."""
    columns = torch.arange(num_columns, dtype=torch.int32).to(index_type(num_columns))
    return Pattern(
        num_rows=num_rows,
        num_columns=num_columns,
        offsets=torch.arange(num_rows + 1) * num_columns,
        columns=columns.repeat(num_rows),
    )


def pattern_of(matrix: torch.Tensor) -> Pattern:
    """Return where a matrix is not zero."""
    num_rows, num_columns = matrix.shape
    rows, columns = matrix.nonzero(as_tuple=True)
    counts = rows.bincount(minlength=num_rows)
    return Pattern(
        num_rows=num_rows,
        num_columns=num_columns,
        offsets=torch.cat([counts.new_zeros(1), counts.cumsum(0)]),
        columns=columns.to(index_type(num_columns)),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparseMatrix:
    """A pattern and its values.

    Attributes:
        pattern: Where they are.
        values: float32, contiguous, in the order of the pattern.
    """

    pattern: Pattern
    values: torch.Tensor

    def __post_init__(self) -> None:
        """Check the values against the pattern.

        Raises:
            ValueError: They are of another type or number.
        """
        values, count = self.values, self.pattern.num_values
        if values.shape != (count,) or values.dtype is not torch.float32:
            raise ValueError(
                f"a pattern of {count} values was given {values.dtype} of shape "
                f"{tuple(values.shape)}"
            )
        if not values.is_contiguous():
            raise ValueError("values of a sparse matrix have to be contiguous")

    def transposed(self) -> "SparseMatrix":
        """Return the transposed matrix, its values copied."""
        pattern, sources = self.pattern.transposed()
        return SparseMatrix(pattern=pattern, values=self.values.index_select(0, sources))

    def dense(self) -> torch.Tensor:
        """Return the matrix with its zeros, float32 [rows, columns]."""
        found = torch.empty(self.pattern.num_rows, self.pattern.num_columns)
        functions().fill(
            ConversionWork(
                matrix=self.pattern.record(None),
                values=self.values.data_ptr(),
                dense=found.data_ptr(),
            )
        )
        return found


def values_at(matrix: torch.Tensor, pattern: Pattern, out: torch.Tensor) -> None:
    """Write to `out`, float32 [values], what a contiguous float32 matrix has at a pattern."""
    functions().take(
        ConversionWork(matrix=pattern.record(None), values=out.data_ptr(), dense=matrix.data_ptr())
    )


def sparse_matrix(matrix: torch.Tensor) -> SparseMatrix:
    """Return a float32 matrix without its zeros."""
    pattern = pattern_of(matrix)
    return SparseMatrix(pattern=pattern, values=matrix.reshape(-1)[pattern.places()])
