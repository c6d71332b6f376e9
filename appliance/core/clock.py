"""Time as an argument: services take a `Clock`, tests hand in one that they move themselves."""

import datetime as dt
import time
from typing import Protocol


class Clock(Protocol):
    """The two readings of time that the appliance needs."""

    def now(self) -> dt.datetime:
        """Return the wall time, with time zone UTC."""
        ...

    def monotonic_seconds(self) -> float:
        """Return seconds that never go backwards, from an arbitrary start."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> dt.datetime:
        """Return the wall time, with time zone UTC."""
        return dt.datetime.now(dt.UTC)

    def monotonic_seconds(self) -> float:
        """Return seconds since an arbitrary start."""
        return time.monotonic()
