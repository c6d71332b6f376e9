"""Checksums of tensors that lie in a file: what a disk has changed is found before it is used.

A tensor has one XXH3 checksum for each block of it, computed when it has been written and compared
before each later use. Both are done by threads of their own: what will be used soon is compared
ahead of it, and whoever uses it waits for that. Between `require` and `written` a tensor is in the
hands of an update, and is not compared.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

from appliance.core.errors import ClusterError
from workers.memoryx.on_disk.paging import Paged

BLOCK_BYTES = 1 << 20
DAMAGE_HINT = (
    "The disk or the memory of this machine loses bits: look at its kernel's messages and at the "
    "disk's own, and restart the run from its last checkpoint."
)

Sums = tuple[int, ...]
"""Of the blocks of a tensor, in order."""


def sums_of(content: NDArray[np.uint8]) -> Sums:
    """Return the checksums of a tensor's bytes."""
    blocks = range(0, content.size, BLOCK_BYTES)
    return tuple(_sum(content[i : i + BLOCK_BYTES].data) for i in blocks)


def _sum(block: memoryview) -> int:
    return xxhash.xxh3_64_intdigest(block)


class CheckThreads:
    """The threads that compute: one for what has been written, one for what will be read."""

    def __init__(self) -> None:
        self.noting = ThreadPoolExecutor(1, "checksums-note")
        self.comparing = ThreadPoolExecutor(1, "checksums-compare")

    def close(self) -> None:
        """End after what is being computed."""
        self.comparing.shutdown(cancel_futures=True)
        self.noting.shutdown(cancel_futures=True)


class Checksums:
    """The checksums of one file's tensors.

    Args:
        paged: The file.
        directory: Where it is, for messages.
        threads: What computes.
        title: Returns what messages call a tensor.
    """

    def __init__(
        self,
        paged: Paged,
        directory: Path,
        threads: CheckThreads,
        *,
        title: Callable[[str], str] = str,
    ) -> None:
        self._paged, self._directory, self._title = paged, directory, title
        self._threads = threads
        self._items = {item.name: item for item in paged.layout.items}
        self._sizes = {item.name: item.type.num_bytes for item in paged.layout.items}
        self._sums: dict[str, Sums] = {}
        self._noting: dict[str, Future[None]] = {}
        self._comparing: dict[str, Future[None]] = {}
        self._used: set[str] = set()
        self._lock = threading.Lock()

    def cut(self, name: str, num_bytes: int) -> None:
        """Note that only the first bytes of a tensor are used from now on; its sums are void."""
        with self._lock:
            self._sizes[name] = num_bytes
            self._sums.pop(name, None)

    def known(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of the names that are tensors of this file, each once."""
        return tuple(name for name in dict.fromkeys(names) if name in self._items)

    def written(self, names: Iterable[str]) -> None:
        """Begin to compute the checksums of tensors that nobody writes any more for now."""
        with self._lock:
            names = self.known(names)
            self._used.difference_update(names)
            if names:
                future = self._threads.noting.submit(self._note, names)
                self._noting |= dict.fromkeys(names, future)

    def expect(self, names: Iterable[str]) -> None:
        """Begin to compare tensors that will be used soon; those never written do not count."""
        with self._lock:
            names = [name for name in self.known(names) if self._is_due(name)]
            if names:
                notes = {self._noting[name] for name in names if name in self._noting}
                future = self._threads.comparing.submit(self._compare_after, notes, names)
                self._comparing |= dict.fromkeys(names, future)

    def require(self, names: Collection[str], *, writes: Collection[str] = ()) -> None:
        """Wait until the tensors that were expected are compared.

        Args:
            names: Tensors that are used now.
            writes: Tensors that are overwritten now, until `written` says that they have been.

        Raises:
            ClusterError: One is not what was written.
        """
        while True:
            with self._lock:
                waiting = self._waiting((*names, *writes))
                if not waiting:
                    self._used.update(writes)
                    return
            for future in waiting:
                future.result()
            with self._lock:
                for pending in (self._noting, self._comparing):
                    for name in [name for name, future in pending.items() if future in waiting]:
                        del pending[name]

    def compare(self, name: str) -> Sums:
        """Compare one tensor now, which nobody writes meanwhile; return its checksums.

        Raises:
            ClusterError: It is not what was written.
        """
        self.require([name])
        if name not in self._sums:
            return ()
        self.compare_content(name, self._in_memory(name), self._sums[name])
        return self._sums[name]

    def compare_content(self, name: str, content: NDArray[np.uint8], sums: Sums) -> None:
        """Compare bytes of a tensor that lie elsewhere with checksums.

        Raises:
            ClusterError: They have others.
        """
        for start, want in zip(range(0, content.size, BLOCK_BYTES), sums, strict=True):
            self._compare_block(name, start, content[start : start + BLOCK_BYTES].data, want)

    def sums(self, name: str) -> Sums:
        """Return the checksums that a tensor had when it was written last; none if it never was."""
        self.require([name])
        return self._sums.get(name, ())

    def _is_due(self, name: str) -> bool:
        """Return whether to compare a tensor: nobody has it in hand, and nobody is at it."""
        present = self._comparing.get(name)
        is_written = name in self._sums or name in self._noting
        return is_written and name not in self._used and (present is None or present.done())

    def _waiting(self, names: Iterable[str]) -> set[Future[None]]:
        pending = (self._noting, self._comparing)
        return {futures[name] for name in names for futures in pending if name in futures}

    def _in_memory(self, name: str) -> NDArray[np.uint8]:
        start = self._items[name].offset
        return self._paged.memory[start : start + self._sizes[name]]

    def _note(self, names: Sequence[str]) -> None:
        for name in names:
            self._sums[name] = sums_of(self._in_memory(name))

    def _compare_after(self, notes: Iterable[Future[None]], names: Sequence[str]) -> None:
        for future in notes:
            future.result()
        for name in names:
            self.compare_content(name, self._in_memory(name), self._sums[name])

    def _compare_block(self, name: str, start: int, block: memoryview, want: int) -> None:
        if _sum(block) == want:
            return
        end = min(start + BLOCK_BYTES, self._sizes[name])
        raise ClusterError(
            f"{self._title(name)} is not what was written: bytes {start:,} to {end - 1:,} of it, "
            f"at offset {self._items[name].offset + start:,} of a file without a name in "
            f"{self._directory}, have another checksum.",
            hint=DAMAGE_HINT,
        )
