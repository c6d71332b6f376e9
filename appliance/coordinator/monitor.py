"""When the client's error monitor is told that the job failed.

The client has two paths. A call that ends with the failure raises at its place in the user's
script, with our sentence, and the client shuts down in order. The monitor's long polls raise
through a signal, wherever the main thread is; each of the client's two monitor threads sends one,
and the second would interrupt the shutdown that the first began. So the monitor is answered only
if no other call has carried the failure for a while, and then only one of its polls.
"""

import threading
from collections.abc import Callable

from appliance.core.clock import Clock

_PATIENCE_SECONDS = 2.0
"""Time for another call to carry the failure before the monitor is told."""
_REPEAT_SECONDS = 8.0
"""Time after another call has carried it, in case that call's caller swallowed the error."""


def told_at_seconds(failed_seconds: float, carried_seconds: float | None) -> float:
    """Return when the monitor is told.

    Args:
        failed_seconds: When the job failed.
        carried_seconds: When another call carried the failure; None if none did.
    """
    if carried_seconds is None:
        return failed_seconds + _PATIENCE_SECONDS
    return carried_seconds + _REPEAT_SECONDS


class Monitor:
    """Decides what the client's error monitor hears.

    Args:
        clock: Source of time.
        wait_until_over: Waits until the job is over, at most so many seconds; returns whether it
            is.
    """

    def __init__(self, clock: Clock, wait_until_over: Callable[[float], bool]) -> None:
        self._clock, self._wait_until_over = clock, wait_until_over
        self._changed = threading.Condition()
        self._carried_seconds: float | None = None
        self._is_told = False
        self._num_released = 0
        self._is_closed = False

    def note_carried(self) -> None:
        """Note that another call ended with the failure."""
        with self._changed:
            if self._carried_seconds is None:
                self._carried_seconds = self._clock.monotonic_seconds()
            self._changed.notify_all()

    def release(self) -> None:
        """End the polls that wait, with nothing to tell; the client has left the run."""
        with self._changed:
            self._num_released += 1
            self._changed.notify_all()

    def close(self) -> None:
        """End the polls that wait and those that come."""
        self._is_closed = True
        self.release()

    def poll(self, poll_seconds: float) -> bool:
        """Return whether this poll is to tell the failure; may take `poll_seconds`."""
        deadline = self._clock.monotonic_seconds() + poll_seconds
        with self._changed:
            released = self._num_released
        while not self._is_closed and released == self._num_released:
            remaining = deadline - self._clock.monotonic_seconds()
            if remaining <= 0:
                return False
            if self._wait_until_over(min(remaining, 0.2)):
                return self._tell(remaining, released)
        return False

    def _tell(self, remaining_seconds: float, released: int) -> bool:
        """Wait for the time to tell; return whether it is up to this poll."""
        start = self._clock.monotonic_seconds()
        with self._changed:
            while not self._is_told and not self._is_closed and released == self._num_released:
                now = self._clock.monotonic_seconds()
                due = told_at_seconds(start, self._carried_seconds)
                if now >= due:
                    self._is_told = True
                    return True
                if now - start >= remaining_seconds:
                    return False
                self._changed.wait(max(0.01, min(due - now, start + remaining_seconds - now)))
            # Another poll has told it: this one stays away until its time is up.
            self._changed.wait_for(
                lambda: self._is_closed or released != self._num_released,
                timeout=remaining_seconds,
            )
        return False
