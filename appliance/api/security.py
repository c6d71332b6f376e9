"""Browser protection for every route: origin, CSRF and host checks, and security headers.

A page of another site must not act in the name of a person who is logged in here, nor of the
operator on whose loopback we listen without tokens. So requests that change something are refused
when a browser says they come from elsewhere, a login's requests must carry a second proof that only
our own pages can read, and on loopback the name asked for must be a name of loopback (a page of
another site can make its own name point to 127.0.0.1).
"""

import json
from collections.abc import Iterable
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from appliance.api.services import login_of
from appliance.management.access.tokens import Tokens

CSRF_HEADER = "x-csrf-token"

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OUTSIDE_LOGIN = frozenset({"/api/v1/login"})
"""Paths that prove themselves otherwise, by the token in their body."""

_CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "content-security-policy": _CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_YEAR_SECONDS = 31_536_000


class BrowserSecurity:
    """ASGI middleware; see the module.

    Args:
        app: What is protected.
        tokens: Knows the second proof of a login.
        hosts: Names that may be asked for; none allows every name.
        has_tls: Whether browsers should insist on TLS from now on.
    """

    def __init__(
        self, app: ASGIApp, *, tokens: Tokens, hosts: Iterable[str] = (), has_tls: bool = False
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._hosts = frozenset(hosts)
        self._headers = dict(_HEADERS)
        if has_tls:
            self._headers["strict-transport-security"] = f"max-age={_YEAR_SECONDS}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refused = self._refusal(scope)
        if refused is not None:
            await _refuse(*refused, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> tuple[HTTPStatus, str] | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._hosts and _name_of(host) not in self._hosts:
            return (
                HTTPStatus.MISDIRECTED_REQUEST,
                f"This appliance is not called {host!r}; without tokens it answers to "
                f"{', '.join(sorted(self._hosts))} alone.",
            )
        if scope["method"] in _SAFE_METHODS:
            return None
        return self._forgery(scope, headers, host)

    def _forgery(self, scope: Scope, headers: Headers, host: str) -> tuple[HTTPStatus, str] | None:
        origin = headers.get("origin")
        if origin is not None and _place_of(origin) != host:
            return HTTPStatus.FORBIDDEN, f"The request comes from a page of {origin!r}."
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return HTTPStatus.FORBIDDEN, "The request comes from a page of another site."
        login = login_of(headers)
        if not login or scope["path"] in _OUTSIDE_LOGIN:
            return None
        if not self._tokens.is_proof(login, headers.get(CSRF_HEADER, "")):
            return (
                HTTPStatus.FORBIDDEN,
                f"The request lacks the header {CSRF_HEADER} of its login; `GET /api/v1/me` tells "
                "it.",
            )
        return None


async def _refuse(status: HTTPStatus, detail: str, send: Send) -> None:
    problem = {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": detail,
    }
    body = json.dumps(problem).encode()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status.value, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _place_of(origin: str) -> str | None:
    """Return the host and port of an origin; None if it is none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _name_of(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.partition(":")[0].lower()
