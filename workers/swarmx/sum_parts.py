"""Where the sums of a layer step lie in the slots that come and in those that go on."""

from collections.abc import Sequence
from dataclasses import dataclass

from appliance.core.plans.plan import Plan
from appliance.streams.slot_layout import SlotLayout
from appliance.streams.sparse_slots import COUNTS, Counts
from appliance.streams.stream_topology import sum_slots
from workers.swarmx.reduction import PlacedSpan, Slot, parts


@dataclass(frozen=True, slots=True, kw_only=True)
class SentParts:
    """What goes into one slot of sums.

    Attributes:
        parts: Which sums, and where they go.
        num_bytes: Size of the slot.
    """

    parts: tuple[PlacedSpan, ...]
    num_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SumLayout:
    """The slots of one layer step.

    Attributes:
        header_bytes: Counts of sparse sums at the beginning of each; they are not added up.
        whole: All sums, each at its own place.
        up: What goes to the pod above.
        by_shard: What goes to each shard of MemoryX.
    """

    header_bytes: int
    whole: tuple[PlacedSpan, ...]
    up: SentParts
    by_shard: tuple[SentParts, ...]


class SumParts:
    """The slots of every layer step.

    Args:
        plan: A verified plan.
        shards: The plan of each MemoryX shard; where there are several, no sum is sparse.
    """

    def __init__(self, plan: Plan, shards: Sequence[Plan]) -> None:
        self._slots = sum_slots(plan)
        self._by_shard = tuple(map(sum_slots, shards))
        numbers = range(len(plan.layer_steps))
        self.largest_bytes = tuple(map(self._slots.most_bytes, numbers))
        self._latest: dict[int, tuple[Counts, SumLayout]] = {}

    def largest_of(self, shard: int) -> int:
        """Return the size of the largest slot of a shard."""
        numbers = range(len(self.largest_bytes))
        return max(map(self._by_shard[shard].most_bytes, numbers), default=0)

    def of(self, layer_step: int, slot: Slot) -> SumLayout:
        """Return the layout of a layer step's slots, given one of them that has come."""
        counts = self._slots.counts(layer_step, slot)
        latest = self._latest.get(layer_step)
        if latest is None or latest[0] != counts:
            latest = self._latest[layer_step] = counts, self._layout(layer_step, counts)
        return latest[1]

    def _layout(self, layer_step: int, counts: Counts) -> SumLayout:
        layout = self._slots.layout(layer_step, counts)
        sums = layout.of_only([item.name for item in layout.items if item.name != COUNTS])
        return SumLayout(
            header_bytes=self._slots.header_bytes(layer_step),
            whole=parts(sums, sums),
            up=_sent(sums, sums),
            by_shard=tuple(
                _sent(sums, slots.layout(layer_step, counts)) for slots in self._by_shard
            ),
        )


def _sent(layout: SlotLayout, wanted: SlotLayout) -> SentParts:
    return SentParts(parts=parts(layout, wanted), num_bytes=wanted.num_bytes)
