"""REST and the dashboard, served beside management in its process."""

import asyncio
import socket

import uvicorn
from starlette.types import ASGIApp

from appliance.api.app import create_app
from appliance.api.slow_senders import MAX_CONNECTIONS, TimedHttp
from appliance.dashboard.pages import install_pages
from appliance.management.access.certificate_reload import CertificateReload
from appliance.management.access.certificates import Certificates
from appliance.management.server import Management

_GRACE_SECONDS = 3
"""How long requests may take to end when the appliance does."""


def let_in(listener: socket.socket) -> None:
    """Listen before the address is announced, so that early callers wait instead of failing."""
    listener.listen()


def http_config(app: ASGIApp, tls: Certificates | None) -> uvicorn.Config:
    """Return how an application is served.

    No header says from where a request comes: uvicorn would believe those that come from loopback,
    the port that they name included, and every user of this machine can send them.
    """
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        http=TimedHttp,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        proxy_headers=False,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
    )


async def serve_rest(
    management: Management, listener: socket.socket, is_ended: asyncio.Event
) -> None:
    """Serve until the end is asked for."""
    services = management.services
    rest, tls = create_app(services, hosts=management.rest_hosts), services.tls
    install_pages(rest)
    config = http_config(rest, tls)
    if tls is not None:
        config.load()
        assert config.ssl is not None
        CertificateReload(tls).follow(config.ssl)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]  # ours do it
    serving = asyncio.create_task(server._serve(sockets=[listener]))
    await is_ended.wait()
    services.estimates.close()
    services.feed.close()  # or open streams would keep the server from ending
    server.should_exit = True
    await serving
