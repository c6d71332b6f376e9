"""The one port that clients need: it passes TLS on to management, to REST or to a coordinator.

The client reaches a job's coordinator by the job's own authority, which it also sends as the server
name of TLS. So the first message of a connection, which is not encrypted, names its destination,
and all bytes are passed on unchanged: nothing is decrypted here, and each connection of a client is
one connection to the service behind, which identifies clients by it. Only a client that names the
whole authority of a job reaches its coordinator and, on this machine, only the job's owner.

Bytes are copied in a thread with an event loop of its own, so that a client that sends its weights
does not delay the calls of others.
"""

import asyncio
import contextlib
import hmac
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from appliance.core.cluster.records import CoordinatorAddress
from appliance.core.errors import ClusterError
from appliance.core.ids import AUTHORITY_SUFFIX, JobId, Role
from appliance.management.front.client_hello import ClientHello, NoHelloError, parse_client_hello
from appliance.wire.connection_owner import Endpoint, Origin, may_reach

logger = logging.getLogger(__name__)

_HELLO_SECONDS = 10.0
"""How long a connection may take to say whom it wants."""
_CONNECT_SECONDS = 10.0
_CHUNK_BYTES = 1 << 18
_NUM_FINDERS = 4
_HALF_CLOSED_SECONDS = 10.0
"""How long a client may leave a connection open that its service has ended."""
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6),
)
"""A peer that is gone without a word is noticed after three minutes."""
_BACKLOG = 1024

_UNRECOGNIZED_NAME = bytes((21, 3, 3, 0, 2, 2, 112))
"""A fatal alert of TLS: there is nobody of that name.

Who calls a job gets the end of the connection instead. A client goes on calling a job that was
cancelled until it has asked management what became of it, and its gRPC library prints every alert.
"""
_PLAIN_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\n"
    b"Content-Type: text/plain\r\nContent-Length: 22\r\nConnection: close\r\n\r\n"
    b"This port speaks TLS.\n"
)
"""The client asks with plain HTTP whether anybody is there, and any answer will do."""

_COORDINATOR = f"-{Role.COORDINATOR.value}-0"
"""What follows a job's name in its authority."""

Address = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """Where connections are passed on to.

    Attributes:
        management: gRPC services of management.
        rest: The REST shell; None leaves browsers to their own port.
        find_coordinator: Returns where a job's coordinator is and who may reach it; None if it has
            none yet or any more; called in threads.
    """

    management: Address
    rest: Address | None
    find_coordinator: Callable[[JobId], CoordinatorAddress | None]


