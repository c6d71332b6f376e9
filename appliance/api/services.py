"""Gives routers management's services and the identity of the caller."""

from typing import Annotated

from fastapi import Depends, Request

from appliance.api.forwarded import HEADER, passed_on
from appliance.management import services as management
from appliance.management.access.accepted import NOBODY, Accepted

LOGIN_COOKIE = "wsc_login"

ACCEPTED = "accepted"
"""Where the connection of a request is found in its state."""

_BEARER = "bearer "


def services_of(request: Request) -> management.Services:
    """Return the services behind a request."""
    services: management.Services = request.app.state.services
    return services


def connection_of(request: Request) -> Accepted:
    """Return the connection that a request came by, as it was when it was accepted.

    Behind a trusted proxy it is the one that the proxy says it has passed on, which is nobody's.
    """
    found = request.scope.get("state", {}).get(ACCEPTED)
    if not isinstance(found, Accepted):
        return NOBODY
    proxies = services_of(request).trusted_proxies
    return passed_on(found, request.headers.getlist(HEADER), proxies) if proxies else found


def token_of(request: Request) -> str:
    """Return the token that a request carries; empty if it carries none."""
    header = request.headers.get("authorization", "")
    if header.lower().startswith(_BEARER):
        return header[len(_BEARER) :].strip()
    return request.cookies.get(LOGIN_COOKIE, "")


Services = Annotated[management.Services, Depends(services_of)]
"""What a route calls."""
