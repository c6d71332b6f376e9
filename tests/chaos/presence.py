"""Since when everything that all jobs need is there: management, fork server, clock."""

import contextlib
import threading
import time


class Presence:
    """Counts the absences, which the jobs of all threads cause each other.

    A client's calls fail and are repeated while management is away, whichever job's fault that is:
    what may last 30 seconds is what follows.

    Args:
        now: Tells the seconds.
    """

    def __init__(self, now=time.monotonic):
        self._now, self._lock = now, threading.Lock()
        self._absences, self._since = 0, now()

    @contextlib.contextmanager
    def absence(self):
        """Something that all jobs need is not there until the end of this."""
        with self._lock:
            self._absences += 1
        try:
            yield
        finally:
            with self._lock:
                self._absences -= 1
                self._since = self._now()

    def seconds(self, begun):
        """Return for how long everything has been there without a break, at most since `begun`."""
        with self._lock:
            return 0.0 if self._absences else self._now() - max(begun, self._since)
