"""A target that a user names leads to a public address, looked up once, and tells users nothing."""

import datetime as dt
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network

import pytest

from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.notifications import Channel, Notice, Target
from appliance.core.errors import UserError
from appliance.management.access.certificates import issue
from appliance.management.background.notification_channels import (
    DeliveryError,
    Messengers,
    NotifyOptions,
    read_notify_options,
)
from appliance.management.background.target_addresses import (
    NotAllowedError,
    TargetAddresses,
)

LOOPBACK = (ip_network("127.0.0.0/8"),)
PUBLIC, PUBLIC_6 = "93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"
NOTICE = Notice(
    job="wsjob-a",
    type="execute",
    user="ada",
    session="job-operator",
    news=Phase.FAILED,
    message="",
    at="",
    url="",
)


def pinned(*found: str, allowed=(), own: str = "203.0.113.9") -> str:
    addresses = TargetAddresses(allowed, lambda *_: found, lambda host: host == own)
    return addresses.pin("hooks.example.com", 443)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",  # loopback, however it is written
        "127.8.9.10",
        "::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "0.0.0.0",
        "::",
        "10.0.0.1",  # private
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "100.100.100.200",
        "fd00::1",
        "fec0::1",
        "169.254.169.254",  # link-local, and what clouds tell of a machine
        "fe80::1%eth0",
        "fd00:ec2::254",
        "168.63.129.16",
        "192.0.0.192",
        "224.0.0.1",  # nobody's
        "ff02::1",
        "255.255.255.255",
        "240.0.0.1",
        "192.0.2.1",
        "192.88.99.1",
        "3fff::1",
        "2001:db8::1",
        "64:ff9b::7f00:1",  # led on to 127.0.0.1, 10.0.0.1 and 169.254.169.254
        "2002:0a00:0001::1",
        "::ffff:169.254.169.254",
        "2001:0:a9fe:a9fe::1",
    ],
)
def test_an_address_that_is_not_public_is_no_target(address: str) -> None:
    with pytest.raises(NotAllowedError):
        pinned(address)
    with pytest.raises(NotAllowedError):
        pinned(PUBLIC, address)  # one of a name's addresses is enough
    assert pinned(PUBLIC) == PUBLIC


@pytest.mark.parametrize("address", [PUBLIC, PUBLIC_6, "64:ff9b::5db8:d70e", "2002:5db8:d70e::1"])
def test_a_public_address_is_a_target_unless_it_is_one_of_this_machine(address: str) -> None:
    assert pinned(address) == address
    with pytest.raises(NotAllowedError):
        pinned(address, own=address)


def test_an_administrator_may_allow_a_network() -> None:
    assert pinned("10.1.2.3", allowed=[ip_network("10.1.0.0/16")]) == "10.1.2.3"
    assert pinned("::ffff:10.1.2.3", allowed=[ip_network("10.1.0.0/16")]) == "::ffff:a01:203"
    with pytest.raises(NotAllowedError):
        pinned("10.2.2.3", allowed=[ip_network("10.1.0.0/16")])


@pytest.mark.parametrize(
    "host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0", "localhost", "[::1]"[1:-1]]
)
def test_every_way_to_write_loopback_is_seen_as_such(host: str) -> None:
    with pytest.raises(NotAllowedError):
        TargetAddresses(()).pin(host, 80)
    allowed = [ip_network(each) for each in ("127.0.0.0/8", "::1", "0.0.0.0")]
    assert TargetAddresses(allowed).pin(host, 80)


class Hook(BaseHTTPRequestHandler):
    """Answers with the status that the path names, and keeps what it was asked."""

    def do_POST(self) -> None:
        self.server.body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, self.headers["host"]))
        self.send_response(int(self.path.strip("/")))
        self.send_header("location", "/200")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def send(address: str, addresses: TargetAddresses, **options) -> None:
    messengers = Messengers(NotifyOptions(**options), addresses)
    try:
        messengers.send(Target(channel=Channel.SLACK, address=address), NOTICE)
    finally:
        messengers.close()


def test_a_name_that_means_something_else_a_moment_later_leads_where_it_was_checked(hook) -> None:
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])
    addresses = TargetAddresses(LOOPBACK, lambda *_: next(answers))
    port = hook.server_port
    send(f"http://hooks.example.com:{port}/200", addresses)
    assert hook.asked == [("/200", f"hooks.example.com:{port}")]
    assert next(answers) == ["10.0.0.1"], "the name was looked up twice"


