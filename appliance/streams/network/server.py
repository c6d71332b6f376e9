"""A pod's listener for the pods of its job on other nodes: one port for all its streams."""

import contextlib
import ipaddress
import logging
import socket
import threading
from typing import Protocol

from appliance.core.addresses import host_and_port
from appliance.core.clock import Clock
from appliance.core.errors import ClusterError, WscError
from appliance.streams.doorbell import Bell, Deadline, wait_readable
from appliance.streams.handshake import Message
from appliance.streams.network.channel import Channel, open_channel
from appliance.streams.network.handshakes import Handshakes
from appliance.streams.network.introduction import Challenge, KeyOf, encrypted
from appliance.streams.network.options import NetworkOptions

logger = logging.getLogger(__name__)

_BACKLOG = 64
_HANDSHAKE_TRIES = 3
"""A handshake may last as long as so many of what a client calls an attempt."""


class Service(Protocol):
    """Something that a pod serves under a name: a ring or a store."""

    @property
    def is_over(self) -> bool:
        """Whether nobody has any more use for it."""
        ...

    def greet(self, hello: Message) -> Message:
        """Return the answer to a client's hello.

        Raises:
            WscError: The client is refused for good.
        """
        ...

    def take(self, hello: Message, channel: Channel) -> None:
        """Take over the connection of a client that has got its answer; does not block."""
        ...

    def close(self) -> None:
        """Give up on every connection."""
        ...


class NetworkServer:
    """Listens from construction on.

    Args:
        options: Where, and with which key.
        owner: The pod's name, for messages.
        port: Where to listen; 0 for any free port.
        key_of: Returns the key of a client; by default all have the one of the options.

    Raises:
        ClusterError: This node cannot listen at the address.
    """

    def __init__(
        self,
        options: NetworkOptions,
        *,
        owner: str,
        clock: Clock,
        port: int = 0,
        key_of: KeyOf | None = None,
    ) -> None:
        self._options, self._owner, self._clock = options, owner, clock
        self._key_of: KeyOf = key_of or (lambda _: options.key)
        self._listener = _listen(port, owner, options)
        self._services: dict[str, Service] = {}
        self._lock = threading.Lock()
        self._is_closed = False
        self._handshakes = Handshakes(clock, seconds=_HANDSHAKE_TRIES * options.connect_seconds)
        self._bell = Bell()
        self._thread = threading.Thread(target=self._serve, name="network-streams", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """host:port."""
        return host_and_port(self._options.host, self._listener.getsockname()[1])

    def offer(self, name: str, service: Service) -> None:
        """Serve something from now on, and forget services that are over."""
        with self._lock:
            over = [known for known, offered in self._services.items() if offered.is_over]
            for known in over:
                del self._services[known]
            self._services[name] = service

    def close(self) -> None:
        """Stop listening and give up on every connection."""
        self._is_closed = True
        self._bell.ring()
        self._thread.join()
        self._bell.close()
        with self._lock:
            services = list(self._services.values())
            self._services.clear()
        for service in services:
            service.close()

    def _serve(self) -> None:
        try:
            while True:
                wait_readable(self._listener, self._bell, Deadline(self._clock, None))
                if self._is_closed:
                    return
                with contextlib.suppress(OSError):  # gone again by the time of `accept`
                    connection, address = self._listener.accept()
                    number = self._handshakes.begin(connection, address[0])
                    threading.Thread(
                        target=self._welcome,
                        args=(connection, f"{address[0]}:{address[1]}", number),
                        name="network-welcome",
                        daemon=True,
                    ).start()
        finally:
            self._listener.close()

    def _welcome(self, connection: socket.socket, peer: str, number: int) -> None:
        """Take one client through the handshake; body of a short-lived thread."""
        try:
            connection.settimeout(self._options.connect_seconds)
            connection = encrypted(connection, self._options, is_server=True)
            self._introduce(connection, peer)
        except (WscError, OSError) as error:
            logger.warning("Network peer turned away", extra={"peer": peer, "reason": str(error)})
            connection.close()
        finally:
            self._handshakes.end(number)

    def _introduce(self, connection: socket.socket, peer: str) -> None:
        challenge = Challenge(connection, self._key_of)
        hello = challenge.ask()
        name = str(hello.get("name"))
        with self._lock:
            service = self._services.get(name)
        if service is None:
            challenge.refuse(f"{self._owner} serves no {name!r} (yet).", is_final=False)
            connection.close()
            return
        try:
            answer = service.greet(hello)
        except WscError as error:
            challenge.refuse(str(error), is_final=True)
            raise
        challenge.answer({**answer, "label": self._owner})
        label = f"{hello.get('label')} ({peer})"
        channel = open_channel(connection, peer=label, options=self._options, clock=self._clock)
        service.take(hello, channel)


def prepare(connection: socket.socket, options: NetworkOptions) -> None:
    """Set up a socket that is to connect or listen; what it accepts takes it over.

    Nothing waits to be sent or is paced, and a dead node is noticed. Once a connection has been
    under a congestion control that paces (BBR), the kernel sets a timer for each segment under any
    other, too; so this comes before.
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    limit_milliseconds = int(1000 * options.gone_seconds)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit_milliseconds)
    if options.congestion_control:
        name = options.congestion_control.encode()
        with contextlib.suppress(OSError):  # not there or not allowed: the system's choice stays
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name)


def connect(host: str, port: int, options: NetworkOptions) -> socket.socket:
    """Return a connection that was set up before it was made, with the limit of connecting.

    Raises:
        OSError: None of the host's addresses could be reached; the last one's error.
    """
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(addresses, start=1):
        connection = socket.socket(family, kind, protocol)
        try:
            prepare(connection, options)
            connection.settimeout(options.connect_seconds)
            connection.connect(address)
        except OSError:
            connection.close()
            if number == len(addresses):
                raise
        else:
            return connection
    raise OSError(f"{host} has no address")


def _listen(port: int, owner: str, options: NetworkOptions) -> socket.socket:
    """Listen at an address; a name is what others call this host: listen at all of its."""
    host = options.host
    listener, bound_host = _socket_for(host)
    try:
        if port:  # a fixed one is to be had again at once after a restart
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        prepare(listener, options)
        listener.bind((bound_host, port))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise ClusterError(
            f"{owner} cannot listen for other nodes at {host}, port {port or 'any'}: "
            f"{error.strerror}.",
            hint="The address must be one of the node's own.",
        ) from error
    return listener


def _socket_for(host: str) -> tuple[socket.socket, str]:
    """Return a socket, and what it is to be bound to; of a name, the addresses of both families."""
    if _is_address(host):
        return socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET), host
    try:
        everywhere = socket.socket(socket.AF_INET6)
    except OSError:  # a kernel without IPv6
        return socket.socket(socket.AF_INET), ""
    everywhere.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    return everywhere, "::"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
