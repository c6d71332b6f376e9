"""REST and the dashboard, served beside management in its process."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import cast

import uvicorn
from starlette.types import ASGIApp

from appliance.api.app import create_app
from appliance.api.slow_senders import HEAD_SECONDS, MAX_CONNECTIONS, TimedHttp
from appliance.dashboard.pages import install_pages
from appliance.management.access.certificate_reload import CertificateReload
from appliance.management.access.certificates import Certificates
from appliance.management.server import Management
from appliance.wire.connections.accepted import Accepted, AcceptedConnections
from appliance.wire.connections.connection_shares import ConnectionShares, places_for_all
from appliance.wire.connections.forwarder import Destination, Forwarder

_GRACE_SECONDS = 3
"""How long requests may take to end when the appliance does."""


def let_in(listeners: Sequence[socket.socket]) -> None:
    """Listen before the address is announced, so that early callers wait instead of failing."""
    for listener in listeners:
        listener.listen()


def listen_for_front(management: Management) -> socket.socket | None:
    """Return a socket at which early callers of the clients' one port wait; None without TLS."""
    services = management.services
    if services.tls is None:
        return None
    path = services.options.rest_socket
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


def http_config(
    app: ASGIApp, tls: Certificates | None, see: Callable[[socket.socket], Accepted]
) -> uvicorn.Config:
    """Return how an application is served.

    No header says from where a request comes: uvicorn would believe those that come from loopback,
    the port that they name included, and every user of this machine can send them.

    Args:
        app: The application.
        tls: What it proves itself with.
        see: Finds out whose a connection is.
    """
    shares = ConnectionShares(min(MAX_CONNECTIONS, places_for_all() // 2))
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        http=partial(TimedHttp, see=see, shares=shares),  # type: ignore[arg-type]  # called like a class
        timeout_graceful_shutdown=_GRACE_SECONDS,
        proxy_headers=False,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )


async def serve_rest(
    management: Management,
    listeners: Sequence[socket.socket],
    front: socket.socket | None,
    is_ended: asyncio.Event,
) -> None:
    """Serve until the end is asked for.

    Args:
        management: What is served.
        listeners: Where people connect to.
        front: See `listen_for_front`.
        is_ended: Asks for the end.
    """
    services = management.services
    rest, tls = create_app(services, hosts=management.rest_hosts), services.tls
    install_pages(rest)
    config = http_config(rest, tls, services.accepted.of_socket)
    if tls is not None:
        config.load()
        assert config.ssl is not None
        CertificateReload(tls).follow(config.ssl)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]  # ours do it
    own = list(listeners) if front is None else []
    serving = asyncio.create_task(server._serve(sockets=own))
    async with _with_tls(server, listeners, front, services.accepted):
        await is_ended.wait()
        services.estimates.close()
        services.feed.close()  # or open streams would keep the server from ending
    server.should_exit = True
    await serving


@asynccontextmanager
async def _with_tls(
    server: uvicorn.Server,
    listeners: Sequence[socket.socket],
    front: socket.socket | None,
    connections: AcceptedConnections,
) -> AsyncIterator[None]:
    """Serve what the clients' one port and REST's own pass on; without TLS there is nothing to do.

    uvicorn knows nothing of a connection before its TLS handshake, so it is counted in front of it.
    """
    config = server.config
    if front is None:
        yield
        return
    path = Path(front.getsockname())
    make = cast("Callable[..., asyncio.Protocol]", config.http_protocol_class)
    connection = partial(make, config=config, server_state=server.server_state, app_state={})
    loop = asyncio.get_running_loop()
    inner = await loop.create_unix_server(
        connection, sock=front, ssl=config.ssl, ssl_handshake_timeout=HEAD_SECONDS
    )
    forwarder = Forwarder(lambda _, __: _to(path), connections)
    await forwarder.serve(listeners)
    try:
        yield
    finally:
        forwarder.refuse()
        inner.close()
        await asyncio.to_thread(path.unlink, missing_ok=True)


async def _to(path: Path) -> Destination:
    return Destination(address=str(path))
