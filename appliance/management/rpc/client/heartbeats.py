"""Streams of heartbeats: renew leases, and end soon after the job or workflow that they belong to.

When a job ends, its client waits for its own heartbeat thread, which sleeps up to ten seconds
between beats, unless the server ends the stream first. So we end it, a moment after the job: the
client must have asked its thread to stop by then, or it opens another stream. A client that is busy
when its job is cancelled does; that stream ends likewise, after twice as long, and so on a few
times.

The first beat comes only after ten seconds, and the streams carry no metadata; until then a stream
is identified by its connection: a client opens it right after it has submitted the job on the same
one. A wrong guess costs only a few early ends, after which the client opens a new stream.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from appliance.core.ids import JobId
from appliance.management.changes.watch import JobWatch
from protos.cluster.cluster_pb2 import HeartbeatRequest, HeartbeatResponse

CLOSE_DELAY_SECONDS = 0.3
"""From the end of a job to the end of its stream; the client's next statement takes less."""

_MAX_EARLY_ENDS = 5
"""Streams in a row that end before a beat; ten seconds in all: a wrong guess ends no lease."""

_MAX_EXPECTED = 10_000
"""Connections remembered at most; some clients never open a stream."""


@dataclass(frozen=True, slots=True)
class _Expectation:
    """What the next stream on a connection is for.

    Attributes:
        lease_id: The lease that its beats will name.
        num_early_ends: Streams for it on this connection that ended before a beat.
    """

    lease_id: str
    num_early_ends: int = 0


_UNKNOWN = _Expectation("")


class HeartbeatStreams:
    """All open streams of heartbeats.

    Args:
        watch: Tells of jobs and workflows that end.
        is_alive: Whether there is a lease of that id; may wait for the database.
    """

    def __init__(
        self,
        watch: JobWatch,
        is_alive: Callable[[str], bool],
    ) -> None:
        self._watch = watch
        self._is_alive = is_alive
        self._lock = threading.Lock()
        self._expected: OrderedDict[str, _Expectation] = OrderedDict()

    def expect(self, peer: str, lease_id: str) -> None:
        """Take note that a client is about to open a stream for a lease."""
        with self._lock:
            self._remember(peer, _Expectation(lease_id))

    async def serve(
        self,
        beats: AsyncIterator[HeartbeatRequest],
        peer: str,
        answer: Callable[[HeartbeatRequest], HeartbeatResponse],
    ) -> AsyncGenerator[HeartbeatResponse]:
        """Answer beats until the client stops, or its job or workflow has ended.

        Args:
            beats: The client's.
            peer: Its connection.
            answer: Takes a beat and answers it; may wait for the database.
        """
        expected = self._claim(peer)
        lease_id = expected.lease_id
        next_beat = asyncio.ensure_future(_next(beats))
        try:
            while True:
                if not await self._wait(next_beat, lease_id):
                    await self._end_early(peer, _Expectation(lease_id, expected.num_early_ends))
                    return
                beat = next_beat.result()
                if beat is None:
                    return
                expected, lease_id = _UNKNOWN, beat.lease_id or beat.job_id
                yield await asyncio.to_thread(answer, beat)
                next_beat = asyncio.ensure_future(_next(beats))
        finally:
            next_beat.cancel()

    def _remember(self, peer: str, expected: _Expectation) -> None:
        self._expected[peer] = expected
        self._expected.move_to_end(peer)
        if len(self._expected) > _MAX_EXPECTED:
            self._expected.popitem(last=False)

    def _claim(self, peer: str) -> _Expectation:
        with self._lock:
            return self._expected.pop(peer, _UNKNOWN)

    async def _end_early(self, peer: str, ended: _Expectation) -> None:
        """Wait a moment before a stream whose lease has ended is ended too."""
        await asyncio.sleep(CLOSE_DELAY_SECONDS * 2**ended.num_early_ends)
        num_early_ends = ended.num_early_ends + 1
        with self._lock:
            if peer not in self._expected and num_early_ends < _MAX_EARLY_ENDS:
                self._remember(peer, _Expectation(ended.lease_id, num_early_ends))

    async def _wait(
        self, next_beat: "asyncio.Future[HeartbeatRequest | None]", lease_id: str
    ) -> bool:
        """Wait for a beat; False if the lease has ended meanwhile."""
        if not lease_id:
            await asyncio.wait({next_beat})
            return True
        with self._watch.follow(JobId(lease_id)) as changed:
            while not next_beat.done():
                changed.clear()
                if not await asyncio.to_thread(self._is_alive, lease_id):
                    return False
                change = asyncio.ensure_future(changed.wait())
                either: set[asyncio.Future[Any]] = {next_beat, change}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
        return True


async def _next(beats: AsyncIterator[HeartbeatRequest]) -> HeartbeatRequest | None:
    async for beat in beats:
        return beat
    return None
