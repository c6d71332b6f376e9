"""Where a SwarmX pod reads what it broadcasts: MemoryX's store, or its parent pod."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from appliance.core.errors import StreamClosedError
from appliance.streams.protocol import RingReader, Store
from workers.swarmx.broadcast_rows import BroadcastRows
from workers.swarmx.reduction import Slot


@dataclass(frozen=True, slots=True)
class Copied:
    """What came into a slot.

    Attributes:
        num_bytes: Bytes of the slot that are used.
        num_copied: Bytes that were copied, padding apart.
    """

    num_bytes: int
    num_copied: int


class Loads(Protocol):
    """The loads of layer steps, one visit after the other."""

    def wait(self) -> None:
        """Wait until those of the next visit are there.

        Raises:
            StreamClosedError: They will not come.
        """
        ...

    def copy(self, row: int, slot: Slot) -> Copied:
        """Copy them.

        Args:
            row: What the visit is sent; see `appliance.core.plans.loads.residency.Deliveries`.
            slot: Receives them, from its first byte.

        Returns:
            What came into the slot.
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
    """

    name: str
    announce: RingReader
    store: Store


class StoredLoads:
    """What MemoryX holds and announces; for the root of the tree.

    Args:
        shards: The shards of MemoryX; the first one announces how many values of sparse loads
            there are.
        rows: What slots hold.
    """

    def __init__(self, shards: Sequence[ShardLoads], rows: BroadcastRows) -> None:
        self._shards, self._rows = tuple(shards), rows
        self._announced: Slot | None = None

    def wait(self) -> None:
        """Wait until all of MemoryX has announced the next visit; raises as `Loads.wait` does."""
        for shard in reversed(self._shards):
            self._announced = shard.announce.acquire()
            if self._announced is None:
                raise _ended(shard.name)

    def copy(self, row: int, slot: Slot) -> Copied:
        """Read what the row says from the stores."""
        assert self._announced is not None
        counts = self._rows.counts(row, self._announced)
        header = self._rows.header_bytes(row)
        slot[:header] = self._announced[:header]
        for shard, copies in zip(self._shards, self._rows.copies(row, counts), strict=True):
            shard.store.read([copy.into(slot) for copy in copies])
        return Copied(self._rows.num_bytes(row, counts), self._rows.value_bytes(row, counts))

    def release(self) -> None:
        """Let MemoryX go on."""
        self._announced = None
        for shard in self._shards:
            shard.announce.release()


class RelayedLoads:
    """What the pod above broadcasts; for every pod but the root.

    Args:
        broadcast: The stream of the pod above.
        rows: What slots hold.
        name: Name of the stream.
    """

    def __init__(self, broadcast: RingReader, rows: BroadcastRows, *, name: str) -> None:
        self._broadcast, self._rows, self._name = broadcast, rows, name
        self._arrived: Slot | None = None

    def wait(self) -> None:
        """Wait until the next visit's slot has come; raises as `Loads.wait` does."""
        self._arrived = self._broadcast.acquire()
        if self._arrived is None:
            raise _ended(self._name)

    def copy(self, row: int, slot: Slot) -> Copied:
        """Copy the slot that has come."""
        assert self._arrived is not None
        counts = self._rows.counts(row, self._arrived)
        num_bytes = self._rows.num_bytes(row, counts)
        slot[:num_bytes] = self._arrived[:num_bytes]
        return Copied(num_bytes, self._rows.value_bytes(row, counts))

    def release(self) -> None:
        """Give the slot back."""
        self._arrived = None
        self._broadcast.release()


def _ended(name: str) -> StreamClosedError:
    return StreamClosedError(f"Stream {name!r} ended before the last step.")
