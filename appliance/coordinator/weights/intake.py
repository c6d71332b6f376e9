"""Admits large tensors as there is room, and reuses memory between them.

gRPC assembles a message from pieces, copies it into one piece, and again into Python's bytes. For a
tensor of 64 MB glibc maps all of that and unmaps it afterwards, and three quarters of the cost of
receiving it are page faults. While tensors arrive, freed memory is therefore retained, and released
when no more arrive. The client sends up to five at a time, in messages of 256 MiB at most; it waits
for each to be admitted, so those for which there is no room have to wait.
"""

import contextlib
import threading
from collections.abc import Iterator

from appliance.pods.allocator import keep_freed_memory, return_freed_memory

LARGE_BYTES = 1 << 20
"""Tensors from this size on wait for room."""

ROOM_BYTES = 512 << 20
"""Of messages that are on their way."""

_LARGEST_MESSAGE_BYTES = 256 << 20
_USUALLY_RETURNED = 32 << 20
"""Bytes from which on blocks are returned at other times: the most that glibc's own adaptation
comes to, of which nothing is left once a threshold was set."""


class Intake:
    """Room for tensors that come in; any thread may ask for some."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._num_present = 0
        self._taken_bytes = 0

    @contextlib.contextmanager
    def room(self, num_bytes: int) -> Iterator[None]:
        """Wait until a tensor of that size may come in; it has come at the end of the context."""
        if num_bytes < LARGE_BYTES:
            yield
            return
        need = min(num_bytes, _LARGEST_MESSAGE_BYTES)
        with self._changed:
            self._num_present += 1
            if self._num_present == 1:
                keep_freed_memory()
            while self._taken_bytes + need > ROOM_BYTES:
                self._changed.wait()
            self._taken_bytes += need
        try:
            yield
        finally:
            with self._changed:
                self._taken_bytes -= need
                self._num_present -= 1
                if self._num_present == 0:
                    return_freed_memory(_USUALLY_RETURNED)
                self._changed.notify_all()
