"""Sums slots of equal layout over the systems, tensor by tensor, in the order of the tree."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from appliance.core.micro_batches import Visit
from appliance.streams.layout import SlotLayout
from appliance.swarmx.tree import additions

Slot = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A run of tensors of one element type, padding included: one addition serves them all.

    Attributes:
        dtype: Container element type.
        start: First byte in the slot.
        end: Byte after the last one.
    """

    dtype: np.dtype[np.generic]
    start: int
    end: int


def spans(layout: SlotLayout) -> tuple[Span, ...]:
    """Return the runs of a slot.

    Padding between tensors is added along: nobody reads it, and adding it costs less than another
    call.
    """
    found: list[Span] = []
    for item in layout.items:
        dtype = item.type.dtype.container
        start, end = item.offset, item.offset + item.type.num_bytes
        if start == end:
            continue
        if found and found[-1].dtype == dtype:
            found[-1] = Span(dtype=dtype, start=found[-1].start, end=end)
        else:
            found.append(Span(dtype=dtype, start=start, end=end))
    return tuple(found)


class Reduction:
    """Adds up one slot of every system, in place where the tree allows it.

    Args:
        num_systems: Number of systems.
        fan_in: Children that one node of the tree waits for.
    """

    def __init__(self, num_systems: int, *, fan_in: int) -> None:
        *inner, root = additions(num_systems, fan_in=fan_in) or (None,)
        self._num_systems = num_systems
        self._inner = tuple(addition for addition in inner if addition is not None)
        self._root = root

    def run(self, layout_spans: Sequence[Span], take: Callable[[int], Slot], total: Slot) -> None:
        """Take every system's slot and write the sum; the slots taken are used as scratch.

        Args:
            layout_spans: The runs of the slots.
            take: Returns a system's slot, waiting for it; called once for each, in order, and never
                earlier than needed, so that sums begin while later systems still compute.
            total: Receives the sum; overlaps none of the slots.
        """
        slots: list[Slot] = []

        def slot(system: int) -> Slot:
            while len(slots) <= system:
                slots.append(take(len(slots)))
            return slots[system]

        for addition in self._inner:
            source, target = slot(addition.source), slot(addition.target)
            _add(layout_spans, target, source, target)
        last = slot(self._num_systems - 1)
        if self._root is None:
            for span in layout_spans:
                total[span.start : span.end] = last[span.start : span.end]
        else:
            _add(layout_spans, slots[0], slot(self._root.source), total)


class Accumulation:
    """Adds up the sums of a layer step over its micro-batches, one after the other.

    Args:
        layouts: Slot layout of each layer step; memory is taken only where there are micro-batches.
    """

    def __init__(self, layouts: Sequence[SlotLayout]) -> None:
        self._sizes = tuple(layout.num_bytes for layout in layouts)
        self._sums: dict[int, Slot] = {}
        self._scratch: Slot = np.empty(0, dtype=np.uint8)

    def target(self, visit: Visit) -> Slot:
        """Return where to write a micro-batch's sum, for any but the last one."""
        size = self._sizes[visit.layer_step]
        if visit.is_first:
            if visit.layer_step not in self._sums:
                self._sums[visit.layer_step] = np.empty(size, dtype=np.uint8)
            return self._sums[visit.layer_step]
        if len(self._scratch) < size:
            self._scratch = np.empty(max(self._sizes), dtype=np.uint8)
        return self._scratch[:size]

    def add(self, visit: Visit, layout_spans: Sequence[Span], total: Slot) -> None:
        """Take in a micro-batch's sum; with the last one, `total` becomes the sum over all."""
        if visit.is_first:
            return
        so_far = self._sums[visit.layer_step]
        _add(layout_spans, so_far, total, total if visit.is_last else so_far)


def _add(layout_spans: Sequence[Span], left: Slot, right: Slot, out: Slot) -> None:
    # An overflow or a NaN is a result like any other: the loss scale's business, not ours.
    with np.errstate(all="ignore"):
        for span in layout_spans:
            part = slice(span.start, span.end)
            np.add(
                left[part].view(span.dtype),
                right[part].view(span.dtype),
                out=out[part].view(span.dtype),
            )
