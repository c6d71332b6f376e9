"""A proxy's word about where a connection comes from counts with its proof, and for no other."""

from ipaddress import ip_network

import pytest

from appliance.management.front.proxy_preface import (
    NoPrefaceError,
    Preface,
    TrustedProxies,
    read_preface,
    write_preface,
)
from appliance.wire.connections.accepted import Accepted

KEY, RANDOM = bytes(range(32)), bytes(32)
BEHIND = Accepted(host="10.0.0.7", uid=0)
"""The proxy's own connection: of a process of root on this machine."""

# The example of the specification, section 2.2, with one field of another type behind it.
OTHERS = (
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x10"
    + bytes((198, 51, 100, 1, 203, 0, 113, 9))
    + b"\x30\x39\x01\xbb"
    + b"\x02\x00\x01x"
)
LOCAL = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00"


def read(data: bytes) -> Preface:
    preface = read_preface(data)
    assert preface is not None
    return preface


@pytest.mark.parametrize(
    ("host", "want"),
    [
        ("198.51.100.1", "198.51.100.1"),
        ("2001:db8::5", "2001:db8::5"),
        ("::ffff:198.51.100.1", "198.51.100.1"),
        ("127.0.0.1", "127.0.0.1"),
        ("", "10.0.0.7"),  # what is not known counts as the proxy
    ],
)
def test_who_is_behind_a_proxy_is_where_it_says_and_nobody(host: str, want: str) -> None:
    proxies = TrustedProxies(key=KEY)
    data = write_preface(host, RANDOM, KEY)
    preface = read(data + b"what the client sends")
    assert preface.num_bytes == len(data)
    assert proxies.sender(preface, RANDOM, BEHIND) == Accepted(host=want, is_local=False)


def test_a_connection_without_preface_is_whose_it_is() -> None:
    for begin in (b"\x16\x03\x01", b"GET / HTTP/1.1", b"\r\n\r\nQUIT"):
        assert read(begin) == Preface()
        assert TrustedProxies(key=KEY).sender(read(begin), RANDOM, BEHIND) is BEHIND


@pytest.mark.parametrize("data", [write_preface("198.51.100.1", RANDOM, KEY), OTHERS, LOCAL])
def test_a_preface_is_waited_for_whole(data: bytes) -> None:
    assert all(read_preface(data[:end]) is None for end in range(1, len(data)))
    assert read(data).num_bytes == len(data)


def test_a_proof_holds_for_its_address_its_connection_and_its_key() -> None:
    good = write_preface("198.51.100.1", RANDOM, KEY)
    forged = bytearray(good)
    forged[16] ^= 1
    refused = [
        (bytes(forged), RANDOM, KEY),
        (good, bytes(31) + b"x", KEY),
        (good, RANDOM, bytes(32)),
        (good, RANDOM, b""),
        (write_preface("198.51.100.1", RANDOM, b""), RANDOM, b""),  # without a key nobody has it
        (good[:14] + b"\x00\x0c" + good[16:28], RANDOM, KEY),  # the proof left out
        (OTHERS, RANDOM, KEY),
        (LOCAL, RANDOM, KEY),
    ]
    for data, random, key in refused:
        with pytest.raises(NoPrefaceError, match=r"without proof from 10\.0\.0\.7"):
            TrustedProxies(key=key).sender(read(data), random, BEHIND)


@pytest.mark.parametrize(("data", "host"), [(OTHERS, "198.51.100.1"), (LOCAL, "10.0.0.7")])
def test_other_proxies_are_believed_by_their_networks(data: bytes, host: str) -> None:
    networks = [ip_network("10.0.0.0/8")]
    near, far = TrustedProxies(key=KEY, networks=networks), Accepted(host="11.0.0.7")
    assert near.sender(read(data), RANDOM, BEHIND) == Accepted(host=host, is_local=False)
    with pytest.raises(NoPrefaceError):
        near.sender(read(data), RANDOM, far)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({12: 0x11}, "command 0x11"),  # version 1
        ({12: 0x22}, "command 0x22"),
        ({14: 0xFF}, "65,296 bytes"),
        ({15: 3}, "no room for its addresses"),
        ({30: 9}, "cut short"),
    ],
)
def test_what_begins_as_a_preface_and_is_none_is_refused(change: dict[int, int], says: str) -> None:
    data = bytearray(OTHERS)
    for at, value in change.items():
        data[at] = value
    with pytest.raises(NoPrefaceError, match=says):
        read_preface(bytes(data))
