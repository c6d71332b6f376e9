"""The clock of leases: it counts only time in which clients could have renewed them.

The wall clock may be set, a laptop sleeps for hours, and management itself may be frozen for a
while (stopped, swapped out): by the wall clock every lease would then expire at once, although no
client could do anything about it. So this clock begins with the wall time and advances by the time
that passes between two looks at it, by a few seconds at most for each. A new management begins
every lease anew.
"""

import datetime as dt
import logging
import threading

from appliance.core.clock import Clock

logger = logging.getLogger(__name__)

_MOST_SECONDS = 5.0
"""Longest time between two looks of a management that is not frozen, which looks every second."""


class LeaseClock:
    """See the module.

    Args:
        clock: The machine's.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._now, self._monotonic = clock.now(), clock.monotonic_seconds()

    def now(self) -> dt.datetime:
        """Return the time of leases, with time zone UTC."""
        with self._lock:
            monotonic = self._clock.monotonic_seconds()
            passed = monotonic - self._monotonic
            self._monotonic = monotonic
            self._now += dt.timedelta(seconds=min(passed, _MOST_SECONDS))
            now = self._now
        if passed > _MOST_SECONDS:
            logger.warning(
                "Management was frozen; leases go on from where they were",
                extra={"seconds": passed},
            )
        return now

    def monotonic_seconds(self) -> float:
        """Return the machine's seconds."""
        return self._clock.monotonic_seconds()
