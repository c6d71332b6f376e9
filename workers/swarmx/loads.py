"""Where a SwarmX pod reads what it broadcasts: MemoryX's store, or its parent pod."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from appliance.core.errors import StreamClosedError
from appliance.streams.protocol import RingReader, Store
from workers.swarmx.reduction import Slot
from workers.swarmx.slot_copies import Copy


class Loads(Protocol):
    """The loads of layer steps, one visit after the other."""

    def wait(self) -> None:
        """Wait until those of the next visit are there.

        Raises:
            StreamClosedError: They will not come.
        """
        ...

    def copy(self, row: int, slot: Slot) -> None:
        """Copy them.

        Args:
            row: What the visit is sent; see `appliance.core.plans.residency.Deliveries`.
            slot: Receives them, from its first byte.
        """
        ...

    def release(self) -> None:
        """Be done with them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardLoads:
    """What one MemoryX shard holds.

    Attributes:
        name: Name of the stream in which it announces.
        announce: Says that its loads of a visit are ready.
        store: Its memory.
        copies: For each row, which bytes of the store go where.
    """

    name: str
    announce: RingReader
    store: Store
    copies: Sequence[Sequence[Copy]]


class StoredLoads:
    """What MemoryX holds and announces; for the root of the tree.

    Args:
        shards: The shards of MemoryX.
    """

    def __init__(self, shards: Sequence[ShardLoads]) -> None:
        self._shards = tuple(shards)

    def wait(self) -> None:
        """Wait until all of MemoryX has announced the next visit; raises as `Loads.wait` does."""
        for shard in self._shards:
            if shard.announce.acquire() is None:
                raise _ended(shard.name)

    def copy(self, row: int, slot: Slot) -> None:
        """Read what the row says from the stores."""
        for shard in self._shards:
            shard.store.read([copy.into(slot) for copy in shard.copies[row]])

    def release(self) -> None:
        """Let MemoryX go on."""
        for shard in self._shards:
            shard.announce.release()


class RelayedLoads:
    """What the pod above broadcasts; for every pod but the root.

    Args:
        broadcast: The stream of the pod above.
        row_bytes: Size of each row.
        name: Name of the stream.
    """

    def __init__(self, broadcast: RingReader, row_bytes: Sequence[int], *, name: str) -> None:
        self._broadcast, self._row_bytes, self._name = broadcast, row_bytes, name
        self._arrived: Slot | None = None

    def wait(self) -> None:
        """Wait until the next visit's slot has come; raises as `Loads.wait` does."""
        self._arrived = self._broadcast.acquire()
        if self._arrived is None:
            raise _ended(self._name)

    def copy(self, row: int, slot: Slot) -> None:
        """Copy the slot that has come."""
        assert self._arrived is not None
        num_bytes = self._row_bytes[row]
        slot[:num_bytes] = self._arrived[:num_bytes]

    def release(self) -> None:
        """Give the slot back."""
        self._arrived = None
        self._broadcast.release()


def _ended(name: str) -> StreamClosedError:
    return StreamClosedError(f"Stream {name!r} ended before the last step.")
