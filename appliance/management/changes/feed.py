"""Changes in order, for all followers: jobs, the queue, sessions, systems.

One bounded ring holds the last changes, each with a number. A follower stores nothing here but its
number, so a slow one costs no memory: when the ring has overtaken it, it is told that it has missed
something and reads everything again. A follower that was disconnected returns with its number;
after a restart of the appliance the numbers belong to another epoch, which counts as missed.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from appliance.core.integers import find_integer

_CAPACITY = 20_000


class Topic(StrEnum):
    """What a change is about."""

    JOB = "job"
    """Phase, message, labels or priority of a job; or it is new or forgotten."""
    PROGRESS = "progress"
    """Steps and readings of a job that runs."""
    QUEUE = "queue"
    """Positions, reasons and expected starts of waiting jobs."""
    SESSION = "session"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something has changed.

    Attributes:
        topic: What kind of thing.
        name: Its name; empty where there is one of the kind.
    """

    topic: Topic
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What a follower has not seen.

    Attributes:
        notices: Each change once, in the order of the last time that it happened.
        position: The follower's new number.
        has_missed: Whether there was more, which is gone.
    """

    notices: Sequence[Notice]
    position: int
    has_missed: bool


class ChangeFeed:
    """The ring of changes; lives in one event loop.

    Args:
        capacity: Changes that are kept.
        epoch: Distinguishes the numbers of one start of the appliance from those of the next.
    """

    def __init__(self, *, capacity: int = _CAPACITY, epoch: str | None = None) -> None:
        self._ring: deque[Notice] = deque(maxlen=capacity)
        self._epoch = epoch or secrets.token_hex(4)
        self._end = 0
        self._changed: asyncio.Event | None = None
        self._is_closed = False
        self.num_followers = 0

    @property
    def position(self) -> int:
        """The number behind the newest change."""
        return self._end

    @property
    def is_closed(self) -> bool:
        """Whether nothing will come any more."""
        return self._is_closed

    def publish(self, topic: Topic, name: str = "") -> None:
        """Add a change; in the feed's loop."""
        self._ring.append(Notice(topic, name))
        self._end += 1
        self._wake()

    def close(self) -> None:
        """Let every follower go."""
        self._is_closed = True
        self._wake()

    def mark(self, position: int) -> str:
        """Return a position as followers carry it."""
        return f"{self._epoch}-{position}"

    def position_of(self, mark: str) -> int | None:
        """Return the position of a mark; None if it is of another epoch, or none at all."""
        epoch, _, number = mark.partition("-")
        return find_integer(number, self._end) if epoch == self._epoch else None

    def since(self, position: int) -> News:
        """Return what has changed since a position."""
        first = self._end - len(self._ring)
        fresh = islice(self._ring, max(0, position - first), None)
        latest = dict.fromkeys(reversed(list(fresh)))
        return News(
            notices=tuple(reversed(latest)), position=self._end, has_missed=position < first
        )

    async def wait(self, position: int, timeout_seconds: float) -> bool:
        """Wait until there is something newer than a position; False when the time is over."""
        if self._end > position or self._is_closed:
            return True
        changed = self._changed = self._changed or asyncio.Event()
        try:
            await asyncio.wait_for(changed.wait(), timeout_seconds)
        except TimeoutError:
            return False
        return True

    def _wake(self) -> None:
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()
