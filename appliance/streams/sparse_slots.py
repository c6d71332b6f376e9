"""Slots that hold sparse values: their layout follows from how many values each mask lets through.

Such a slot begins with these counts, one int64 for each sparse value of the row in the order of the
row. A load may come with a second one, after all of the first: how many values the systems are to
send of its weight's gradients, which is all of them in a step that takes a new mask. Then come the
values that are not sparse, then each sparse one: what its mask lets through, and, where the row
carries patterns, the pattern of its mask. Encoding and sizes follow from the count
(`appliance.core.sparsity.encodings`), so both ends of a stream know every place. A row without
sparse values has no counts and is laid out as ever.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from appliance.core.errors import InternalError
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.sparsity.encodings import (
    Encoded,
    Encoding,
    MatrixShape,
    encoded,
    pattern_bytes,
)
from appliance.streams.slot_layout import ALIGNMENT_BYTES, SlotLayout

COUNTS = "counts"
Counts = tuple[int, ...]
Row = Sequence[tuple[str, TensorType]]
_COUNT_BYTES = 8


def pattern_of(name: str) -> str:
    """Return the name of the pattern of a sparse value in a slot's layout."""
    return f"{name}/pattern"


class SparseSlots:
    """The layouts of a stream's slots.

    Args:
        rows: What slots hold: names and dense types, in order.
        shapes: Shape of each sparse value, by name; others are dense.
        has_patterns: Whether patterns go with the values.
        asking: Sparse values that come with a count of gradients.
    """

    def __init__(
        self,
        rows: Sequence[Row],
        shapes: Mapping[str, MatrixShape],
        *,
        has_patterns: bool,
        asking: Collection[str] = (),
    ) -> None:
        self._rows, self._shapes, self._has_patterns = rows, shapes, has_patterns
        self._names = tuple(tuple(n for n, _ in row if n in shapes) for row in rows)
        self._asking = tuple(tuple(n for n in names if n in asking) for names in self._names)
        self._latest: dict[int, tuple[Counts, SlotLayout]] = {}

    def names(self, row: int) -> tuple[str, ...]:
        """Return the sparse values of a row, in the order of their counts."""
        return self._names[row]

    def asking(self, row: int) -> tuple[str, ...]:
        """Return those of them that come with a count of gradients, in the order of these."""
        return self._asking[row]

    def asked(self, row: int, counts: Counts) -> Mapping[str, int]:
        """Return how many values of gradients are asked for, by the name of the load."""
        names = self._asking[row]
        return dict(zip(names, counts[len(self._names[row]) :], strict=True))

    def header_bytes(self, row: int) -> int:
        """Return the bytes at the beginning of a slot that hold the counts."""
        return _COUNT_BYTES * self._num_counts(row)

    def _num_counts(self, row: int) -> int:
        return len(self._names[row]) + len(self._asking[row])

    @property
    def largest_header_bytes(self) -> int:
        """Bytes of the counts of the row that has most."""
        return max(map(self.header_bytes, range(len(self._rows))), default=0)

    def most_bytes(self, row: int) -> int:
        """Return the size of the largest slot of a row.

        Encodings are chosen so that values and pattern take no more than the whole tensor would in
        the element type of its shape. Where values are sent in fewer bytes than that, a pattern may
        come on top: of a bit for each element, since any other one is smaller.
        """
        dense = SlotLayout.of(self._rows[row]).num_bytes
        short = [
            self._shapes[name]
            for name, type_ in self._rows[row]
            if name in self._shapes and type_.dtype.container.itemsize < self._shapes[name].itemsize
        ]
        patterns = sum(pattern_bytes(shape, Encoding.BITMAP, 0) for shape in short)
        return dense + patterns + ALIGNMENT_BYTES * 3 * len(self._names[row])

    def counts(self, row: int, slot: NDArray[np.uint8]) -> Counts:
        """Return the counts at the beginning of a slot.

        Raises:
            InternalError: A count cannot be.
        """
        found = tuple(slot[: self.header_bytes(row)].view(np.int64).tolist())
        for name, count in zip((*self._names[row], *self._asking[row]), found, strict=True):
            if not 0 <= count <= self._shapes[name].num_elements:
                raise InternalError(f"A slot holds {count} values of %{name}.")
        return found

    def layout(self, row: int, counts: Counts) -> SlotLayout:
        """Return where everything lies in a slot; the latest layout of each row is remembered."""
        latest = self._latest.get(row)
        if latest is None or latest[0] != counts:
            latest = self._latest[row] = counts, SlotLayout.of(self._entries(row, counts))
        return latest[1]

    def encoded(self, name: str, count: int) -> Encoded:
        """Return how a sparse value is written."""
        return encoded(self._shapes[name], count)

    def _entries(self, row: int, counts: Counts) -> Iterator[tuple[str, TensorType]]:
        names = self._names[row]
        if names:
            yield COUNTS, TensorType((self._num_counts(row),), DType.I64)
        types = dict(self._rows[row])
        yield from ((name, type_) for name, type_ in types.items() if name not in self._shapes)
        for name, count in zip(names, counts[: len(names)], strict=True):
            how = self.encoded(name, count)
            is_dense = how.encoding is Encoding.DENSE
            yield name, types[name] if is_dense else TensorType((count,), types[name].dtype)
            if self._has_patterns and how.pattern_bytes:
                yield pattern_of(name), TensorType((how.pattern_bytes,), DType.U8)
