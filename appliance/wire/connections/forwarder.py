"""Accepts connections of clients and passes each on to a service, unchanged, both ways.

Whose a connection is is found out when it is accepted, and handed on by the name of the socket from
which it is passed on to a service of this process (`wire.connections.accepted`). Each connection
of a client is one connection to the service behind.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from appliance.wire.connections.accepted import Accepted, AcceptedConnections, accepted
from appliance.wire.connections.connection_shares import ConnectionShares, places_for_all
from appliance.wire.connections.stalled_peers import StalledPeer

logger = logging.getLogger(__name__)

_CHOICE_SECONDS = 10.0
"""How long a connection may take to say whom it wants."""
_CONNECT_SECONDS = 10.0
_PAUSE_SECONDS = 0.01
_BACKLOG = 1024
_HALF_CLOSED_SECONDS = 10.0
"""How long a client may leave a connection open that its service has ended."""
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 6),
)
"""A peer that is gone without a word is noticed after three minutes."""

Address = tuple[str, int] | str
"""Host and port, or the path of a Unix socket of our own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where a connection is passed on to.

    Attributes:
        address: Where; by a Unix socket its service learns whose the connection is.
        is_for_job: Whether a coordinator is there, whose client does not survive the connection.
        sender: Whose the connection is, if a proxy that is believed says so; else None.
        preface: Sent first, before what the client sends.
        num_dropped: Bytes at the beginning that are a proxy's and not passed on.
    """

    address: Address
    is_for_job: bool = False
    sender: Accepted | None = None
    preface: bytes = b""
    num_dropped: int = 0


class RefusedError(Exception):
    """A connection is passed on nowhere.

    Attributes:
        answer: What is sent before it is closed.
    """

    def __init__(self, answer: bytes = b"") -> None:
        super().__init__("The connection is refused.")
        self.answer = answer


Choose = Callable[[bytes, Accepted], Coroutine[None, None, Destination] | None]
"""Says where a connection goes by how it begins, and whose it is; None if more has to come first.

Raises `RefusedError`, or returns what does."""


class Forwarder:
    """Accepts connections and passes them on.

    Args:
        choose: Says where to.
        connections: Are told whose the connections are.
        see: Finds that out.
        shares: Say how many may be open.
    """

    def __init__(
        self,
        choose: Choose,
        connections: AcceptedConnections,
        see: Callable[[socket.socket], Accepted] = accepted,
        shares: ConnectionShares | None = None,
    ) -> None:
        self.choose, self.connections, self.see = choose, connections, see
        self.shares = shares or ConnectionShares(places_for_all())
        self._servers: list[asyncio.Server] = []
        self._open: set[_Client] = set()

    async def serve(self, listeners: Sequence[socket.socket]) -> None:
        """Begin to accept connections in the running event loop."""
        loop = asyncio.get_running_loop()
        for listener in listeners:
            server = await loop.create_server(self.client, sock=listener, backlog=_BACKLOG)
            self._servers.append(server)

    def client(self) -> "_Client":
        """Return what serves a connection that is about to be accepted."""
        return _Client(self)

    def refuse(self) -> None:
        """Accept no more."""
        for server in self._servers:
            server.close()

    async def close(self, *, drain_seconds: float = 0.0) -> None:
        """Accept no more, and cut what is open.

        Args:
            drain_seconds: How long connections to coordinators may go on.
        """
        self.refuse()
        end = asyncio.get_running_loop().time() + drain_seconds
        while (left := end - asyncio.get_running_loop().time()) > 0:
            waits = [each.is_over for each in self._open if each.is_for_job]
            if not waits:
                break
            logger.info("Connections to jobs are left", extra={"count": len(waits)})
            await asyncio.wait(waits, timeout=left)
        for each in tuple(self._open):
            each.cut()
        await asyncio.sleep(0)

    def began(self, client: "_Client") -> None:
        """Take note of a connection."""
        self._open.add(client)

    def ended(self, client: "_Client") -> None:
        """Take note that a connection has ended."""
        self._open.discard(client)


class _End(asyncio.Protocol):
    """One of the two connections of a client; what it receives is written to the other."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _End | None = None
        self.has_ended = False
        """Whether its peer sends nothing more."""

    @property
    def is_open(self) -> bool:
        """Whether anything can be written to it."""
        return self.transport is not None and not self.transport.is_closing()

    def write(self, data: bytes) -> None:
        """Send something to its peer, unless that is gone."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def finish(self) -> None:
        """Send its peer nothing more; close it if that sends nothing more either."""
        if self.transport is None or self.transport.is_closing():
            return
        if self.has_ended:
            self.transport.close()
            return
        with suppress(OSError):  # its peer has gone, too
            self.transport.write_eof()

    def close(self) -> None:
        """Send what is left to be sent, then close it."""
        if self.transport is not None:
            self.transport.close()

    def cut(self) -> None:
        """Close it at once."""
        if self.transport is not None:
            self.transport.abort()

    def hold(self, *, is_held: bool) -> None:
        """Read nothing more of it, or go on."""
        if self.transport is None or self.transport.is_closing():
            return
        if is_held:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        """Pass on what came."""
        if self.other is not None:
            self.other.write(data)

    def eof_received(self) -> bool:
        """Pass on that nothing more comes; the other direction stays open."""
        self.has_ended = True
        if self.other is not None:
            self.other.finish()
            if self.other.has_ended:
                self.close()
        return True

    def pause_writing(self) -> None:
        """Read no more from the other end until this one has been written."""
        if self.other is not None:
            self.other.hold(is_held=True)

    def resume_writing(self) -> None:
        """Go on reading from the other end."""
        if self.other is not None:
            self.other.hold(is_held=False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the other end."""
        if self.other is not None:
            self.other.close()


