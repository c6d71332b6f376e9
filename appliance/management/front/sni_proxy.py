"""The one port that clients need: it passes TLS on to management, to REST or to a coordinator.

The client reaches a job's coordinator by the job's own authority, which it also sends as the server
name of TLS. So the first message of a connection, which is not encrypted, names its destination,
and all bytes are passed on unchanged: nothing is decrypted here, and each connection of a client is
one connection to the service behind, which identifies clients by it. Only a client that names the
whole authority of a job reaches its coordinator and, on this machine, only the job's owner.

Bytes are copied in a thread of their own, so that a client that sends its weights does not delay
the calls of others.
"""

import asyncio
import hmac
import logging
import socket
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from appliance.core.addresses import split_address
from appliance.core.cluster.records import CoordinatorAddress
from appliance.core.errors import ClusterError
from appliance.core.ids import AUTHORITY_SUFFIX, JobId, Role
from appliance.management.front.proxy_preface import (
    NoPrefaceError,
    Preface,
    TrustedProxies,
    read_preface,
    write_preface,
)
from appliance.wire.connections.accepted import Accepted, AcceptedConnections, accepted
from appliance.wire.connections.client_hello import ClientHello, NoHelloError, parse_client_hello
from appliance.wire.connections.client_ports import PortTakenError, bind_for_clients
from appliance.wire.connections.forwarder import Address, Destination, Forwarder, RefusedError
from appliance.wire.connections.front_thread import FrontThread

logger = logging.getLogger(__name__)

_NUM_FINDERS = 4

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """Where connections are passed on to.

    Attributes:
        management: Returns where the gRPC services of management are for whose connection it is.
        rest: The REST shell; None leaves browsers to their own port.
        find_coordinator: Returns where a job's coordinator is and who may reach it; None if it has
            none yet or any more; called in threads.
        find_key: In a process of its own: returns what management believes prefaces by, empty for
            one that reads none; called in threads. None within management.
    """

    management: Callable[[Accepted], Address]
    rest: Address | None
    find_coordinator: Callable[[JobId], CoordinatorAddress | None]
    find_key: Callable[[], bytes] | None = None


class SniProxy:
    """Listens for clients and passes their connections on.

    Args:
        listeners: The sockets that clients connect to, all alike.
        backends: Where to.
        connections: Are told whose the connections are, for services of this process.
        see: Finds that out.
        proxies: Who may say from where connections come that they pass on; None for nobody.
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        backends: Backends,
        connections: AcceptedConnections | None = None,
        see: Callable[[socket.socket], Accepted] = accepted,
        proxies: TrustedProxies | None = None,
    ) -> None:
        self._backends = backends
        self._proxies = proxies or TrustedProxies()
        self._forwarder = Forwarder(self._choose, connections or AcceptedConnections(), see)
        self._finders = ThreadPoolExecutor(_NUM_FINDERS, thread_name_prefix="find-coordinator")
        self._front = FrontThread(self._forwarder, listeners, name="sni-proxy")

    def start(self) -> None:
        """Begin to accept."""
        self._front.start()

    def close(self, *, drain_seconds: float = 0.0) -> None:
        """Refuse new connections and cut the others; see `FrontThread.close`."""
        self._front.close(drain_seconds=drain_seconds)
        self._finders.shutdown(wait=False, cancel_futures=True)

    def _choose(
        self, head: bytes, connection: Accepted
    ) -> Coroutine[None, None, Destination] | None:
        try:
            preface = read_preface(head)
            if preface is None:
                return None
            hello = parse_client_hello(head[preface.num_bytes :])
            if hello is None:
                return None
            sender = self._proxies.sender(preface, hello.random, connection)
        except NoPrefaceError as error:
            logger.info("No proxy that is trusted", extra={"reason": str(error)})
            raise RefusedError from error
        except NoHelloError as error:
            raise RefusedError(_PLAIN_ANSWER) from error
        return self._passed_on(preface, hello, sender)

    async def _passed_on(
        self, preface: Preface, hello: ClientHello, sender: Accepted
    ) -> Destination:
        found = await self._route(hello, sender)
        return replace(found, sender=sender, num_dropped=preface.num_bytes)

    async def _route(self, hello: ClientHello, connection: Accepted) -> Destination:
        if _is_for_job(hello):
            return Destination(address=await self._coordinator(hello, connection), is_for_job=True)
        is_grpc = hello.server_name.endswith(AUTHORITY_SUFFIX) or hello.speaks_grpc_only
        address = self._backends.management(connection) if is_grpc else self._backends.rest
        if address is None:
            logger.info("Nobody of that name", extra={"named": hello.server_name})
            raise RefusedError(_UNRECOGNIZED_NAME)
        return Destination(address=address, preface=await self._preface(hello, connection))

    async def _preface(self, hello: ClientHello, connection: Accepted) -> bytes:
        if self._backends.find_key is None:
            return b""
        try:
            key = await asyncio.get_running_loop().run_in_executor(
                self._finders, self._backends.find_key
            )
        except LookupError as error:
            raise RefusedError from error
        return write_preface(connection.host, hello.random, key) if key else b""

    async def _coordinator(self, hello: ClientHello, connection: Accepted) -> Address:
        job = JobId(hello.server_name.partition(_COORDINATOR)[0])
        # Not in the loop's own threads, which look names up for all connections.
        found = await asyncio.get_running_loop().run_in_executor(
            self._finders, self._backends.find_coordinator, job
        )
        if found is None or not found.address or not _admits(found, hello, connection):
            logger.info("No such job, or not for this caller", extra={"named": job})
            raise RefusedError
        return split_address(found.address)


def _is_for_job(hello: ClientHello) -> bool:
    name, _, rest = hello.server_name.partition(".")
    return _COORDINATOR in name and rest == AUTHORITY_SUFFIX


def _admits(found: CoordinatorAddress, hello: ClientHello, connection: Accepted) -> bool:
    """Whether a connection knows the authority of a job, and may come from where it comes from."""
    is_known = hmac.compare_digest(hello.server_name.encode(), found.authority.encode())
    return is_known and connection.may_reach(found.owner_uid)


def listen(host: str, port: int, *, option: str) -> list[socket.socket]:
    """Return sockets bound for clients, all at one port; see `client_ports`.

    Args:
        host: Address to bind to.
        port: Port to bind to; 0 for any free one.
        option: Command-line option that chooses the port, for the error.

    Raises:
        ClusterError: The port is taken.
    """
    try:
        return bind_for_clients(host, port)
    except PortTakenError as error:
        also = "" if error.host == host else f", which is localhost as {host} is,"
        raise ClusterError(
            f"Port {port} at {error.host}{also} cannot be used: {error.strerror}.",
            hint=f"Choose another one with {option}.",
        ) from error
