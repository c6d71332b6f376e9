"""Reads a TLS client's first message, before encryption: the server name and the protocols.

Only two of its extensions are read: the server name (SNI), which for the cluster's client is the
authority that it calls, and the protocols (ALPN), which distinguish gRPC from a browser. Source:
RFC 8446, sections 4.1.2 and 5.1; RFC 6066, section 3; RFC 7301, section 3.1.
"""

from collections.abc import Iterator
from dataclasses import dataclass

MAX_HELLO_BYTES = 1 << 16
"""A first message longer than this is none of a client of ours."""

_HANDSHAKE_RECORD = 22
_CLIENT_HELLO = 1
_RECORD_HEADER_BYTES = 5
_SERVER_NAME, _ALPN = 0, 16


class NoHelloError(ValueError):
    """The first bytes are not a TLS ClientHello."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHello:
    """The first message of a TLS client.

    Attributes:
        server_name: The name that it wants to reach, in lower case; empty if it names none.
        protocols: What it is ready to speak inside, in its order, as in `h2`.
        random: 32 bytes that it has drawn for this connection.
    """

    server_name: str = ""
    protocols: tuple[str, ...] = ()
    random: bytes = b""

    @property
    def speaks_grpc_only(self) -> bool:
        """Whether it speaks HTTP/2 and nothing older, as gRPC does and no browser."""
        return "h2" in self.protocols and "http/1.1" not in self.protocols


def parse_client_hello(data: bytes) -> ClientHello | None:
    """Return the first message of a TLS connection; None if more of it has yet to come.

    Args:
        data: All that has come so far.

    Raises:
        NoHelloError: It is no TLS, or longer than `MAX_HELLO_BYTES`.
    """
    message = _handshake(data)
    if message is None:
        if len(data) > MAX_HELLO_BYTES:
            raise NoHelloError(f"{len(data):,} bytes hold no whole first message")
        return None
    try:
        return _parse_message(_Reader(message))
    except (IndexError, UnicodeDecodeError) as error:
        raise NoHelloError("the first message is cut short") from error


class _Reader:
    """Takes fields with a length before them off the front of some bytes."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, count: int) -> bytes:
        """Return the next bytes; raises `IndexError` if there are fewer."""
        end = self._at + count
        if end > len(self._data):
            raise IndexError(f"{count} bytes are wanted at {self._at} of {len(self._data)}")
        part, self._at = self._data[self._at : end], end
        return part

    def number(self, width: int) -> int:
        """Return the next unsigned number, given its size in bytes."""
        return int.from_bytes(self.take(width))

    def field(self, width: int) -> "_Reader":
        """Return the next length-prefixed field, given the size of the length in bytes."""
        return _Reader(self.take(self.number(width)))

    def rest(self) -> bytes:
        """Return all that is left."""
        return self.take(len(self._data) - self._at)


def _handshake(data: bytes) -> bytes | None:
    """Return the first handshake message, which may lie in several records."""
    fragments, at = b"", 0
    while len(data) > at:
        if data[at] != _HANDSHAKE_RECORD or data[at + 1 : at + 2] not in (b"", b"\x03"):
            raise NoHelloError(f"a record begins with byte {data[at]}")
        if len(data) < at + _RECORD_HEADER_BYTES:
            return None
        length = int.from_bytes(data[at + 3 : at + _RECORD_HEADER_BYTES])
        at += _RECORD_HEADER_BYTES
        fragments += data[at : at + length]
        at += length
        if fragments and fragments[0] != _CLIENT_HELLO:
            raise NoHelloError(f"the first message is of type {fragments[0]}")
        end = 4 + int.from_bytes(fragments[1:4])
        if len(fragments) >= max(4, end):
            return fragments[4:end]
    return None


def _parse_message(reader: _Reader) -> ClientHello:
    reader.take(2)  # version
    random = reader.take(32)
    reader.field(1)  # session
    reader.field(2)  # cipher suites
    reader.field(1)  # compression
    extensions = dict(_extensions(reader.field(2) if reader else _Reader(b"")))
    return ClientHello(
        server_name=_server_name(extensions.get(_SERVER_NAME)),
        protocols=_protocols(extensions.get(_ALPN)),
        random=random,
    )


def _extensions(reader: _Reader) -> Iterator[tuple[int, _Reader]]:
    while reader:
        kind = reader.number(2)
        yield kind, reader.field(2)


def _server_name(extension: _Reader | None) -> str:
    names = extension.field(2) if extension else None
    while names:
        is_host, name = names.number(1) == 0, names.field(2).rest()
        if is_host:
            return name.decode("ascii").lower()
    return ""


def _protocols(extension: _Reader | None) -> tuple[str, ...]:
    found: list[str] = []
    protocols = extension.field(2) if extension else None
    while protocols:
        found.append(protocols.field(1).rest().decode("ascii"))
    return tuple(found)
