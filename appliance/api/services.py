"""Gives routers management's services and the identity of the caller."""

from typing import Annotated

from fastapi import Depends, Request

from appliance.management import services as management
from appliance.wire.connection_owner import Endpoint

LOGIN_COOKIE = "wsc_login"

_BEARER = "bearer "


def services_of(request: Request) -> management.Services:
    """Return the services behind a request."""
    services: management.Services = request.app.state.services
    return services


def peer_uid_of(request: Request) -> int | None:
    """Return the user id of a connection's other end; None if the kernel does not know it."""
    client, server = request.client, request.scope.get("server")
    if client is None or server is None or server[1] is None:
        return None
    here = Endpoint(str(server[0]), int(server[1]))
    return services_of(request).peers.uid_of(Endpoint(client.host, client.port), here)


def token_of(request: Request) -> str:
    """Return the token that a request carries; empty if it carries none."""
    header = request.headers.get("authorization", "")
    if header.lower().startswith(_BEARER):
        return header[len(_BEARER) :].strip()
    return request.cookies.get(LOGIN_COOKIE, "")


Services = Annotated[management.Services, Depends(services_of)]
"""What a route calls."""
