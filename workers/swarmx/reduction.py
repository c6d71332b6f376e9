"""Sums slots of equal layout over children, tensor by tensor, in the order of the tree."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from appliance.core.plans.micro_batches import Visit
from appliance.streams.slot_layout import ALIGNMENT_BYTES, SlotLayout, Span
from workers.swarmx.addition_tree import additions

Slot = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedSpan:
    """A span of the slots that are added up, and its place in a slot of the sum.

    Attributes:
        target: Its first byte in the slot of the sum.
    """

    span: Span
    target: int


def parts(layout: SlotLayout, wanted: SlotLayout) -> tuple[PlacedSpan, ...]:
    """Return how a slot of some of the sums is made from a slot of all of them.

    Args:
        layout: The slots that are added up.
        wanted: The slot of the sum: some of their tensors, in the same order.
    """
    offsets = {item.name: item.offset for item in wanted.items}
    found: list[PlacedSpan] = []
    for item in layout.items:
        if item.name not in offsets or not item.type.num_bytes:
            continue
        start, target, dtype = item.offset, offsets[item.name], item.type.dtype.container
        if found and _continues(found[-1], start, target, dtype):
            last = found.pop()
            start, target = last.span.start, last.target
        span = Span(dtype=dtype, start=start, end=item.offset + item.type.num_bytes)
        found.append(PlacedSpan(span=span, target=target))
    return tuple(found)


def _continues(last: PlacedSpan, start: int, target: int, dtype: np.dtype[np.generic]) -> bool:
    """Whether a tensor follows a part on both sides; what lies between is padding."""
    gap = start - last.span.end
    return (
        dtype == last.span.dtype
        and gap < ALIGNMENT_BYTES
        and gap == target - last.target - (last.span.end - last.span.start)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A sum that lacks its last addition, which can still write it anywhere.

    Attributes:
        right: The slot to add to it; None if nothing is left to add.
    """

    left: Slot
    right: Slot | None = None

    def write(self, total: Slot, layout_parts: Iterable[PlacedSpan]) -> None:
        """Write some parts of the sum.

        Args:
            total: Receives them; overlaps neither slot, or is `left` and gets all of it.
            layout_parts: Which parts, and where they go.
        """
        # An overflow or a NaN is a result like any other: the loss scale's business, not ours.
        with np.errstate(all="ignore"):
            for part in layout_parts:
                span = part.span
                source = slice(span.start, span.end)
                target = slice(part.target, part.target + span.end - span.start)
                if self.right is None:
                    total[target] = self.left[source]
                    continue
                np.add(
                    self.left[source].view(span.dtype),
                    self.right[source].view(span.dtype),
                    out=total[target].view(span.dtype),
                )


class Reduction:
    """Adds up one slot of every child, in place where the tree allows it.

    Args:
        num_children: Number of children: systems, or SwarmX pods with systems below them.
    """

    def __init__(self, num_children: int) -> None:
        *inner, root = additions(num_children) or (None,)
        self._num_children = num_children
        self._inner = tuple(addition for addition in inner if addition is not None)
        self._root = root

    def run(self, whole: Sequence[PlacedSpan], take: Callable[[int], Slot]) -> Pending:
        """Take every child's slot and return the sum; the slots taken are used as scratch.

        Args:
            whole: All parts of a slot, each at its own place.
            take: Returns a child's slot, waiting for it; called once for each, in order, and never
                earlier than needed, so that sums begin while later systems still compute.
        """
        slots: list[Slot] = []

        def slot(child: int) -> Slot:
            while len(slots) <= child:
                slots.append(take(len(slots)))
            return slots[child]

        for addition in self._inner:
            source, target = slot(addition.source), slot(addition.target)
            Pending(left=target, right=source).write(target, whole)
        last = slot(self._num_children - 1)
        if self._root is None:
            return Pending(left=last)
        return Pending(left=slots[0], right=slot(self._root.source))


class Accumulation:
    """Adds up the sums of a layer step over its micro-batches, one after the other.

    Args:
        sizes: Largest slot of each layer step; memory is taken only where there are micro-batches.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = tuple(sizes)
        self._sums: dict[int, Slot] = {}
        self._scratch: Slot = np.empty(0, dtype=np.uint8)

    def add(self, visit: Visit, whole: Sequence[PlacedSpan], pending: Pending) -> Pending | None:
        """Take in a micro-batch's sum; return that over all of them with the last one.

        Args:
            visit: The visit that the sum is of.
            whole: All parts of its slot, each at its own place.
            pending: The micro-batch's sum over the systems.
        """
        if visit.is_first and visit.is_last:
            return pending
        size = self._sizes[visit.layer_step]
        if visit.is_first:
            if visit.layer_step not in self._sums:
                self._sums[visit.layer_step] = np.empty(size, dtype=np.uint8)
            pending.write(self._sums[visit.layer_step], whole)
            return None
        if len(self._scratch) < size:
            self._scratch = np.empty(max(self._sizes), dtype=np.uint8)
        pending.write(self._scratch, whole)
        so_far = Pending(left=self._sums[visit.layer_step], right=self._scratch)
        if visit.is_last:
            return so_far
        so_far.write(so_far.left, whole)
        return None
