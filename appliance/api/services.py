"""Gives routers management's services and the identity of the caller."""

from typing import Annotated

from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from appliance.api.forwarded import HEADER, passed_on
from appliance.management import services as management
from appliance.wire.connections.accepted import NOBODY, Accepted

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


def token_of(headers: Headers) -> str:
    """Return the token that a request carries, as a bearer or a login; empty if it carries none."""
    bearer = _bearer_of(headers)
    return login_of(headers) if bearer is None else bearer


def login_of(headers: Headers) -> str:
    """Return the login by which a request acts; empty if it acts by a bearer token, or by nothing.

    This is the one place that reads the cookie: whoever asks for the second proof of a login has to
    find the same login as whoever acts by it.
    """
    if _bearer_of(headers) is not None:
        return ""
    return cookie_parser("; ".join(headers.getlist("cookie"))).get(LOGIN_COOKIE, "")


def _bearer_of(headers: Headers) -> str | None:
    header = headers.get("authorization", "")
    return header[len(_BEARER) :].strip() if header.lower().startswith(_BEARER) else None


Services = Annotated[management.Services, Depends(services_of)]
"""What a route calls."""
