"""The state as it was after a checkpoint step, held until the client has fetched it.

Nothing is copied when a snapshot is taken. A tensor is copied when the next update is about to
overwrite it, or when it is fetched while updates go on, whichever comes first; after the last step
it is read in place. Copies go to a file without a name, so the kernel can reclaim their memory.

The number of snapshots is bounded: a step that would take one too many waits until the client has
passed the oldest.
"""

import shutil
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from appliance.core.cluster.run import RunSchedule
from appliance.core.errors import ClusterError, NotFoundError
from appliance.streams.slot_layout import SlotLayout
from appliance.streams.store import StoreServer
from appliance.streams.stream_topology import STATE_SEGMENT, snapshot_segment
from workers.memoryx.on_disk.block_checksums import Checksums, Sums

MAX_SNAPSHOTS = 2
"""One that is being fetched and one that is waiting."""


@dataclass(slots=True)
class _Snapshot:
    """One snapshot.

    Attributes:
        saved: Tensors that have been copied, with their checksums, if they have some.
        memory: Where to; None as long as none has.
    """

    saved: dict[str, Sums] = field(default_factory=dict)
    memory: NDArray[np.uint8] | None = None


class Snapshots:
    """The snapshots of one session.

    Args:
        server: Where the copies are served.
        layout: Where each state tensor lies.
        state: The state's bytes.
        directory: Where the files of copies are made.
        whole: Returns a tensor, given by value name, that does not lie in the state as it is; None
            for one that does.
        checksums: Of the state, if it lies in a file.
    """

    def __init__(
        self,
        server: StoreServer,
        layout: SlotLayout,
        state: NDArray[np.uint8],
        directory: Path,
        *,
        whole: Callable[[str], NDArray[np.generic] | None] = lambda _: None,
        checksums: Checksums | None = None,
    ) -> None:
        self._server, self._layout, self._state = server, layout, state
        self._directory, self._whole, self._checksums = directory, whole, checksums
        self._items = {item.name: item for item in layout.items}
        self._kept: dict[int, _Snapshot] = {}
        self._released: set[int] = set()
        self._is_settled = False
        self._is_closed = False
        self._num_bytes_copied = 0
        self._changed = threading.Condition()

    @property
    def num_bytes_copied(self) -> int:
        """Bytes copied since the session began."""
        return self._num_bytes_copied

    def require_room(self, schedule: RunSchedule) -> None:
        """Check that the copies of a checkpoint have room, before any step is made.

        Only a checkpoint that steps follow is copied.

        Raises:
            ClusterError: They have none; the message names both numbers.
        """
        if not any(number < schedule.num_steps for number in schedule.checkpoint_steps):
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        free_bytes, need_bytes = shutil.disk_usage(self._directory).free, self._layout.num_bytes
        if need_bytes > free_bytes:
            raise ClusterError(
                f"A checkpoint of this run needs {need_bytes:,} bytes in {self._directory} until "
                f"it is fetched, where {free_bytes:,} are free.",
                hint="Free some, start the appliance with a data directory that has more, or save "
                "after the last step alone.",
            )

    def keep(self, number: int) -> None:
        """Take a snapshot of the present state after a step; waits while there are too many.

        Args:
            number: The step, counted from 1.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._is_closed or number in self._released or len(self._kept) < MAX_SNAPSHOTS
                )
            )
            if not self._is_closed and number not in self._released:
                self._kept[number] = _Snapshot()

    def preserve(self, names: Iterable[str]) -> None:
        """Copy what is about to be overwritten and has not been copied, for every snapshot."""
        if not self._kept:
            return
        names = tuple(names)
        with self._changed:
            for number, snapshot in self._kept.items():
                for name in names:
                    self._save(number, snapshot, name)

    def settle(self) -> None:
        """Note that nothing overwrites the state any more."""
        with self._changed:
            self._is_settled = True

    def locate(self, number: int, name: str) -> str:
        """Return the segment that holds a tensor's value after a step, in the state's layout.

        Args:
            number: The step, counted from 1.
            name: The tensor's value name.

        Raises:
            NotFoundError: The snapshot is not there: not yet, or not any more.
            ClusterError: The value is not what was written.
        """
        with self._changed:
            snapshot = self._kept.get(number)
            if snapshot is None:
                raise NotFoundError(f"The state after step {number} is not kept.")
            is_there = self._is_settled and name not in snapshot.saved
            if is_there and self._whole(name) is None:
                if self._checksums is not None:
                    self._checksums.compare(name)
                return STATE_SEGMENT
            if name not in snapshot.saved and self._checksums is not None:
                self._checksums.compare(name)
            self._save(number, snapshot, name)
            self._compare_copy(snapshot, name)
            return snapshot_segment(number)

    def release(self, number: int) -> None:
        """Drop a snapshot; one that would be taken later is not taken.

        Raises:
            NotFoundError: It was dropped before.
        """
        with self._changed:
            if number in self._released:
                raise NotFoundError(f"The state after step {number} was released before.")
            self._released.add(number)
            snapshot = self._kept.pop(number, None)
            self._changed.notify_all()
        if snapshot is not None and snapshot.memory is not None:
            self._server.remove_segment(snapshot_segment(number))

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _save(self, number: int, snapshot: _Snapshot, name: str) -> None:
        if name in snapshot.saved:
            return
        if snapshot.memory is None:
            snapshot.memory = self._server.add_segment(
                snapshot_segment(number), self._layout, directory=self._directory
            )
        item = self._items[name]
        whole = self._whole(name)
        item.view(snapshot.memory)[...] = item.view(self._state) if whole is None else whole
        checksums = self._checksums if whole is None else None
        snapshot.saved[name] = () if checksums is None else checksums.sums(name)
        self._num_bytes_copied += item.type.num_bytes

    def _compare_copy(self, snapshot: _Snapshot, name: str) -> None:
        sums, item = snapshot.saved[name], self._items[name]
        if self._checksums is not None and snapshot.memory is not None and sums:
            content = snapshot.memory[item.offset : item.offset + item.type.num_bytes]
            self._checksums.compare_content(name, content, sums)
