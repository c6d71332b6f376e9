"""How many messages of a client a pod reads and holds at a time, to bound its memory.

gRPC tells nobody how long a message is before all of it is in memory. What bounds the memory for
messages is therefore their number: a call waits here before it asks for its message, and until then
HTTP/2's flow control leaves the message with its sender. Messages of calls that are still being
answered count by their length.
"""

import contextlib
import threading
from collections.abc import Iterator


class MessageRoom:
    """Room for messages; any thread may ask for it.

    Args:
        num_read: So many are read at a time.
        held_bytes: No other is read while calls that are being answered hold so much.
    """

    def __init__(self, *, num_read: int, held_bytes: int) -> None:
        self._most_read, self._most_bytes = num_read, held_bytes
        self._changed = threading.Condition()
        self._num_read = self._held_bytes = 0

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Wait until a message may be read; it is there, or will not come, after the context."""
        with self._changed:
            self._changed.wait_for(self._may_read)
            self._num_read += 1
        try:
            yield
        finally:
            with self._changed:
                self._num_read -= 1
                self._changed.notify()

    @contextlib.contextmanager
    def holding(self, num_bytes: int) -> Iterator[None]:
        """Count a message of that length until the end of the context."""
        with self._changed:
            self._held_bytes += num_bytes
        try:
            yield
        finally:
            with self._changed:
                self._held_bytes -= num_bytes
                self._changed.notify_all()

    def _may_read(self) -> bool:
        return self._num_read < self._most_read and self._held_bytes < self._most_bytes
