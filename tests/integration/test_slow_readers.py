"""Who reads nothing of what is sent to him is hung up on; who reads slowly is not."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from appliance.cli.rest_shell import http_config
from appliance.wire.connections import stalled_peers
from appliance.wire.connections.accepted import NOBODY, AcceptedConnections
from appliance.wire.connections.client_ports import bind_for_clients
from appliance.wire.connections.forwarder import Destination, Forwarder
from appliance.wire.connections.front_thread import FrontThread
from tests.support.waiting import patience

NUM_BYTES = 64 << 20
"""More than the kernel keeps for a connection."""
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(autouse=True)
def stalled_seconds(monkeypatch) -> float:
    """As long as a reader may rest, and no longer; a busy machine makes everybody rest."""
    seconds = patience(0.5)
    monkeypatch.setattr(stalled_peers, "STALLED_SECONDS", seconds)
    return seconds


@contextlib.contextmanager
def behind_front(
    path: Path, lost: threading.Event, *, is_for_job: bool, closes: bool
) -> Iterator[int]:
    """A service behind a front that sends much, whatever it is asked; yield the front's port."""

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1024)
            with contextlib.suppress(OSError):
                connection.sendall(bytes(NUM_BYTES))
                if not closes:
                    connection.recv(1024)
        lost.set()

    async def chosen() -> Destination:
        return Destination(address=str(path), is_for_job=is_for_job)

    listeners = bind_for_clients("127.0.0.1", 0)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        forwarder = Forwarder(lambda *_: chosen(), AcceptedConnections(), lambda _: NOBODY)
        front = FrontThread(forwarder, listeners, name="front")
        front.start()
        try:
            yield listeners[0].getsockname()[1]
        finally:
            front.close()
            thread.join()


@pytest.mark.parametrize("closes", [False, True])
def test_a_front_cuts_who_reads_nothing(tmp_path, *, closes: bool) -> None:
    lost = threading.Event()
    with (
        behind_front(tmp_path / "s", lost, is_for_job=False, closes=closes) as port,
        socket.create_connection(("127.0.0.1", port)) as reader,
    ):
        reader.sendall(REQUEST)
        assert lost.wait(60)
        assert count_to_end(reader) < NUM_BYTES


def test_a_front_leaves_the_client_of_a_job_its_time(tmp_path, stalled_seconds) -> None:
    lost = threading.Event()
    with (
        behind_front(tmp_path / "s", lost, is_for_job=True, closes=True) as port,
        socket.create_connection(("127.0.0.1", port)) as reader,
    ):
        reader.sendall(REQUEST)
        assert not lost.wait(6 * stalled_seconds)
        assert count_to_end(reader) == NUM_BYTES


async def answer(scope, receive, send) -> None:
    """Send much, in pieces."""
    headers = [(b"content-length", str(NUM_BYTES).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    piece = bytes(1 << 20)
    for left in reversed(range(NUM_BYTES // len(piece))):
        await send({"type": "http.response.body", "body": piece, "more_body": left > 0})


@contextlib.asynccontextmanager
async def rest():
    """Serve `answer` as REST is served; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(http_config(answer, None, lambda _: NOBODY))
        server.install_signal_handlers = lambda: None
        serving = asyncio.create_task(server._serve(sockets=[listener]))
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


def test_rest_cuts_who_reads_nothing_and_not_who_reads_slowly(stalled_seconds) -> None:
    async def run() -> None:
        async with rest() as port:
            with socket.create_connection(("127.0.0.1", port)) as silent:
                silent.sendall(REQUEST)
                slow = await asyncio.to_thread(read_slowly, port, stalled_seconds)
                assert slow > NUM_BYTES  # with the head
                assert await asyncio.to_thread(count_to_end, silent) < NUM_BYTES

    asyncio.run(run())


def read_slowly(port: int, stalled_seconds: float) -> int:
    """Read with pauses, for longer than somebody who reads nothing is left; return how much."""
    num, pause = 0, threading.Event()
    with socket.create_connection(("127.0.0.1", port)) as reader:
        reader.sendall(REQUEST)
        for _ in range(12):
            num += len(reader.recv(1 << 20, socket.MSG_WAITALL))
            pause.wait(stalled_seconds / 2)
        return num + count_to_end(reader)


def count_to_end(connection: socket.socket) -> int:
    """Return how many bytes come until the end, however it comes."""
    num = 0
    connection.settimeout(60)
    with contextlib.suppress(ConnectionResetError):
        while data := connection.recv(1 << 20):
            num += len(data)
    return num
