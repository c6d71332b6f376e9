"""A queue of names to process, each once however often it was added, some after a delay."""

import heapq
import math
import threading

from appliance.core.clock import Clock

_FIRST_RETRY_SECONDS = 0.2
_LAST_RETRY_SECONDS = 30.0


class WorkQueue:
    """The queue; `take` is for one thread, the rest for all.

    Args:
        clock: Times what is to be looked at later.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._ready: dict[str, None] = {}
        self._later: list[tuple[float, str]] = []
        self._due: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._is_closed = False

    def add(self, name: str) -> None:
        """Look at something as soon as possible."""
        with self._changed:
            self._ready[name] = None
            self._changed.notify()

    def add_after(self, name: str, seconds: float) -> None:
        """Look at something again in some time; of several times the earliest counts."""
        due = self._clock.monotonic_seconds() + seconds
        with self._changed:
            if due < self._due.get(name, math.inf):
                self._due[name] = due
                heapq.heappush(self._later, (due, name))
                self._changed.notify()

    def retry(self, name: str) -> None:
        """Look again at something that could not be done, ever later."""
        count = self._failures[name] = self._failures.get(name, 0) + 1
        pause = min(_FIRST_RETRY_SECONDS * 2 ** (count - 1), _LAST_RETRY_SECONDS)
        self.add_after(name, pause)

    def done(self, name: str) -> None:
        """Take note that what was to be done for something could be done."""
        self._failures.pop(name, None)

    def close(self) -> None:
        """Let whoever takes go."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def take(self) -> str | None:
        """Wait for the next name; None when the queue is closed."""
        with self._changed:
            while not self._is_closed:
                pause = self._promote()
                if self._ready:
                    name = next(iter(self._ready))
                    del self._ready[name]
                    return name
                self._changed.wait(pause)
        return None

    def _promote(self) -> float | None:
        """Make ready what is due, and return when the next one is; None for never."""
        now = self._clock.monotonic_seconds()
        while self._later and self._later[0][0] <= now:
            due, name = heapq.heappop(self._later)
            if self._due.get(name) == due:  # else an earlier time has taken its place
                del self._due[name]
                self._ready[name] = None
        return self._later[0][0] - now if self._later else None
