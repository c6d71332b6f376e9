"""Decides when the client's error monitor is told that the job failed.

The client learns of a failure in two ways. A call that ends with the failure raises at its place in
the user's script, with our message, and the client shuts down in order. The monitor's long polls
raise through a signal, wherever the main thread is; each of the client's two monitor threads sends
one, and the second would interrupt the shutdown that the first began. So the monitor is answered
only if no other call has delivered the failure for a while, and then only one of its polls.

A job may also be ended from outside while its client runs on, for example by `csctl cancel`. Its
polls are then answered as if the server were being replaced: the client's threads pause for ten
seconds before they poll again, and its main thread learns from an ordinary call who ended the job.
With any other answer both threads would poll a closing server, fail, and raise in the middle of
that.
"""

import enum
import threading
from collections.abc import Callable

from appliance.core.clock import Clock

_PATIENCE_SECONDS = 2.0
"""Time for another call to carry the failure before the monitor is told."""
_REPEAT_SECONDS = 8.0
"""Time after another call has carried it, in case that call's caller swallowed the error."""


def told_at_seconds(failed_seconds: float, carried_seconds: float | None) -> float:
    """Return the time at which the monitor is told of the failure.

    Args:
        failed_seconds: When the job failed.
        carried_seconds: When another call carried the failure; None if none did.
    """
    if carried_seconds is None:
        return failed_seconds + _PATIENCE_SECONDS
    return carried_seconds + _REPEAT_SECONDS


class MonitorWord(enum.Enum):
    """What a poll of the client's error monitor ends with."""

    CLEAN = "clean"
    """Nothing to tell; the client polls again at once."""
    OFF_SHIFT = "off shift"
    """Nothing to tell; the client rests before it polls again."""
    FAILURE = "failure"
    """The job has failed, and this poll is to tell it."""


class Monitor:
    """Decides what the client's error monitor hears.

    Args:
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
        self._last_word = MonitorWord.CLEAN

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

    def leave(self) -> None:
        """End the polls that wait and those that come; the client needs this job no more."""
        self._close(MonitorWord.CLEAN)

    def close(self) -> None:
        """End the polls that wait and those that come, because the job ends.

        A client that knows of a failure is leaving already, and should not be kept by a rest.
        """
        is_leaving = self._is_told or self._carried_seconds is not None
        self._close(MonitorWord.CLEAN if is_leaving else MonitorWord.OFF_SHIFT)

    def poll(
        self, poll_seconds: float, is_wanted: Callable[[], bool] = lambda: True
    ) -> MonitorWord:
        """Return what a poll ends with, once it is time for that.

        Args:
            poll_seconds: How long to wait for one at most.
            is_wanted: Whether there is still somebody to be told.
        """
        deadline = self._clock.monotonic_seconds() + poll_seconds
        with self._changed:
            released = self._num_released
        while not self._is_closed and released == self._num_released:
            remaining = deadline - self._clock.monotonic_seconds()
            if remaining <= 0:
                return MonitorWord.CLEAN
            if self._wait_until_over(min(remaining, 0.2)):
                is_due = self._is_due(remaining, released, is_wanted)
                return MonitorWord.FAILURE if is_due else self._last_word
        return self._last_word

    def _close(self, last_word: MonitorWord) -> None:
        with self._changed:
            if not self._is_closed:
                self._is_closed, self._last_word = True, last_word
        self.release()

    def _is_due(
        self, remaining_seconds: float, released: int, is_wanted: Callable[[], bool]
    ) -> bool:
        """Wait until the failure is due; return whether this poll has to deliver it."""
        start = self._clock.monotonic_seconds()
        with self._changed:
            while not self._is_told and not self._is_closed and released == self._num_released:
                now = self._clock.monotonic_seconds()
                due = told_at_seconds(start, self._carried_seconds)
                if now >= due:
                    self._is_told = is_wanted()
                    return self._is_told
                if now - start >= remaining_seconds:
                    return False
                self._changed.wait(max(0.01, min(due - now, start + remaining_seconds - now)))
            # Another poll has told it: this one stays away until its time is up.
            self._changed.wait_for(
                lambda: self._is_closed or released != self._num_released,
                timeout=remaining_seconds,
            )
        return False
