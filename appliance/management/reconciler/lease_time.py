"""The time in which clients could have renewed their leases.

Leases end at a wall time, so that they can be kept. But the wall clock may be set, a laptop sleeps
for hours, and management itself may be frozen for a while (stopped, swapped out): then every lease
seems to have run out at once, although no client could do anything about it.
"""

import logging

from appliance.core.clock import Clock

logger = logging.getLogger(__name__)

_MOST_SECONDS = 5.0
"""Longest time between two looks of a management that is not frozen; a full disk takes seconds."""

_LEAST_SECONDS = 1.0
"""What is less than this is no jump; clocks are always adjusted a little."""


class LeaseTime:
    """Compares the wall time with the time in which management listened.

    Args:
        clock: Source of both.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall, self._monotonic = clock.now(), clock.monotonic_seconds()

    def missed_seconds(self) -> float:
        """Return by how much the wall clock went on, since the last call, while nobody listened.

        Negative if it was set back; 0 if nothing out of the ordinary has happened.
        """
        wall, monotonic = self._clock.now(), self._clock.monotonic_seconds()
        listened = min(monotonic - self._monotonic, _MOST_SECONDS)
        missed = (wall - self._wall).total_seconds() - listened
        self._wall, self._monotonic = wall, monotonic
        if abs(missed) < _LEAST_SECONDS:
            return 0.0
        logger.warning(
            "Management was frozen, or the clock was set; leases go on from where they were",
            extra={"seconds": missed},
        )
        return missed
