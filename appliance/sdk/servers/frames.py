"""Messages between an SDK job's pod and the programs of its user: a header as JSON, and bytes.

Each frame is the header's length (4 bytes), the payload's (8 bytes, both big-endian), the header
and the payload. The connection is a socket that the program has inherited.
"""

import json
import socket
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

MAX_COPY_BYTES = 64 << 30
"""Bytes of a copy at most: the memories of a whole wafer hold 40 GB."""

MAX_FILE_BYTES = (2 << 30) - 1024
"""Bytes of a file, or a part of one, at most: what one message of the SDK's client carries."""

_LENGTHS = struct.Struct(">IQ")
_MAX_HEADER_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 20


class Frame(NamedTuple):
    """One message."""

    # `Any`: values of a JSON object.
    header: Mapping[str, Any]
    payload: bytes


class FrameError(Exception):
    """The other end has sent something that is no frame, or more than was to be expected."""


# `Any`: as above.
def send(connection: socket.socket, header: Mapping[str, Any], payload: bytes = b"") -> None:
    """Send one message; raises `OSError` if the other end is gone."""
    text = json.dumps(header).encode()
    connection.sendall(_LENGTHS.pack(len(text), len(payload)) + text)
    if payload:
        connection.sendall(payload)


def receive(connection: socket.socket, *, max_payload_bytes: int) -> Frame | None:
    """Return the next message; None if the other end has hung up.

    Raises:
        FrameError: It is no frame, or its payload is larger than that.
    """
    lengths = _exactly(connection, _LENGTHS.size)
    if lengths is None:
        return None
    header_bytes, payload_bytes = _LENGTHS.unpack(lengths)
    if header_bytes > _MAX_HEADER_BYTES or payload_bytes > max_payload_bytes:
        raise FrameError(
            f"A message of {header_bytes} + {payload_bytes} bytes is too long; at most "
            f"{max_payload_bytes} are expected."
        )
    text, payload = _exactly(connection, header_bytes), _exactly(connection, payload_bytes)
    if text is None or payload is None:
        return None
    try:
        header = json.loads(bytes(text))
    except (ValueError, RecursionError) as error:
        raise FrameError(f"A message has no readable header: {error}.") from error
    if not isinstance(header, dict):
        raise FrameError("A message's header is no JSON object.")
    return Frame(header, bytes(payload))


def _exactly(connection: socket.socket, size: int) -> bytearray | None:
    """Return so many bytes; None if the connection ends before."""
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        try:
            count = connection.recv_into(view[at : at + _CHUNK_BYTES])
        except ConnectionError:
            return None
        if not count:
            return None
        at += count
    return data
