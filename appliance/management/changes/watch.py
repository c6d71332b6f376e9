"""Changes in order, for all followers: jobs, the queue, sessions, systems.

One bounded ring holds the last changes, each with a number. A follower stores nothing here but its
number, so a slow one costs no memory: when the ring has overtaken it, it is told that it has missed
something and reads everything again. A follower that was disconnected returns with its number;
after a restart of the appliance the numbers belong to another epoch, which counts as missed.

`JobWatch` wakes streams that wait for a job to change, from any thread.
"""

import asyncio
import secrets
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, Protocol

from appliance.core.ids import JobId
from appliance.core.integers import find_integer
from appliance.core.quick_init import quick_init

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


@quick_init
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


class Awaited(Protocol):
    """A future of a coroutine or of a thread; what it is given comes in the coroutine's loop."""

    def done(self) -> bool:
        """Whether it has its answer, or nobody waits any more."""

    # `Any`: whatever the answer is.
    def set_result(self, result: Any, /) -> None:  # noqa: ANN401
        """Give the answer."""

    def set_exception(self, exception: BaseException, /) -> None:
        """Say that there is none."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer that a caller waits for.

    Attributes:
        awaited: Gets it.
        result: The answer.
        error: Why there is none.
    """

    awaited: Awaited
    result: object = None
    error: BaseException | None = None


class JobWatch:
    """Wakes coroutines that follow a job. `bind` comes first, then anything from any thread.

    Attributes:
        feed: Told of every change; lives in the loop that `bind` names.
    """

    def __init__(self) -> None:
        self.feed = ChangeFeed()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        self._followers: defaultdict[JobId, set[asyncio.Event]] = defaultdict(set)
        self._listeners: list[Callable[[str], None]] = []

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Name the loop in which followers wait; called in it."""
        self._loop, self._loop_thread = loop, threading.get_ident()

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call a listener with the id of each job that changes, in the changing thread."""
        self._listeners.append(listener)

    def notify(self, job: JobId) -> None:
        """Wake the followers of a job."""
        for listener in self._listeners:
            listener(job)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, job)

    def deliver(self, jobs: Sequence[JobId], answers: Sequence[Answer]) -> None:
        """Wake the followers of several jobs and resolve awaited answers, in one call to each loop.

        Waking the loop for each of them would cost as much as what they wait for.
        """
        for job in jobs:
            for listener in self._listeners:
                listener(job)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, jobs, answers)
        else:
            _give(answers)

    def tell(self, topic: Topic, name: str = "") -> None:
        """Append a change to the feed without waking followers of jobs."""
        if topic is Topic.JOB:
            for listener in self._listeners:
                listener(name)
        if self._loop is None or self._loop.is_closed():
            return
        if self._loop_thread == threading.get_ident():
            self.feed.publish(topic, name)
        else:
            self._loop.call_soon_threadsafe(self.feed.publish, topic, name)

    def followed(self) -> list[JobId]:
        """Return the jobs that have followers; may be called from any thread."""
        return list(self._followers)

    @contextmanager
    def follow(self, job: JobId) -> Iterator[asyncio.Event]:
        """Yield an event that is set at each change; the follower clears it before it looks."""
        changed = asyncio.Event()
        self._followers[job].add(changed)
        try:
            yield changed
        finally:
            self._followers[job].discard(changed)
            if not self._followers[job]:
                del self._followers[job]

    def _deliver(self, jobs: Sequence[JobId], answers: Sequence[Answer]) -> None:
        _give(answers)
        for job in jobs:
            self._wake(job)

    def _wake(self, job: JobId) -> None:
        self.feed.publish(Topic.JOB, job)
        for changed in self._followers.get(job, ()):
            changed.set()


async def wait_for_change(changed: asyncio.Event, timeout_seconds: float) -> None:
    """Wait until the event is set; the end of the time sets it, too."""
    timer = asyncio.get_running_loop().call_later(timeout_seconds, changed.set)
    try:
        await changed.wait()
    finally:
        timer.cancel()


def _give(answers: Sequence[Answer]) -> None:
    for answer in answers:
        if answer.awaited.done():
            continue
        if answer.error is None:
            answer.awaited.set_result(answer.result)
        else:
            answer.awaited.set_exception(answer.error)
