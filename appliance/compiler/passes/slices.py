"""Slice bounds as the program writes them, resolved against a shape.

Source: the semantics of `StridedSlice` in the TensorFlow API documentation, which the program
text follows, masks included.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from appliance.core.ir.graph import Attribute

Shape = tuple[int, ...]
_Masked = Callable[[str, int], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceBounds:
    """One begin, end and stride for each dim; `0 <= begin <= end <= size` for positive strides."""

    begin: Shape
    end: Shape
    stride: Shape

    @property
    def sizes(self) -> Shape:
        """Sizes of the slice, no dim dropped."""
        bounds = zip(self.begin, self.end, self.stride, strict=True)
        return tuple(max(0, -(-(end - begin) // stride)) for begin, end, stride in bounds)

    @property
    def attributes(self) -> dict[str, Attribute]:
        """The bounds as attributes of a node in normal form."""
        return {"begin": self.begin, "end": self.end, "stride": self.stride}


def resolve_slice(shape: Shape, begin: Shape, size: Shape) -> SliceBounds:
    """Return the bounds of `Slice`; a size of -1 means up to the end."""
    ends = (
        full if count < 0 else start + count
        for full, start, count in zip(shape, begin, size, strict=True)
    )
    return SliceBounds(begin=begin, end=tuple(ends), stride=(1,) * len(shape))


def resolve_strided_slice(
    shape: Shape, begin: Shape, end: Shape, stride: Shape, masks: Mapping[str, Attribute]
) -> SliceBounds:
    """Return the bounds of `StridedSlice`, its masks applied.

    Args:
        shape: Shape of the tensor that is sliced.
        begin: One entry for each entry of the slice expression, as are `end` and `stride`.
        end: See `begin`.
        stride: See `begin`.
        masks: Attributes `begin_mask`, `end_mask`, `ellipsis_mask`, `new_axis_mask`,
            `shrink_axis_mask`; absent ones are 0.
    """

    def masked(name: str, entry: int) -> bool:
        mask = masks.get(f"{name}_mask", 0)
        return isinstance(mask, int) and bool(mask >> entry & 1)

    entries = _expand(len(shape), len(begin), masked)
    bounds = [
        _full(size)
        if entry is None
        else _resolve(
            size,
            None if masked("begin", entry) else begin[entry],
            None if masked("end", entry) else end[entry],
            stride[entry],
            shrinks=masked("shrink_axis", entry),
        )
        for size, entry in zip(shape, entries, strict=True)
    ]
    begins, ends, strides = zip(*bounds, strict=True) if bounds else ((), (), ())
    return SliceBounds(begin=tuple(begins), end=tuple(ends), stride=tuple(strides))


def _expand(rank: int, num_entries: int, masked: _Masked) -> Sequence[int | None]:
    """Return, for each dim of the tensor, the entry that slices it; None where it is whole."""
    consuming = [
        entry
        for entry in range(num_entries)
        if not masked("new_axis", entry) and not masked("ellipsis", entry)
    ]
    ellipses = [entry for entry in range(num_entries) if masked("ellipsis", entry)]
    ellipsis = ellipses[0] if ellipses else num_entries
    before: list[int | None] = [entry for entry in consuming if entry < ellipsis]
    after: list[int | None] = [entry for entry in consuming if entry > ellipsis]
    return [*before, *[None] * (rank - len(before) - len(after)), *after]


def _full(size: int) -> tuple[int, int, int]:
    return 0, size, 1


def _resolve(
    size: int, begin: int | None, end: int | None, stride: int, *, shrinks: bool
) -> tuple[int, int, int]:
    if shrinks and begin is not None:
        index = begin + size if begin < 0 else begin
        return index, index + 1, 1
    start, stop, step = slice(begin, end, stride).indices(size)
    if step > 0:
        stop = max(start, stop)
    return start, stop, step
