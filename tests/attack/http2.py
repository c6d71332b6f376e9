"""HTTP/2 as no client of gRPC speaks it: by frames."""

import contextlib
import socket
from collections.abc import Mapping

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY, CONTINUATION = 0, 1, 3, 4, 7, 9
END_STREAM, END_HEADERS = 1, 4
_HEAD_BYTES = 9
BEGINNING = _PREFACE + bytes([0, 0, 0, SETTINGS, 0, 0, 0, 0, 0])
"""The first bytes of a client."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big")
    return head + payload


def fields(headers: Mapping[str, str]) -> bytes:
    """Return headers as HPACK has them, each literally."""
    return b"".join(b"\x00" + _text(name) + _text(value) for name, value in headers.items())


def _text(text: str) -> bytes:
    assert len(text) < 127, "a longer text needs more than one byte of length"
    return bytes([len(text)]) + text.encode()


def post(path: str, message: bytes, headers: Mapping[str, str]) -> bytes:
    """Return a whole POST with a message of gRPC, the first thing on a connection."""
    pseudo = {":method": "POST", ":scheme": "https", ":path": path, ":authority": "localhost"}
    body = b"\0" + len(message).to_bytes(4, "big") + message
    return (
        BEGINNING
        + frame(HEADERS, END_HEADERS, 1, fields({**pseudo, **headers}))
        + frame(DATA, END_STREAM, 1, body)
    )


def answer_kind(connection: socket.socket) -> int | None:
    """Return the first frame about a stream, or the end of all; None if the connection ends."""
    file = connection.makefile("rb")
    with contextlib.suppress(OSError):
        while len(head := file.read(_HEAD_BYTES)) == _HEAD_BYTES:
            kind, stream = head[3], int.from_bytes(head[5:9], "big")
            file.read(int.from_bytes(head[:3], "big"))
            if stream or kind == GOAWAY:
                return kind
    return None
