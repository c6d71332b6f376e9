"""How many processors this process uses."""

import time

from appliance.core.clock import Clock


class ProcessorUse:
    """Processor time of this process over wall time, from one look to the next.

    Processes that it has started are not counted.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = (clock.monotonic_seconds(), time.process_time())

    def since_last(self) -> float:
        """Return the processors that were busy on average since the last call; 0 in no time."""
        (since, used_before), now = self._last, self._clock.monotonic_seconds()
        used = time.process_time()
        if now <= since:
            return 0.0
        self._last = (now, used)
        return (used - used_before) / (now - since)
