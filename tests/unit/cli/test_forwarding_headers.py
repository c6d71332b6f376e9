"""No header says from where a request comes."""

import asyncio

import pytest
from uvicorn.server import ServerState

from appliance.api.services import ACCEPTED
from appliance.cli.rest_shell import http_config
from appliance.wire.connections.accepted import Accepted

HERE, THERE, ROOTS = ("127.0.0.1", 9001), ("127.0.0.1", 40000), "127.0.0.1:50000"
WHOSE = Accepted(host="127.0.0.1", uid=1000)


class Ends(asyncio.Transport):
    """A connection of loopback that nothing is read from."""

    def get_extra_info(self, name, default=None):
        return {"peername": THERE, "sockname": HERE}.get(name, default)

    def write(self, data):
        pass

    def is_closing(self):
        return False

    def close(self):
        pass


def seen(head: bytes) -> list[dict]:
    """Return what an application sees of the requests that a connection carries."""
    scopes = []

    async def app(scope, receive, send):
        scopes.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def run():
        config = http_config(app, None, lambda _: WHOSE)
        config.load()
        connection = config.http_protocol_class(config, ServerState(), {})
        connection.connection_made(Ends())
        connection.data_received(head)
        await asyncio.gather(*connection.tasks)
        connection.connection_lost(None)

    asyncio.run(run())
    return scopes


@pytest.mark.parametrize(
    "header",
    [
        f"X-Forwarded-For: {ROOTS}",
        f"X-Forwarded-For: 10.0.0.7, {ROOTS}",
        f"X-Forwarded-For: {ROOTS}\r\nX-Forwarded-For: 127.0.0.1",
        "X-Forwarded-For: [::1]:50000",
        "X-Forwarded-Proto: https",
        f"Forwarded: for={ROOTS};proto=https",
        f"X-Real-IP: {ROOTS}",
        f"X-Client-IP: {ROOTS}",
        f"True-Client-IP: {ROOTS}",
        "X-Forwarded-Host: root\r\nX-Forwarded-Port: 50000",
    ],
)
def test_a_header_changes_neither_a_connections_end_nor_its_scheme(header: str) -> None:
    request = f"GET / HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n".encode()
    (scope,) = seen(request)
    assert (scope["client"], scope["server"], scope["scheme"]) == (THERE, HERE, "http")
    assert scope["state"][ACCEPTED] is WHOSE


@pytest.mark.parametrize(
    "preface",
    [
        b"PROXY TCP4 127.0.0.1 127.0.0.1 50000 9001\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x7f\0\0\x01\x7f\0\0\x01\xc3\x50\x23\x29",
    ],
)
def test_a_connection_that_begins_as_a_proxys_carries_no_request(preface: bytes) -> None:
    assert seen(preface + b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") == []
