"""Compresses answers for clients that accept compression.

Left as they are: streams (an event must leave at once), answers to anything but GET, and the two
paths whose answer carries the second proof of a login: from the length of a compressed answer an
attacker can guess a secret that it holds beside text of theirs.

Source: Gluck, Harris, Prado, BREACH: reviving the CRIME attack, 2013.
"""

import asyncio
import gzip

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LEAST_BYTES = 1024
_MOST_BYTES = 4 << 20
_THREAD_BYTES = 64 << 10
"""A longer body takes over a millisecond: a thread compresses it, and the event loop goes on."""
_LEVEL = 5
_KINDS = frozenset(
    {
        "application/json",
        "application/problem+json",
        "image/svg+xml",
        "text/css",
        "text/html",
        "text/javascript",
        "application/javascript",
        "text/plain",
    }
)
_WITH_SECRETS = frozenset({"/api/v1/me", "/api/v1/login"})


class Compression:
    """ASGI middleware; see the module.

    Args:
        app: Whose answers are compressed.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and its answer back."""
        if scope["type"] == "http" and _may_be_compressed(scope):
            send = _Compressor(send).send
        await self._app(scope, receive, send)


def _may_be_compressed(scope: Scope) -> bool:
    accepted = Headers(scope=scope).get("accept-encoding", "")
    codings = {each.strip() for each in accepted.split(",")}
    return "gzip" in codings and scope["method"] == "GET" and scope["path"] not in _WITH_SECRETS


class _Compressor:
    """Buffers an answer that is worth compressing until it is complete."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        """Take a part of the answer."""
        if message["type"] == "http.response.start" and _is_worth_it(message):
            self._start = message
            return
        if self._start is None:
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if not message.get("more_body", False):
            await self._finish(self._start)

    async def _finish(self, start: Message) -> None:
        if len(self._body) > _THREAD_BYTES:
            body = await asyncio.to_thread(_compress, self._body)
        else:
            body = _compress(self._body)
        headers = MutableHeaders(scope=start)
        headers["content-encoding"] = "gzip"
        headers["content-length"] = str(len(body))
        headers.add_vary_header("accept-encoding")
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body})


def _compress(body: bytearray) -> bytes:
    return gzip.compress(body, compresslevel=_LEVEL, mtime=0)


def _is_worth_it(start: Message) -> bool:
    """Return whether the answer is text of a known length; a stream has none."""
    headers = Headers(raw=start["headers"])
    kind = headers.get("content-type", "").partition(";")[0]
    length = int(headers.get("content-length", 0))
    return (
        start["status"] != 206
        and kind in _KINDS
        and "content-encoding" not in headers
        and _LEAST_BYTES <= length <= _MOST_BYTES
    )
