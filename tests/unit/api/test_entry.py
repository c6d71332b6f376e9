"""Nothing of a body is read before its sender is let in, and no more than the rule says then."""

import asyncio
import json
import os

import pytest

from appliance.api import entry
from appliance.core.access_rules import rules
from appliance.core.access_rules.model import MIB
from appliance.core.cluster.records import User
from appliance.wire.connections.accepted import Accepted
from tests.support.rest import described_app


class Sender:
    """Sends a body in parts, and knows how many were asked for."""

    def __init__(self, parts, *, is_whole=True, stalls=False) -> None:
        self.parts, self.is_whole, self.stalls, self.num_read = parts, is_whole, stalls, 0

    async def receive(self):
        if self.num_read == len(self.parts):
            if self.stalls:
                await asyncio.Event().wait()
            return {"type": "http.disconnect"}
        part = self.parts[self.num_read]
        self.num_read += 1
        more = not self.is_whole or self.num_read < len(self.parts)
        return {"type": "http.request", "body": part, "more_body": more}


def call(app, method, path, sender, headers=()):
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"here"), *headers],
        "client": ("here", 1),
        "scheme": "http",
        "server": ("here", 80),
        "http_version": "1.1",
    }
    sent = []

    async def send(message):
        sent.append(message)

    async def run():
        async with asyncio.timeout(20):
            await app(scope, sender.receive, send)

    asyncio.run(run())
    return sent[0]["status"], json.loads(b"".join(part.get("body", b"") for part in sent[1:]))


JSON = (b"content-type", b"application/json")


def test_a_body_is_not_read_before_its_sender_is_known(tmp_path):
    app = described_app(tmp_path, needs_token=True)
    for method, path in (("POST", "/users"), ("POST", "/estimate"), ("PUT", "/cluster/file")):
        sender = Sender([b"x" * 1000] * 1000)
        status, _ = call(app, method, f"/api/v1{path}", sender, [JSON])
        assert (status, sender.num_read) == (401, 0)


def test_a_body_without_a_length_is_read_up_to_its_limit(tmp_path):
    sender = Sender([b"x" * (MIB // 4)] * 400)
    status, problem = call(described_app(tmp_path), "POST", "/api/v1/users", sender, [JSON])
    assert (status, sender.num_read) == (413, 5)
    assert "1,048,576 bytes" in problem["detail"]


def test_a_body_that_says_that_it_is_too_long_is_not_read(tmp_path):
    sender = Sender([b"x"])
    length = (b"content-length", str(17 * MIB).encode())
    status, _ = call(described_app(tmp_path), "POST", "/api/v1/estimate", sender, [JSON, length])
    assert (status, sender.num_read) == (413, 0)


def test_a_body_that_stops_coming_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(entry, "BODY_SECONDS", 0.05)
    monkeypatch.setattr(entry, "LEAST_BYTES_PER_SECOND", 1 << 40)
    sender = Sender([b"{"], is_whole=False, stalls=True)
    status, problem = call(described_app(tmp_path), "POST", "/api/v1/users", sender, [JSON])
    assert status == 408
    assert "1 bytes have come" in problem["detail"]


def test_a_route_that_forgets_to_ask_fails(tmp_path):
    gate = described_app(tmp_path).state.services.gate
    services = described_app(tmp_path).state.services

    entered = gate.enter(
        rules.NEW_USER, User(), "", connection=Accepted(host="here", uid=os.getuid())
    )
    asked = entry.Entry(gate, services, entered, None)
    with pytest.raises(entry.InternalError, match="without asking"):
        asked.check_decided()
    with pytest.raises(entry.InternalError, match="does not list"):
        asked.allow(entry.Target(kind="user"), entry.Action.READ)
    asked.allow(entry.Target(kind="user"))
    asked.check_decided()
