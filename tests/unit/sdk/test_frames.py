"""Messages between a pod and the programs of its user."""

import socket
import struct

import pytest

from appliance.sdk.servers import frames


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_message_arrives_with_its_bytes(ends):
    ours, theirs = ends
    frames.send(ours, {"op": "read", "n": 3}, b"abc")
    frames.send(ours, {})
    assert frames.receive(theirs, max_payload_bytes=3) == ({"op": "read", "n": 3}, b"abc")
    assert frames.receive(theirs, max_payload_bytes=3) == ({}, b"")


def test_the_end_of_the_connection_is_no_message(ends):
    ours, theirs = ends
    ours.sendall(b"\0\0")
    ours.close()
    assert frames.receive(theirs, max_payload_bytes=9) is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack(">IQ", 2, 10), "too long"),
        (struct.pack(">IQ", 1 << 30, 0), "too long"),
        (struct.pack(">IQ", 2, 0) + b"no", "no readable header"),
        (struct.pack(">IQ", 2, 0) + b"[]", "no JSON object"),
    ],
)
def test_what_is_no_message_is_refused(ends, data, message):
    ours, theirs = ends
    ours.sendall(data)
    with pytest.raises(frames.FrameError, match=message):
        frames.receive(theirs, max_payload_bytes=9)