class _Client(_End):
    """A client's connection.

    Args:
        forwarder: Accepted it.
    """

    def __init__(self, forwarder: Forwarder) -> None:
        super().__init__()
        self._forwarder = forwarder
        self._loop = asyncio.get_running_loop()
        self._head = b""
        self._origin = Accepted()
        self._place: str | None = None
        self._opening: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: StalledPeer | None = None
        self.is_for_job = False
        self.is_over: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Find out whose it is, and begin to look where it goes."""
        self.transport = cast("asyncio.Transport", transport)
        connection = transport.get_extra_info("socket")
        self._origin = self._forwarder.see(connection)
        self._place = self._forwarder.shares.take(self._origin)
        if self._place is None:
            self.cut()
            return
        _watch_peer(connection)
        self._forwarder.began(self)
        self._stalled = StalledPeer(self.transport)
        self._timer = self._loop.call_later(_CHOICE_SECONDS, self.cut)
        self._look()

    def data_received(self, data: bytes) -> None:
        """Pass on what came, or keep it until it is known where to."""
        if self.other is not None:
            self.other.write(data)
            return
        self._head += data
        if self._opening is None:
            self._look()

    def eof_received(self) -> bool:
        """Pass on that nothing more comes; who has not said whom he wants wants nobody."""
        super().eof_received()
        return self._opening is not None

    def connection_lost(self, exc: Exception | None) -> None:
        """Close what is behind."""
        super().connection_lost(exc)
        self._leave_place()
        self._stop_timer()
        self._watch_no_more()
        if self._opening is not None:
            self._opening.cancel()
        self._forwarder.ended(self)
        if not self.is_over.done():
            self.is_over.set_result(None)

    def service_ended(self) -> None:
        """Leave the client some time to close the connection."""
        self._stop_timer()
        self._timer = self._loop.call_later(_HALF_CLOSED_SECONDS, self.cut)

    def _look(self) -> None:
        try:
            chosen = self._forwarder.choose(self._head, self._origin)
        except RefusedError as refused:
            self._refuse(refused)
            return
        if chosen is not None:
            self._stop_timer()
            self.hold(is_held=True)
            self._opening = self._loop.create_task(self._pass_on(chosen))

    async def _pass_on(self, chosen: Coroutine[None, None, Destination]) -> None:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await self._open(await chosen)
        except RefusedError as refused:
            self._refuse(refused)
        except (OSError, TimeoutError) as error:
            logger.debug("Connection ended", extra={"reason": str(error)})
            self.close()

    async def _open(self, destination: Destination) -> None:
        self.is_for_job = destination.is_for_job
        if self.is_for_job:  # which does not survive it, and has been told the job's secret
            self._watch_no_more()
        sender = destination.sender
        if sender is not None and sender != self._origin:
            self._count_as(sender)
        behind = _Behind(self, self._forwarder.connections)
        await behind.connect(destination.address, sender or self._origin)
        if not self.is_open:
            behind.cut()
            return
        self.other = behind
        self.hold(is_held=False)  # before anything is written, which may hold it again
        behind.write(destination.preface + self._head[destination.num_dropped :])
        self._head = b""
        if self.has_ended:
            behind.finish()

    def _count_as(self, sender: Accepted) -> None:
        """Count the connection as that of whom a proxy has it from; raises `RefusedError`."""
        self._leave_place()
        self._place = self._forwarder.shares.take(sender)
        if self._place is None:
            raise RefusedError

    def _leave_place(self) -> None:
        if self._place is not None:
            self._forwarder.shares.give_back(self._place)
            self._place = None

    def _watch_no_more(self) -> None:
        if self._stalled is not None:
            self._stalled.stop()
            self._stalled = None

    def _refuse(self, refused: RefusedError) -> None:
        self.write(refused.answer)
        self.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Behind(_End):
    """The connection to a service, behind a client's.

    Args:
        client: The client's.
        connections: Are told whose it is.
    """

    def __init__(self, client: _Client, connections: AcceptedConnections) -> None:
        super().__init__()
        self._client, self._connections = client, connections
        self._name = ""

    async def connect(self, address: Address, origin: Accepted) -> None:
        """Connect to a service, and let one of this process know whose the connection is.

        Raises:
            OSError: Nobody is there.
        """
        loop = asyncio.get_running_loop()
        if not isinstance(address, str):
            await loop.create_connection(lambda: self, *address)
            return
        client = self._client

        def cut() -> None:
            with suppress(RuntimeError):  # the loop has ended, and all connections with it
                loop.call_soon_threadsafe(client.cut)

        # Before a byte of the client can be read there.
        self._name = self._connections.add(origin, cut)
        try:
            named = await _connected(address, self._name)
            await loop.create_unix_connection(lambda: self, sock=named)
        except BaseException:
            self._connections.remove(self._name)
            self.cut()
            raise

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to pass on what the service sends."""
        self.transport, self.other = cast("asyncio.Transport", transport), self._client
        if not self._name:
            _watch_peer(transport.get_extra_info("socket"))

    def eof_received(self) -> bool:
        """Let the client know, and leave it some time."""
        self._client.service_ended()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget whose it was, and close the client's."""
        self._connections.remove(self._name)
        super().connection_lost(exc)


async def _connected(path: str, name: str) -> socket.socket:
    """Return a socket of a name that is connected to a Unix socket; raises `OSError`."""
    named = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        named.setblocking(False)
        named.bind(f"\0{name}")
        while True:
            try:
                named.connect(path)
            except BlockingIOError:  # so many wait there to be accepted
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                return named
    except BaseException:
        named.close()
        raise


def _watch_peer(connection: socket.socket) -> None:
    with suppress(OSError):  # it has ended already
        for level, option, value in _KEEPALIVE:
            connection.setsockopt(level, option, value)
