"""Streams of heartbeats end with what they keep alive, also when the client opens them anew."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from appliance.management.changes.watch import JobWatch
from appliance.management.rpc.client import heartbeats
from appliance.management.rpc.client.heartbeats import HeartbeatStreams
from protos.cluster.cluster_pb2 import HeartbeatRequest, HeartbeatResponse

PEER = "ipv4:127.0.0.1:40000"
DEADLINE_SECONDS = 30


class Client:
    """Opens streams on one connection; beats only when told to."""

    def __init__(self, alive: set[str]) -> None:
        self.alive = alive
        self.beats: list[str] = []
        watch = JobWatch()
        watch.bind(asyncio.get_running_loop())
        self.streams = HeartbeatStreams(watch, self.alive.__contains__)

    async def silent_stream(self) -> None:
        """Open a stream and wait until the server ends it; there is no beat."""
        async for _ in self.streams.serve(self._silence(), PEER, self._answer):
            pytest.fail("an answer without a beat")

    async def beating_stream(self, lease: str) -> list[HeartbeatResponse]:
        """Open a stream, beat once and leave."""
        return [
            answer async for answer in self.streams.serve(self._beat(lease), PEER, self._answer)
        ]

    def _answer(self, beat: HeartbeatRequest) -> HeartbeatResponse:
        self.beats.append(beat.lease_id)
        return HeartbeatResponse(message=beat.lease_id)

    async def _silence(self) -> AsyncIterator[HeartbeatRequest]:
        await asyncio.Event().wait()
        yield HeartbeatRequest()

    async def _beat(self, lease: str) -> AsyncIterator[HeartbeatRequest]:
        yield HeartbeatRequest(lease_id=lease)


@pytest.fixture(autouse=True)
def _no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "CLOSE_DELAY_SECONDS", 0.0)


def test_a_stream_that_is_opened_anew_after_its_job_ended_ends_too() -> None:
    async def run() -> None:
        client = Client(set())
        client.streams.expect(PEER, "wsjob-1")
        await client.silent_stream()
        await client.silent_stream()

    asyncio.run(asyncio.wait_for(run(), DEADLINE_SECONDS))


def test_streams_for_an_ended_job_are_not_ended_for_ever() -> None:
    async def run() -> list[str]:
        client = Client(set())
        client.streams.expect(PEER, "wsjob-1")
        for _ in range(heartbeats._MAX_EARLY_ENDS):
            await client.silent_stream()
        client.alive.add("wflow-2")  # its stream was taken for another's all the while
        await client.beating_stream("wflow-2")
        return client.beats

    assert asyncio.run(asyncio.wait_for(run(), DEADLINE_SECONDS)) == ["wflow-2"]


def test_a_new_job_on_the_connection_is_what_its_next_stream_is_for() -> None:
    async def run() -> list[str]:
        client = Client({"wsjob-2"})
        client.streams.expect(PEER, "wsjob-1")
        await client.silent_stream()
        client.streams.expect(PEER, "wsjob-2")
        await client.beating_stream("wsjob-2")
        return client.beats

    assert asyncio.run(asyncio.wait_for(run(), DEADLINE_SECONDS)) == ["wsjob-2"]
