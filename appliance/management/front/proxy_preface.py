"""Says, before a connection's first byte, from where it comes: version 2 of the PROXY protocol.

A proxy of ours adds a proof: a keyed hash of what it says and of the random bytes of the client's
first message. So what it says is worth nothing for any other connection. Source: HAProxy
Technologies, The PROXY protocol, versions 1 & 2, section 2.2.
"""

import hashlib
import hmac
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from appliance.wire.connections.accepted import Accepted
from appliance.wire.networks import Network, address_of, is_of

_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_HEADER = struct.Struct("!12sBBH")
_LOCAL, _PROXIED = 0x20, 0x21
_UNSPECIFIED, _TCP4, _TCP6 = 0x00, 0x11, 0x21
_ADDRESS_BYTES = {_TCP4: 4, _TCP6: 16}
_MAX_BYTES = 4096
"""Of all that follows the header; proxies add a few hundred."""
_PROOF = 0xE0
"""Of the types that the protocol leaves to applications."""
_FIELD = struct.Struct("!BH")


class NoPrefaceError(ValueError):
    """What begins as a preface is none, or is of somebody who is not believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preface:
    """What a proxy says of a connection.

    Attributes:
        host: Address that the client called from; empty if the proxy does not say.
        signed: What its proof covers, beside the random bytes.
        proof: Shows that it comes from a proxy that has the key; empty without.
        num_bytes: How long it is; 0 if the connection begins without.
    """

    host: str = ""
    signed: bytes = b""
    proof: bytes = b""
    num_bytes: int = 0


def write_preface(host: str, random: bytes, key: bytes) -> bytes:
    """Return what a proxy sends first.

    Args:
        host: Address that the client called from; empty if it is not known.
        random: Random bytes of the client's first message.
        key: What proxies and management share.
    """
    family, addresses = _UNSPECIFIED, b""
    if (address := address_of(host)) is not None:
        family = _TCP4 if address.version == 4 else _TCP6
        addresses = address.packed + bytes(_ADDRESS_BYTES[family] + 4)  # of ours nothing is said
    length = len(addresses) + _FIELD.size + hashlib.sha256().digest_size
    signed = _HEADER.pack(_SIGNATURE, _PROXIED, family, length) + addresses
    proof = _prove(signed, random, key)
    return signed + _FIELD.pack(_PROOF, len(proof)) + proof


def read_preface(data: bytes) -> Preface | None:
    """Return what stands before a connection's first message; None if more of it has yet to come.

    Args:
        data: All that has come so far.

    Raises:
        NoPrefaceError: It begins as one and is none.
    """
    if data[: len(_SIGNATURE)] != _SIGNATURE[: len(data)]:
        return Preface()
    if len(data) < _HEADER.size:
        return None
    _, command, family, length = _HEADER.unpack_from(data)
    if command not in (_LOCAL, _PROXIED) or length > _MAX_BYTES:
        raise NoPrefaceError(f"a preface of command {command:#x} and {length:,} bytes")
    end = _HEADER.size + length
    if len(data) < end:
        return None
    width = _ADDRESS_BYTES.get(family, 0)
    begin_of_fields = _HEADER.size + (2 * width + 4 if width else 0)
    if begin_of_fields > end:
        raise NoPrefaceError(f"a preface of {length:,} bytes has no room for its addresses")
    address = data[_HEADER.size : _HEADER.size + width] if command == _PROXIED else b""
    return Preface(
        host=str(ip_address(address)) if address else "",
        signed=data[:begin_of_fields],
        proof=_field(data[begin_of_fields:end], _PROOF),
        num_bytes=end,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedProxies:
    """Whose prefaces are believed.

    Attributes:
        key: What proxies of ours prove themselves with; empty believes none.
        networks: Those of other proxies, which prove nothing.
    """

    key: bytes = b""
    networks: Sequence[Network] = ()

    def sender(self, preface: Preface, random: bytes, connection: Accepted) -> Accepted:
        """Return the connection of the client that is behind a proxy, if one is.

        Whose it is, no proxy says.

        Args:
            preface: What stands before its first message.
            random: Random bytes of that message.
            connection: The connection as it was accepted.

        Raises:
            NoPrefaceError: Whoever sends it is not believed.
        """
        if not preface.num_bytes:
            return connection
        is_proved = bool(self.key) and hmac.compare_digest(
            preface.proof, _prove(preface.signed, random, self.key)
        )
        if not is_proved and not is_of(address_of(connection.host), self.networks):
            raise NoPrefaceError(f"a preface without proof from {connection.host or 'somewhere'}")
        return Accepted(host=preface.host or connection.host, is_local=False)


def _prove(signed: bytes, random: bytes, key: bytes) -> bytes:
    return hmac.new(key, signed + random, hashlib.sha256).digest()


def _field(data: bytes, wanted: int) -> bytes:
    """Return the first field of a type; raises `NoPrefaceError` if one is cut short."""
    at = 0
    while at < len(data):
        if len(data) < at + _FIELD.size:
            raise NoPrefaceError("a field of a preface is cut short")
        kind, length = _FIELD.unpack_from(data, at)
        at += _FIELD.size
        if len(data) < at + length:
            raise NoPrefaceError("a field of a preface is cut short")
        if kind == wanted:
            return data[at : at + length]
        at += length
    return b""
