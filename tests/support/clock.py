"""Time that a test moves itself."""

import datetime as dt


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self, start: dt.datetime = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)) -> None:
        self._start = start
        self._elapsed = 0.0

    def now(self) -> dt.datetime:
        return self._start + dt.timedelta(seconds=self._elapsed)

    def monotonic_seconds(self) -> float:
        return self._elapsed

    def advance(self, seconds: float) -> None:
        self._elapsed += seconds
