"""What the slots of the broadcast ring hold, and which bytes of MemoryX's stores fill them."""

from collections.abc import Sequence

from appliance.core.plans.plan import Plan
from appliance.core.pods.pod_options import StreamMode
from appliance.streams.slot_layout import ALIGNMENT_BYTES
from appliance.streams.sparse_slots import Counts
from appliance.streams.stream_topology import load_slots
from workers.swarmx.reduction import Slot
from workers.swarmx.slot_copies import Copy, copies_of, places_of


class BroadcastRows:
    """The rows of a broadcast; see `appliance.core.plans.loads.residency.Deliveries`.

    Args:
        plan: A verified plan.
        shards: The plan of each MemoryX shard.
        rows: The names of values of each row.
        mode: Whether they are sent, or read where they lie.
    """

    def __init__(
        self, plan: Plan, shards: Sequence[Plan], rows: Sequence[Sequence[str]], mode: StreamMode
    ) -> None:
        self._slots = load_slots(plan, rows)
        self._is_sent = mode is StreamMode.RING
        self._places = places_of(plan, shards) if self._is_sent else {}
        self._num_shards = len(shards)
        self._copies: dict[int, tuple[Counts, tuple[tuple[Copy, ...], ...]]] = {}
        numbers = range(len(rows))
        sizes = map(self._slots.most_bytes if self._is_sent else self._slots.header_bytes, numbers)
        self.largest_bytes = -(-max(sizes, default=0) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES

    def counts(self, row: int, slot: Slot) -> Counts:
        """Return the counts that an announcement or a slot begins with."""
        return self._slots.counts(row, slot)

    def header_bytes(self, row: int) -> int:
        """Return the bytes of a row's counts."""
        return self._slots.header_bytes(row)

    def num_bytes(self, row: int, counts: Counts) -> int:
        """Return the size of a slot."""
        if not self._is_sent:
            return self._slots.header_bytes(row)
        return self._slots.layout(row, counts).num_bytes

    def value_bytes(self, row: int, counts: Counts) -> int:
        """Return the bytes of the values in a slot, padding apart."""
        return sum(copy.num_bytes for shard in self.copies(row, counts) for copy in shard)

    def copies(self, row: int, counts: Counts) -> tuple[tuple[Copy, ...], ...]:
        """Return what to copy from each shard; that of the latest counts is remembered."""
        if not self._is_sent:
            return ((),) * self._num_shards
        latest = self._copies.get(row)
        if latest is None or latest[0] != counts:
            every = copies_of(self._slots.layout(row, counts), self._places)
            by_shard = tuple(
                tuple(copy for copy in every if copy.shard == shard)
                for shard in range(self._num_shards)
            )
            latest = self._copies[row] = counts, by_shard
        return latest[1]
