"""Slows a CS-2 down so that wall time follows simulated time times a factor.

Time is counted from the session's first step, so the next steps make up for one that took too long;
a machine that is too slow altogether is never waited for.
"""

import threading

from appliance.core.clock import Clock


class Pace:
    """The pace of one session.

    Args:
        step_seconds: Wall time that a step shall take; 0 sets no pace.
    """

    def __init__(self, step_seconds: float, clock: Clock) -> None:
        self._step_seconds, self._clock = step_seconds, clock
        self._closed = threading.Event()
        self._began = clock.monotonic_seconds()

    def begin(self) -> None:
        """Count from now."""
        self._began = self._clock.monotonic_seconds()

    def lead_seconds(self, num_steps: int) -> float:
        """Return how much too early the end of a step would be now; 0 if it is late."""
        elapsed = self._clock.monotonic_seconds() - self._began
        return max(0.0, num_steps * self._step_seconds - elapsed)

    def wait(self, num_steps: int) -> float:
        """Wait until so many steps may be over, or the pace is closed.

        Returns:
            Seconds waited.
        """
        start = self._clock.monotonic_seconds()
        while (lead := self.lead_seconds(num_steps)) > 0:
            if self._closed.wait(lead):
                break
        return self._clock.monotonic_seconds() - start

    def close(self) -> None:
        """Let nobody wait any more; safe from any thread."""
        self._closed.set()
