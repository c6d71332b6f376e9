"""Accepts the connections of a job's client, and cuts those of others before gRPC learns of them.

gRPC hands calls over in the order in which they come, whoever sends them, and refuses new ones
while a thousand wait. So another user of the machine, who knows nothing of the job but its port,
could open and reset calls faster than they are refused, and the client would wait behind them. Here
a connection of his is cut when it is accepted; what is let in is passed on to a Unix socket of the
pod's own, where the job's authority is asked for.

Of callers on other machines, in other containers and other pods the kernel knows nothing. They come
by TLS, whose first message names the authority: a connection that names another one is cut, too.
"""

import hmac
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path

from appliance.wire.connections.accepted import Accepted, AcceptedConnections, accepted
from appliance.wire.connections.client_hello import NoHelloError, parse_client_hello
from appliance.wire.connections.client_ports import bind_for_clients
from appliance.wire.connections.forwarder import Destination, Forwarder, RefusedError
from appliance.wire.connections.front_thread import FrontThread

_SEE = partial(accepted, counts_own=True)

REFUSAL = (
    "This pod answers the client of its own job alone. Connect by the address and the "
    "authority that the job's ingress names, as the user who submitted it."
)

_ANSWER = (
    "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\n"
    f"Content-Length: {len(REFUSAL)}\r\nConnection: close\r\n\r\n{REFUSAL}"
).encode()
"""To gRPC a server that speaks HTTP/1.1 is one that cannot be connected to, and it reports the
status. A `GOAWAY`, which could hold the sentence, makes it try again without end."""


def open_front(
    host: str,
    behind: Path,
    *,
    owner_uid: int,
    authority: str,
    is_encrypted: bool,
    see: Callable[[socket.socket], Accepted] = _SEE,
) -> tuple[FrontThread, int]:
    """Return a front that is not started yet, and its port.

    Args:
        host: Address to listen at.
        behind: Unix socket of the server of the job's client.
        owner_uid: User id of the job's owner; -1 if that is the user we run as.
        authority: By which the job's client calls.
        is_encrypted: Whether the server speaks TLS, so that no sentence of ours could be read, and
            clients name the authority before they are let in.
        see: Finds out whose a connection is.
    """
    listeners = bind_for_clients(host, 0, is_shared=True)

    def choose(head: bytes, origin: Accepted) -> Coroutine[None, None, Destination] | None:
        if not origin.may_reach(owner_uid):
            if not is_encrypted and not head:
                return None  # clients speak first: an answer before that would be lost
            raise RefusedError(b"" if is_encrypted else _ANSWER)
        if is_encrypted:
            named = _server_name(head)
            if named is None:
                return None
            if not hmac.compare_digest(named.encode(), authority.lower().encode()):
                raise RefusedError
        return _to(behind)

    forwarder = Forwarder(choose, AcceptedConnections(), see)
    front = FrontThread(forwarder, listeners, name="client-front")
    return front, int(listeners[0].getsockname()[1])


def _server_name(head: bytes) -> str | None:
    """Return what a TLS client calls; None if more has to come first; raises `RefusedError`."""
    try:
        hello = parse_client_hello(head)
    except NoHelloError as error:
        raise RefusedError from error
    return None if hello is None else hello.server_name


async def _to(behind: Path) -> Destination:
    return Destination(address=str(behind), is_for_job=True)