@pytest.mark.parametrize(
    ("path", "is_final"), [("302", True), ("404", True), ("401", True), ("503", False)]
)
def test_users_do_not_learn_what_a_target_answers_and_it_leads_nowhere_else(
    hook, path: str, is_final: bool
) -> None:
    with pytest.raises(DeliveryError) as failed:
        send(f"http://127.0.0.1:{hook.server_port}/{path}", TargetAddresses(LOOPBACK))
    assert str(failed.value) == "it did not take the notice"
    assert (failed.value.is_final, path in failed.value.detail) == (is_final, True)
    assert [asked for asked, _ in hook.asked] == [f"/{path}"]


def test_users_cannot_tell_a_port_that_is_closed_from_one_that_refuses() -> None:
    with pytest.raises(DeliveryError) as failed:
        send("http://127.0.0.1:1/", TargetAddresses(LOOPBACK))
    assert str(failed.value) == "it did not take the notice"


def test_a_target_that_is_not_allowed_is_not_connected_to(hook) -> None:
    address = f"http://127.0.0.1:{hook.server_port}/200"
    with pytest.raises(DeliveryError, match="an administrator may allow it") as failed:
        send(address, TargetAddresses(()))
    assert failed.value.is_final
    assert hook.asked == []
    of_the_appliance = (Target(channel=Channel.SLACK, address=address),)
    send(address, TargetAddresses(()), targets=of_the_appliance)
    assert [asked for asked, _ in hook.asked] == ["/200"]


def test_no_chat_obeys_what_a_job_says(hook) -> None:
    message = "<!channel> <https://evil.example|log in> \x1b]0;x\x07 \u202e &lt;"
    message += " @Channel (@here) a@everyone @ada x@y.z [log in](https://evil.example) ![][a]"
    target = Target(channel=Channel.SLACK, address=f"http://127.0.0.1:{hook.server_port}/200")
    messengers = Messengers(NotifyOptions(targets=(target,)))
    messengers.send(target, replace(NOTICE, message=message))
    messengers.close()
    assert hook.body["text"] == (
        "Execute job wsjob-a of ada has failed: &lt;!channel&gt; "
        "&lt;https://evil.example|log in&gt; \\x1b]0;x\\x07 \\u202e &amp;lt; "
        "@\u200bChannel (@\u200bhere) a@\u200beveryone @\u200bada x@y.z "
        "[log in]\u200b(https://evil.example) ![]\u200b[a]\n"
    )


@pytest.fixture
def site(hook, tmp_path) -> str:
    """Let the hook speak TLS with a certificate of the site's own authority; return its address."""
    issued = issue(("localhost",), dt.datetime.now(dt.UTC))
    for name in ("authority", "certificate", "key"):
        (tmp_path / name).write_bytes(getattr(issued, name))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate", tmp_path / "key")
    hook.socket = context.wrap_socket(hook.socket, server_side=True)
    return f"https://localhost:{hook.server_port}/200"


@pytest.mark.parametrize("is_users", [False, True], ids=["the appliance's", "a job's"])
@pytest.mark.parametrize("known_by", ["nobody", "authority_file", "the system"])
def test_a_target_of_the_site_is_known_by_the_site_s_authority(
    site, tmp_path, monkeypatch, known_by: str, is_users: bool
) -> None:
    targets = () if is_users else (Target(channel=Channel.SLACK, address=site),)
    authority = str(tmp_path / "authority")
    if known_by == "the system":
        monkeypatch.setenv("SSL_CERT_FILE", authority)
    file = authority if known_by == "authority_file" else ""
    addresses = TargetAddresses(LOOPBACK)
    if known_by == "nobody":
        with pytest.raises(DeliveryError):
            send(site, addresses, targets=targets)
        return
    send(site, addresses, targets=targets, authority_file=file)


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_an_authority_that_cannot_be_read_is_told_at_the_start(tmp_path, content) -> None:
    file = tmp_path / "notify.yaml"
    if content is not None:
        (tmp_path / "ca.pem").write_text(content)
    file.write_text(f"authority_file: {tmp_path}/ca.pem\n")
    with pytest.raises(UserError, match=r"authority_file .*/ca.pem of --notify cannot be read"):
        read_notify_options(file)
