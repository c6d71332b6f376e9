"""gRPC between nodes: a Unix socket here, a Unix socket there, one proven connection between them.

The services of pods and of management listen on Unix sockets, whoever calls them. From another node
they are reached through a tunnel: at the caller a *bridge* listens on a Unix socket of its own and
dials the other node's network server for each connection that is made to it; there a *tunnel
service* connects to the real socket. Both ends have proved that they know the key before the first
byte passes, and where streams are encrypted, so is this. gRPC on either side never knows.
"""

import contextlib
import logging
import select
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from appliance.core.clock import Clock
from appliance.core.errors import WscError
from appliance.streams.doorbell import Bell, Deadline, wait_readable
from appliance.streams.handshake import Message
from appliance.streams.network.channel import Channel
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.receiver import Target, dial
from appliance.streams.network.tcp_frames import ChannelBrokenError

logger = logging.getLogger(__name__)

CONTROL = "control"
"""Name under which a pod, or management, offers its gRPC services."""

NODES = "nodes"
"""Name under which management offers its service for the agents of nodes."""

_CHUNK_BYTES = 1 << 16
_BACKLOG = 16
_KEEPALIVE_SECONDS = 5
_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@dataclass(slots=True)
class _Way:
    """One direction of a tunnel: what was read from `source` and not yet written to `target`."""

    source: socket.socket
    target: socket.socket
    waiting: bytes = b""
    is_ended: bool = field(default=False)

    def move(self) -> bool:
        """Read and write what goes without waiting; return whether anything moved."""
        has_read = not self.waiting and not self.is_ended and self._read()
        return (bool(self.waiting) and self._write()) or has_read

    def _read(self) -> bool:
        try:
            self.waiting = self.source.recv(_CHUNK_BYTES)
        except _NOT_NOW:
            return False
        self.is_ended = not self.waiting
        return True

    def _write(self) -> bool:
        try:
            count = self.target.send(self.waiting)
        except _NOT_NOW:
            return False
        self.waiting = self.waiting[count:]
        return True


def join(near: socket.socket, far: socket.socket) -> None:
    """Copy bytes in both directions until one end has sent everything; closes both.

    Returns silently also when a connection breaks: either side then sees its own one closed, which
    is all that it would learn without a tunnel.
    """
    ways = (_Way(near, far), _Way(far, near))
    with near, far, contextlib.suppress(OSError):
        near.setblocking(False)
        far.setblocking(False)
        while not any(way.is_ended and not way.waiting for way in ways):
            if not any([way.move() for way in ways]):
                _wait(ways)


def _wait(ways: tuple[_Way, _Way]) -> None:
    events: dict[int, int] = {}
    for way in ways:
        end, event = (way.target, select.POLLOUT) if way.waiting else (way.source, select.POLLIN)
        if not (way.is_ended and not way.waiting):
            events[end.fileno()] = events.get(end.fileno(), 0) | event
    poller = select.poll()
    for descriptor, mask in events.items():
        poller.register(descriptor, mask)
    poller.poll()


class _Tunnels:
    """The tunnels of one service or bridge, each a thread."""

    def __init__(self) -> None:
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def begin(self, near: socket.socket, far: socket.socket, *, name: str) -> None:
        """Join two connections in a thread; closes them if it is too late for that."""
        far.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_SECONDS)
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_SECONDS)
        with self._lock:
            if self._is_closed:
                near.close()
                far.close()
                return
            self._open.add(near)

        def body() -> None:
            try:
                join(near, far)
            finally:
                with self._lock:
                    self._open.discard(near)

        threading.Thread(target=body, name=f"tunnel-{name}", daemon=True).start()

    def close(self) -> None:
        """Give up on every tunnel."""
        with self._lock:
            self._is_closed = True
            ends = list(self._open)
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class TunnelService:
    """The far end: what a network server offers for a Unix socket of this node.

    Args:
        target: gRPC target of what is to be reached, `unix:PATH`.
        check: Raises a `WscError` if a client that has proved itself may not come through.
    """

    def __init__(self, target: str, check: Callable[[Message], None] = lambda _: None) -> None:
        self._path = target.removeprefix("unix:")
        self._check = check
        self._tunnels = _Tunnels()

    @property
    def is_over(self) -> bool:
        """Always false: the service is offered until the server closes."""
        return False

    def greet(self, hello: Message) -> Message:
        """Accept a client that has proved that it knows the key, unless the check says no."""
        self._check(hello)
        return {}

    def take(self, hello: Message, channel: Channel) -> None:
        """Connect a client through; closes it if nothing listens at the socket."""
        near, far = socket.socket(socket.AF_UNIX), channel.hand_over()
        try:
            near.connect(self._path)
        except OSError as error:
            logger.warning("Tunnel leads nowhere", extra={"path": self._path, "why": str(error)})
            near.close()
            far.close()
            return
        self._tunnels.begin(near, far, name=str(hello.get("label")))

    def close(self) -> None:
        """Give up on every tunnel."""
        self._tunnels.close()


