"""Which bytes of the store make up a layer step's slot, in as few pieces as possible."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from appliance.core.plans.plan import Plan
from appliance.streams.protocol import Piece
from appliance.streams.slot_layout import ALIGNMENT_BYTES, LayoutItem, SlotLayout
from appliance.streams.sparse_slots import COUNTS, pattern_of
from appliance.streams.stream_topology import (
    COMPUTED_SEGMENT,
    PACKED_SEGMENT,
    PATTERN_SEGMENT,
    STATE_SEGMENT,
    computed_layout,
    load_layout,
    packed_layout,
    pattern_layout,
    state_layout,
)

Place = tuple[int, str, int]
"""Shard, segment and first byte of a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A run of bytes to copy.

    Attributes:
        shard: MemoryX shard of the store.
        segment: Segment of the store.
        source: First byte in the segment.
        target: First byte in the slot.
        num_bytes: How many.
    """

    shard: int
    segment: str
    source: int
    target: int
    num_bytes: int

    def into(self, slot: NDArray[np.uint8]) -> Piece:
        """Return what to read from the store to carry it out."""
        target = slot[self.target : self.target + self.num_bytes]
        return Piece(segment=self.segment, source=self.source, target=target)


def broadcast_copies(
    plan: Plan, shards: Sequence[Plan], rows: Iterable[tuple[str, ...]]
) -> tuple[tuple[Copy, ...], ...]:
    """Return the copies that fill a slot of the broadcast ring.

    Args:
        plan: A verified plan.
        shards: The plan of each MemoryX shard.
        rows: What slots hold; see `appliance.core.plans.loads.residency.Deliveries`.
    """
    places = places_of(plan, shards)
    return tuple(copies_of(load_layout(plan, names), places) for names in rows)


def places_of(plan: Plan, shards: Sequence[Plan]) -> Mapping[str, Place]:
    """Return where every value and pattern lies.

    Args:
        plan: A verified plan.
        shards: The plan of each MemoryX shard.
    """
    places: dict[str, Place] = {}
    packed: dict[str, Place] = {}
    for shard, own in enumerate(shards):
        layouts = {STATE_SEGMENT: state_layout(own), COMPUTED_SEGMENT: computed_layout(own)}
        for segment, layout in layouts.items():
            places |= {item.name: (shard, segment, item.offset) for item in layout.items}
        packed |= {
            item.name: (shard, PACKED_SEGMENT, item.offset) for item in packed_layout(own).items
        }
    patterns = {item.name: item.offset for item in pattern_layout(plan).items}
    for sparse in plan.sparse:
        places |= dict.fromkeys(sparse.copies, places[sparse.weight])
        shard, _, _ = places[sparse.weight]
        pattern = shard, PATTERN_SEGMENT, patterns[sparse.weight]
        places |= {pattern_of(name): pattern for name in sparse.loads}
    return places | packed


def copies_of(layout: SlotLayout, places: Mapping[str, Place]) -> tuple[Copy, ...]:
    """Return the copies that fill a slot; the counts of sparse values are not among them."""
    found: list[Copy] = []
    for item in layout.items:
        if item.name == COUNTS:
            continue
        copy = _whole(item, *places[item.name])
        if found and _continues(found[-1], copy):
            last = found.pop()
            copy = replace(last, num_bytes=copy.target + copy.num_bytes - last.target)
        if copy.num_bytes:
            found.append(copy)
    return tuple(found)


def _whole(item: LayoutItem, shard: int, segment: str, offset: int) -> Copy:
    return Copy(
        shard=shard,
        segment=segment,
        source=offset,
        target=item.offset,
        num_bytes=item.type.num_bytes,
    )


def _continues(last: Copy, copy: Copy) -> bool:
    """Whether a copy begins where the other ends, but for the same padding on both sides."""
    gap = copy.target - last.target - last.num_bytes
    return (
        (copy.shard, copy.segment) == (last.shard, last.segment)
        and 0 <= gap < ALIGNMENT_BYTES
        and copy.source - last.source - last.num_bytes == gap
    )
