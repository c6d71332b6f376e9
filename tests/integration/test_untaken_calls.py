"""Who gives a call no room to be answered in is hung up on, however well the connection is."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import grpc
import grpc.aio
import pytest

from appliance.core.errors import UnauthenticatedError
from appliance.management.rpc import call_watch
from appliance.management.rpc.call_watch import StreamWatch
from appliance.management.rpc.rpc_edge import RpcEdge
from appliance.wire.connections.accepted import NOBODY, AcceptedConnections
from appliance.wire.connections.client_ports import bind_for_clients
from appliance.wire.connections.forwarder import Destination, Forwarder
from tests.attack.http2 import BEGINNING, SETTINGS, frame, post
from tests.support.waiting import patience

NUM_BYTES = 1 << 20
PIECE = bytes(1 << 14)
NO_WINDOW = frame(SETTINGS, 0, 0, (4).to_bytes(2, "big") + (0).to_bytes(4, "big"))
"""SETTINGS_INITIAL_WINDOW_SIZE of 0 (RFC 9113, 6.5.2)."""
PING, ACK, PING_BYTES = 6, 1, 8


@pytest.fixture(autouse=True)
def untaken_seconds(monkeypatch) -> float:
    """As long as an answer may wait, and no longer; on a busy machine everything waits."""
    seconds = patience(0.5)
    monkeypatch.setattr(call_watch, "UNTAKEN_SECONDS", seconds)
    monkeypatch.setattr(call_watch, "RECHECK_SECONDS", seconds / 5)
    return seconds


class Methods(grpc.GenericRpcHandler):
    """Answer with much, at once or piece by piece, or with nothing ever."""

    def service(self, details):
        name = details.method.rpartition("/")[2]
        if name == "Once":
            return grpc.unary_unary_rpc_method_handler(self.once)
        return grpc.unary_stream_rpc_method_handler(self.pieces)

    async def once(self, request, context):
        return bytes(NUM_BYTES)

    async def pieces(self, request, context):
        for _ in range(NUM_BYTES // len(PIECE)):
            yield PIECE


@contextlib.asynccontextmanager
async def served(path) -> AsyncIterator[int]:
    """Serve behind a front, as management does; yield the front's port."""

    async def chosen() -> Destination:
        return Destination(address=str(path))

    accepted = AcceptedConnections()
    with ThreadPoolExecutor(2) as threads:
        server = grpc.aio.server(interceptors=[RpcEdge(threads, None, accepted)])
        server.add_generic_rpc_handlers((Methods(),))
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        front = Forwarder(lambda *_: chosen(), accepted, lambda _: NOBODY)
        listeners = bind_for_clients("127.0.0.1", 0)
        await front.serve(listeners)
        try:
            yield listeners[0].getsockname()[1]
        finally:
            await front.close()
            await server.stop(None)
            for listener in listeners:
                listener.close()


def call_without_a_window(port: int, method: str) -> bool:
    """Call, answer every ping, and take nothing; return whether the connection was ended."""
    client = {"content-type": "application/grpc", "te": "trailers"}
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        first = BEGINNING[: -len(frame(SETTINGS, 0, 0))]
        connection.sendall(first + NO_WINDOW + post(f"/s/{method}", b"", client)[len(BEGINNING) :])
        file = connection.makefile("rb")
        with contextlib.suppress(ConnectionResetError):
            while head := file.read(9):
                payload = file.read(int.from_bytes(head[:3], "big"))
                if head[3] == PING and not head[4] & ACK:
                    connection.sendall(frame(PING, ACK, 0, payload))
        return True


@pytest.mark.parametrize("method", ["Once", "Pieces"])
def test_who_gives_an_answer_no_window_is_hung_up_on(tmp_path, method: str) -> None:
    async def run() -> bool:
        async with served(tmp_path / "s") as port:
            return await asyncio.to_thread(call_without_a_window, port, method)

    assert asyncio.run(run())


def test_who_reads_a_stream_slowly_is_not(tmp_path, untaken_seconds) -> None:
    async def run() -> int:
        async with (
            served(tmp_path / "s") as port,
            grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            call, num = channel.unary_stream("/s/Pieces")(b""), 0
            async for piece in call:
                num += len(piece)
                await asyncio.sleep(untaken_seconds / 20)
            return num

    assert asyncio.run(run()) == NUM_BYTES


class Stream:
    """A stream that is watched, and waits for news that do not come."""

    def __init__(self, check) -> None:
        self.check, self.cuts = check, []

    async def run(self):
        with StreamWatch(self.check, lambda: self.cuts.append(1)) as watch:
            watch.sends()
            watch.sent()
            await asyncio.Event().wait()


def test_a_quiet_stream_ends_once_its_reader_may_not_read_on() -> None:
    asked = SimpleNamespace(num=0)

    async def check() -> None:
        asked.num += 1
        if asked.num == 3:
            raise UnauthenticatedError("The token is revoked.")

    async def run() -> list:
        stream = Stream(check)
        with pytest.raises(UnauthenticatedError, match="revoked"):
            await asyncio.wait_for(stream.run(), 60)
        return stream.cuts

    assert asyncio.run(run()) == []
    assert asked.num == 3


def test_a_watched_stream_that_somebody_cancels_is_cancelled() -> None:
    async def run() -> None:
        stream = asyncio.create_task(Stream(None).run())
        await asyncio.sleep(0)
        stream.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stream

    asyncio.run(run())
