"""The first exchange on a stream's connection: names, identity of the stream, and its memory.

The connecting side sends one JSON object, the serving side answers with one and passes the
descriptors of the memory along (SCM_RIGHTS). Both name themselves, so that a later error can say
who went away.
"""

import array
import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from appliance.core.clock import Clock
from appliance.core.errors import InternalError, StreamClosedError, WscError
from appliance.streams.doorbell import connect

VERSION = 1
_MAGIC = "wsc-stream"
_MAX_BYTES = 16_384
_MAX_DESCRIPTORS = 4

# A JSON object; its fields are checked where they are used.
Message = Mapping[str, Any]


def own_label() -> str:
    """Return how this process names itself to a peer when nothing better is known."""
    return f"process {os.getpid()}"


def encode_message(message: Message) -> bytes:
    """Return the bytes of a message of the handshake."""
    return json.dumps({"magic": _MAGIC, "version": VERSION, **message}).encode()


def decode_message(content: bytes, peer: str) -> Message:
    """Return the message that `encode_message` made bytes of.

    Args:
        content: The bytes; none if the peer closed the connection.
        peer: Who sent it, for error messages.

    Raises:
        StreamClosedError: The peer closed the connection or said why it refuses.
        InternalError: The peer speaks something else or another version.
    """
    if not content:
        raise StreamClosedError(f"{peer} closed the connection during the handshake.")
    try:
        message = json.loads(content)
    except ValueError as error:
        raise InternalError(f"{peer} does not speak the stream handshake.") from error
    if not isinstance(message, dict) or message.get("magic") != _MAGIC:
        raise InternalError(f"{peer} does not speak the stream handshake.")
    if message.get("version") != VERSION:
        raise InternalError(
            f"{peer} speaks version {message.get('version')} of the stream handshake, "
            f"this process version {VERSION}.",
            hint="All pods of a job must come from the same release.",
        )
    if "refusal" in message:
        raise StreamClosedError(str(message["refusal"]))
    return message


def send_message(
    connection: socket.socket, message: Message, *, descriptors: Sequence[int] = ()
) -> None:
    """Send one message of the handshake, with descriptors that the peer shall own copies of."""
    content = encode_message(message)
    rights = (
        [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        if descriptors
        else []
    )
    connection.sendmsg([content], rights, socket.MSG_NOSIGNAL)


def receive_message(connection: socket.socket, *, peer: str) -> tuple[Message, list[int]]:
    """Return one message of the handshake and the descriptors that came with it.

    Args:
        connection: Where to read; its timeout applies.
        peer: Who is expected there, for error messages.

    Raises:
        StreamClosedError: The peer closed the connection or said why it refuses.
        InternalError: The peer speaks something else or another version.
    """
    size = socket.CMSG_SPACE(_MAX_DESCRIPTORS * array.array("i").itemsize)
    content, ancillary, _, _ = connection.recvmsg(_MAX_BYTES, size, socket.MSG_CMSG_CLOEXEC)
    descriptors = _descriptors(ancillary)
    try:
        return decode_message(content, peer), descriptors
    except Exception:
        close_all(descriptors)
        raise


def introduce(
    address: str, hello: Message, *, what: str, timeout_seconds: float, clock: Clock
) -> tuple[socket.socket, Message, list[int]]:
    """Connect to a server of streams and go through the handshake.

    Args:
        address: Path of the server's socket.
        hello: What to say.
        what: What is served there, for error messages.
        timeout_seconds: How long to wait for the server to listen, and then to answer.

    Returns:
        The connection, the server's answer and the descriptors that came with it.

    Raises:
        StreamClosedError: Nobody served it in time, or the server refused.
    """
    connection = connect(address, what=what, timeout_seconds=timeout_seconds, clock=clock)
    try:
        connection.settimeout(timeout_seconds)
        send_message(connection, hello)
        answer, descriptors = receive_message(connection, peer=f"The server of {what}")
        connection.settimeout(None)
    except (TimeoutError, ConnectionError) as error:
        connection.close()
        raise StreamClosedError(
            f"The server of {what} at {address} did not answer within {timeout_seconds:g} s."
        ) from error
    except WscError:
        connection.close()
        raise
    return connection, answer, descriptors


def close_all(descriptors: Sequence[int]) -> None:
    """Close descriptors that are not wanted."""
    for descriptor in descriptors:
        os.close(descriptor)


def _descriptors(ancillary: Sequence[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return list(found)
