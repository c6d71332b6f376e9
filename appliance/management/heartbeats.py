"""Streams of heartbeats: renew leases, and end soon after what they keep alive has ended.

When a job ends, its client waits for its own heartbeat thread, which sleeps up to ten seconds
between beats, unless the server ends the stream first. So we end it, a moment after the job: the
client must have asked its thread to stop by then, or it would open another stream.

The first beat comes only after ten seconds, and the streams carry no metadata; until then a stream
is known by its connection: a client opens it right after it has submitted the job on the same one.
A wrong guess costs nothing but an early end, after which the client opens a new stream.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from typing import Any

from appliance.core.ids import JobId
from appliance.management.watch import JobWatch
from protos.cluster.cluster_pb2 import HeartbeatRequest, HeartbeatResponse

CLOSE_DELAY_SECONDS = 0.3
"""From the end of a job to the end of its stream; the client's next statement takes less."""

_MAX_EXPECTED = 10_000
"""Connections remembered at most; some clients never open a stream."""


class HeartbeatStreams:
    """All open streams of heartbeats.

    Args:
        watch: Tells of jobs and workflows that end.
        is_alive: Whether there is a lease of that id; may wait for the database.
        answer: Takes a beat and answers it; may wait for the database.
    """

    def __init__(
        self,
        watch: JobWatch,
        is_alive: Callable[[str], bool],
        answer: Callable[[HeartbeatRequest], HeartbeatResponse],
    ) -> None:
        self._watch = watch
        self._is_alive = is_alive
        self._answer = answer
        self._lock = threading.Lock()
        self._expected: OrderedDict[str, str] = OrderedDict()

    def expect(self, peer: str, lease_id: str) -> None:
        """Take note that a client is about to open a stream for a lease."""
        with self._lock:
            self._expected[peer] = lease_id
            self._expected.move_to_end(peer)
            if len(self._expected) > _MAX_EXPECTED:
                self._expected.popitem(last=False)

    async def serve(
        self, beats: AsyncIterator[HeartbeatRequest], peer: str
    ) -> AsyncIterator[HeartbeatResponse]:
        """Answer beats until the client stops, or what they keep alive has ended."""
        lease_id = await self._claim(peer)
        next_beat = asyncio.ensure_future(_next(beats))
        try:
            while True:
                if not await self._wait(next_beat, lease_id):
                    await asyncio.sleep(CLOSE_DELAY_SECONDS)
                    return
                beat = next_beat.result()
                if beat is None:
                    return
                lease_id = beat.lease_id or beat.job_id
                yield await asyncio.to_thread(self._answer, beat)
                next_beat = asyncio.ensure_future(_next(beats))
        finally:
            next_beat.cancel()

    async def _claim(self, peer: str) -> str:
        with self._lock:
            lease_id = self._expected.pop(peer, "")
        if not lease_id:
            return ""
        is_alive = await asyncio.to_thread(self._is_alive, lease_id)
        return lease_id if is_alive else ""

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
