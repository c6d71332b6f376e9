"""The checksums of a ring's messages, computed once for all its readers on other nodes."""

import threading

import xxhash

_MOST_KEPT = 64
"""As many as a ring may have slots: older messages have been acknowledged."""


class Checksums:
    """XXH3 checksums by sequence number; any thread may ask."""

    def __init__(self) -> None:
        self._found: dict[int, int] = {}
        self._lock = threading.Lock()

    def of(self, number: int, content: memoryview) -> int:
        """Return the checksum of a message.

        Args:
            number: Its sequence number.
            content: Its bytes.
        """
        with self._lock:  # who comes second waits no longer than it would compute
            if number not in self._found:
                self._found[number] = xxhash.xxh3_64_intdigest(content)
                self._found.pop(number - _MOST_KEPT, None)
            return self._found[number]
