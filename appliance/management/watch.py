"""Tells waiting streams that a job has changed, from whatever thread it was changed in."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from appliance.core.ids import JobId
from appliance.management.feed import ChangeFeed, Topic


class JobWatch:
    """Wakes coroutines that follow a job. `bind` comes first, then anything from any thread.

    Attributes:
        feed: Told of every change; lives in the loop that `bind` names.
    """

    def __init__(self) -> None:
        self.feed = ChangeFeed()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._followers: defaultdict[JobId, set[asyncio.Event]] = defaultdict(set)

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Name the loop in which followers wait."""
        self._loop = loop

    def notify(self, job: JobId) -> None:
        """Wake whoever follows the job."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake, job)

    def tell(self, topic: Topic, name: str = "") -> None:
        """Put a change into the feed, and wake nobody else."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.feed.publish, topic, name)

    def followed(self) -> list[JobId]:
        """Return the jobs that somebody follows; may be called from any thread."""
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

    def _wake(self, job: JobId) -> None:
        self.feed.publish(Topic.JOB, job)
        for changed in self._followers.get(job, ()):
            changed.set()


async def wait_for_change(changed: asyncio.Event, timeout_seconds: float) -> None:
    """Wait until the event is set, or the time is over."""
    try:
        await asyncio.wait_for(changed.wait(), timeout_seconds)
    except TimeoutError:
        return
