"""Wakes waiting streams when a job has changed, from any thread."""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from appliance.core.ids import JobId
from appliance.management.changes.feed import ChangeFeed, Topic


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