class Bridge:
    """The near end: a Unix socket behind which a service of another node answers.

    Args:
        path: Where to listen; removed at the end.
        find: Returns host:port of the other node's network server; may raise `OSError` or
            `WscError` as long as that is not known. Called for each connection.
        hello: What is said to the server beside the service's name.
        label: How this end is called in the server's log.
        options: The key, encryption and times.
        service: Name of what is reached.
    """

    def __init__(
        self,
        path: Path,
        find: Callable[[], str],
        *,
        hello: Message,
        label: str,
        options: NetworkOptions,
        clock: Clock,
        service: str = CONTROL,
    ) -> None:
        self._path, self._find, self._service = path, find, service
        self._hello, self._label, self._options, self._clock = hello, label, options, clock
        self._tunnels = _Tunnels()
        self._bell = Bell()
        self._is_closed = False
        self.trouble = ""
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(_BACKLOG)
        self._listener.setblocking(False)
        self._thread = threading.Thread(target=self._serve, name=f"bridge-{path.stem}", daemon=True)
        self._thread.start()

    @property
    def target(self) -> str:
        """The gRPC target by which the service is reached from this node."""
        return f"unix:{self._path}"

    def close(self) -> None:
        """Stop listening and give up on every tunnel."""
        if self._is_closed:
            return
        self._is_closed = True
        self._bell.ring()
        self._thread.join()
        self._bell.close()
        self._tunnels.close()
        self._path.unlink(missing_ok=True)

    def _serve(self) -> None:
        with self._listener:
            while True:
                wait_readable(self._listener, self._bell, Deadline(self._clock, None))
                if self._is_closed:
                    return
                with contextlib.suppress(OSError):  # gone again by the time of `accept`
                    near, _ = self._listener.accept()
                    threading.Thread(
                        target=self._lead, args=(near,), name="bridge-dials", daemon=True
                    ).start()

    def _lead(self, near: socket.socket) -> None:
        """Lead one connection to the other node; body of a short-lived thread."""
        try:
            target = Target(name=self._service, address=self._find(), label=self._label)
            channel, _ = dial(target, self._hello, self._options, self._clock)
        except (WscError, OSError) as error:
            # gRPC tries again; what it cannot tell whoever waits is kept for them.
            self.trouble = str(error)
            logger.debug(
                "Bridge leads nowhere", extra={"bridge": str(self._path), "why": str(error)}
            )
            near.close()
            return
        self.trouble = ""
        self._tunnels.begin(near, channel.hand_over(), name=self._service)


class KnownOnce:
    """An address that is looked up until it is known, and then cached.

    Args:
        ask: Returns it; empty as long as it is not known.
        what: What is there, for the error's sentence.
    """

    def __init__(self, ask: Callable[[], str], *, what: str) -> None:
        self._ask, self._what, self._address = ask, what, ""

    def __call__(self) -> str:
        """Return the address.

        Raises:
            ChannelBrokenError: It is not known yet.
            OSError: Who should know does not answer.
        """
        if not self._address:
            self._address = self._ask()
        if not self._address:
            raise ChannelBrokenError(f"nobody has said yet where {self._what} is")
        return self._address