class SniProxy:
    """Listens for clients and passes their connections on.

    Args:
        listeners: The sockets that clients connect to, all alike.
        backends: Where to.
    """

    def __init__(self, listeners: Sequence[socket.socket], backends: Backends) -> None:
        self._listeners, self._backends = listeners, backends
        self._connections: set[asyncio.Task[None]] = set()
        self._with_jobs: set[asyncio.Task[None]] = set()
        self._origins: dict[Endpoint, Origin] = {}
        self._drain_seconds = 0.0
        self._finders = ThreadPoolExecutor(_NUM_FINDERS, thread_name_prefix="find-coordinator")
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="sni-proxy", daemon=True)

    def start(self) -> None:
        """Begin to accept."""
        for listener in self._listeners:
            listener.listen(_BACKLOG)
        self._thread.start()

    def origin_of(self, end: Endpoint) -> Origin | None:
        """Return the connection of a client behind one that we made, by its near end.

        Returns:
            None if we have not made it, or it has ended.
        """
        return self._origins.get(end)

    def close(self, *, drain_seconds: float = 0.0) -> None:
        """Refuse new connections and cut the others.

        Args:
            drain_seconds: How long connections to coordinators may go on: a client that sends or
                fetches tensors does not survive the end of its connection.
        """
        if self._thread.is_alive():
            self._drain_seconds = drain_seconds
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
        self._finders.shutdown(wait=False, cancel_futures=True)
        for listener in self._listeners:
            listener.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        servers = [
            await asyncio.start_server(self._accept, sock=listener, limit=_CHUNK_BYTES)
            for listener in self._listeners
        ]
        await self._stop.wait()
        for server in servers:
            server.close()
        end = self._loop.time() + self._drain_seconds
        while self._with_jobs and (left := end - self._loop.time()) > 0:
            logger.info("Connections to jobs are left", extra={"count": len(self._with_jobs)})
            await asyncio.wait(self._with_jobs, timeout=left)
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._pass_on(reader, writer)
        except (OSError, TimeoutError) as error:
            logger.debug("Connection ended", extra={"reason": str(error)})
        finally:
            self._connections.discard(task)
            self._with_jobs.discard(task)
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                hello, data = await _read_hello(reader)
        except NoHelloError:
            writer.write(_PLAIN_ANSWER)
            await writer.drain()
            return
        if hello is None:
            return  # it hung up
        origin = _end(writer, "peername"), _end(writer, "sockname")
        async with asyncio.timeout(_CONNECT_SECONDS):
            address = await self._route(hello, origin)
        if address is None:
            named = hello.server_name.partition(_COORDINATOR)[0]
            logger.info("Nobody of that name, or not for this caller", extra={"named": named})
            if not _is_for_job(hello):
                writer.write(_UNRECOGNIZED_NAME)
                await writer.drain()
            return
        async with asyncio.timeout(_CONNECT_SECONDS):
            behind = await asyncio.open_connection(*address, limit=_CHUNK_BYTES)
        if _is_for_job(hello) and (task := asyncio.current_task()) is not None:
            self._with_jobs.add(task)
        for stream in (writer, behind[1]):
            _watch_peer(stream)
        near = _end(behind[1], "sockname")
        self._origins[near] = origin  # before a byte of the client can be read there
        try:
            behind[1].write(data)
            await _splice((reader, writer), behind)
        finally:
            del self._origins[near]

    async def _route(self, hello: ClientHello, origin: Origin) -> Address | None:
        if _is_for_job(hello):
            job = JobId(hello.server_name.partition(_COORDINATOR)[0])
            # Not in the loop's own threads, which look names up for all connections.
            found = await self._loop.run_in_executor(
                self._finders, self._backends.find_coordinator, job
            )
            if found is None or not found.address or not _admits(found, hello, origin):
                return None
            host, _, port = found.address.rpartition(":")
            return host.strip("[]"), int(port)
        is_grpc = hello.server_name.endswith(AUTHORITY_SUFFIX) or hello.speaks_grpc_only
        return self._backends.management if is_grpc else self._backends.rest


def _is_for_job(hello: ClientHello) -> bool:
    name, _, rest = hello.server_name.partition(".")
    return _COORDINATOR in name and rest == AUTHORITY_SUFFIX


def _admits(found: CoordinatorAddress, hello: ClientHello, origin: Origin) -> bool:
    """Whether a connection knows the authority of a job, and may come from where it comes from."""
    is_known = hmac.compare_digest(hello.server_name.encode(), found.authority.encode())
    return is_known and may_reach(*origin, owner_uid=found.owner_uid)


async def _read_hello(reader: asyncio.StreamReader) -> tuple[ClientHello | None, bytes]:
    data = b""
    while part := await reader.read(_CHUNK_BYTES):
        data += part
        if (hello := parse_client_hello(data)) is not None:
            return hello, data
    return None, data


def _end(writer: asyncio.StreamWriter, which: str) -> Endpoint:
    host, port = writer.get_extra_info(which)[:2]
    return Endpoint(host, port)


_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _splice(one: _Stream, other: _Stream) -> None:
    """Copy both ways until both sides have ended, or one connection breaks.

    Args:
        one: The client's side, which may stay open a while after the other has ended.
        other: The service's side.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            asked = tasks.create_task(_copy(one[0], other[1]))
            await tasks.create_task(_copy(other[0], one[1]))
            await asyncio.wait((asked,), timeout=_HALF_CLOSED_SECONDS)
            asked.cancel()
    except* OSError as errors:
        logger.debug("Connection broke", extra={"reason": str(errors.exceptions[0])})
    finally:
        other[1].close()


def _watch_peer(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    for level, option, value in _KEEPALIVE:
        connection.setsockopt(level, option, value)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while part := await reader.read(_CHUNK_BYTES):
        writer.write(part)
        await writer.drain()
    with contextlib.suppress(OSError):  # the other side has gone, too
        writer.write_eof()


def listen(host: str, port: int, *, option: str) -> socket.socket:
    """Return a socket bound for clients.

    Args:
        host: Address to bind to.
        port: Port to bind to; 0 for any free one.
        option: Command-line option that chooses the port, for the error.

    Raises:
        ClusterError: The port is taken.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ClusterError(
            f"Port {port} at {host} cannot be used: {error.strerror}.",
            hint=f"Choose another one with {option}.",
        ) from error
    return listener
