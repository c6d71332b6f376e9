"""First messages of real TLS clients, made in memory by Python's own TLS."""

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.wire.connections.client_hello import (
    MAX_HELLO_BYTES,
    ClientHello,
    NoHelloError,
    parse_client_hello,
)


def hello_bytes(name: str | None, protocols: list[str]) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if protocols:
        context.set_alpn_protocols(protocols)
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_name_and_protocols_are_read() -> None:
    sent = hello_bytes("Wsjob-A.example.org", ["h2"])
    hello = parse_client_hello(sent)
    assert hello is not None
    assert (hello.server_name, hello.protocols) == ("wsjob-a.example.org", ("h2",))
    assert hello.random == sent[11:43]  # RFC 8446: behind 5 + 4 bytes of headers and a version
    assert hello.speaks_grpc_only


def test_a_browser_also_speaks_the_older_protocol() -> None:
    hello = parse_client_hello(hello_bytes("dashboard.example.org", ["h2", "http/1.1"]))
    assert hello is not None
    assert not hello.speaks_grpc_only


def test_a_client_may_name_nothing() -> None:
    hello = parse_client_hello(hello_bytes(None, []))
    assert hello is not None
    assert hello == ClientHello(random=hello.random)
    assert not hello.speaks_grpc_only


@given(st.data())
def test_a_message_may_come_in_any_two_pieces_and_records(data: st.DataObject) -> None:
    whole = hello_bytes("a.example.org", ["h2"])
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert parse_client_hello(whole[:cut]) is None
    body = whole[5:]
    split = data.draw(st.integers(1, len(body) - 1))
    records = b"".join(
        b"\x16\x03\x01" + len(part).to_bytes(2) + part for part in (body[:split], body[split:])
    )
    assert parse_client_hello(records) == parse_client_hello(whole)


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n", b"PRI * HTTP/2.0", b"\x16\x05\x01", b"\x15"]
)
def test_what_is_no_tls_is_told_apart_at_once(data: bytes) -> None:
    with pytest.raises(NoHelloError):
        parse_client_hello(data)


def test_a_message_without_end_is_refused() -> None:
    record = b"\x16\x03\x01\x40\x00" + b"\x01\xff\xff\xff" + bytes(0x4000 - 4)
    more = b"\x16\x03\x01\x40\x00" + bytes(0x4000)
    with pytest.raises(NoHelloError, match="no whole first message"):
        parse_client_hello(record + more * (MAX_HELLO_BYTES // len(more) + 1))


@given(st.binary(max_size=200))
def test_noise_never_does_anything_else(noise: bytes) -> None:
    try:
        found = parse_client_hello(b"\x16\x03\x01" + len(noise).to_bytes(2) + noise)
    except NoHelloError:
        return
    assert found is None or isinstance(found, ClientHello)
