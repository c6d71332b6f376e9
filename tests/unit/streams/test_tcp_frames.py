"""Frames of a network stream, and the bytes of its handshake."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.errors import InternalError, StreamClosedError
from appliance.streams.handshake import VERSION, decode_message, encode_message
from appliance.streams.network.tcp_frames import (
    FRAME_BYTES,
    ChannelBrokenError,
    Frame,
    Kind,
    decode,
)

NUMBERS = st.integers(0, (1 << 64) - 1)


@given(kind=st.sampled_from(Kind), number=NUMBERS, amount=NUMBERS)
def test_a_frame_is_decoded_as_it_was_encoded(kind, number, amount):
    frame = Frame(kind=kind, number=number, amount=amount)
    data = frame.encode()
    assert len(data) == FRAME_BYTES
    assert decode(data) == frame


@given(position=st.integers(0, FRAME_BYTES - 1), change=st.integers(1, 255))
def test_a_frame_with_one_damaged_byte_is_refused(position, change):
    data = bytearray(Frame(kind=Kind.DATA, number=7, amount=4096).encode())
    data[position] ^= change
    with pytest.raises(ChannelBrokenError, match="damaged"):
        decode(bytes(data))


def test_a_frame_of_no_known_kind_is_refused_though_its_checksum_fits():
    unknown = Frame(kind=99, number=0, amount=0).encode()
    with pytest.raises(ChannelBrokenError, match="damaged"):
        decode(unknown)


def test_a_message_of_the_handshake_comes_back_with_all_its_fields():
    message = decode_message(encode_message({"stream": "broadcast", "reader": 2}), "chief-0")
    assert (message["stream"], message["reader"], message["version"]) == ("broadcast", 2, VERSION)


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b"", StreamClosedError, "chief-0 closed the connection during the handshake"),
        (b"GET / HTTP/1.1", InternalError, "does not speak the stream handshake"),
        (b"[]", InternalError, "does not speak the stream handshake"),
        (b'{"magic": "other"}', InternalError, "does not speak the stream handshake"),
        (
            encode_message({"version": VERSION + 1}),
            InternalError,
            f"this process version {VERSION}",
        ),
        (encode_message({"refusal": "no such stream"}), StreamClosedError, "no such stream"),
    ],
)
def test_what_is_no_handshake_names_the_peer_and_the_reason(content, error, words):
    with pytest.raises(error, match=words):
        decode_message(content, "chief-0")
