"""The handshake of a network connection: both ends prove that they belong to the job.

The server sends a challenge; the client answers with what it wants, a challenge of its own and a
proof over all of it; the server's answer carries the server's proof. A proof is an HMAC-SHA256 with
the job's key, so the key never travels. With an identity the connection is TLS 1.3 before that, and
both ends must present the certificate that both hold.
"""

import hashlib
import hmac
import json
import secrets
import socket
import ssl
import struct
from collections.abc import Callable

from appliance.core.errors import InternalError, StreamClosedError
from appliance.streams.handshake import Message, decode_message, encode_message
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.tcp_frames import ChannelBrokenError


class NotServedError(ChannelBrokenError):
    """The server does not serve what was asked for, at this moment."""


_LENGTH = struct.Struct("<I")
_MAX_BYTES = 1 << 20
_CHALLENGE_BYTES = 32

KeyOf = Callable[[Message], bytes]
"""Returns the key by which a client has to prove itself, from what it asks for."""


class Challenge:
    """What a server asks of whoever connects.

    Args:
        connection: The connection; its timeout applies.
        key_of: Returns the key, as of the job that the client says it belongs to.
    """

    def __init__(self, connection: socket.socket, key_of: KeyOf) -> None:
        self._connection, self._key_of = connection, key_of
        self._key = b""
        self._nonce = secrets.token_hex(_CHALLENGE_BYTES)
        self._client_nonce = ""

    def ask(self) -> Message:
        """Return what the client wants, once it has proved that it may.

        Raises:
            StreamClosedError: It closed the connection, or its proof is wrong.
        """
        _send(self._connection, {"nonce": self._nonce})
        hello = dict(_receive(self._connection, "A network peer"))
        proof = str(hello.pop("proof", ""))
        self._client_nonce = str(hello.get("nonce"))
        self._key = self._key_of(hello)
        if not hmac.compare_digest(proof, _proof(self._key, self._nonce, "client", hello)):
            reason = "A network peer does not know the key."
            self.refuse(reason, is_final=True)
            raise StreamClosedError(reason)
        return hello

    def answer(self, message: Message) -> None:
        """Accept the client."""
        proof = _proof(self._key, self._client_nonce, "server", message)
        _send(self._connection, {**message, "proof": proof})

    def refuse(self, reason: str, *, is_final: bool) -> None:
        """Turn the client away; it may come again unless that is final."""
        self.answer({"refused": reason, "is_final": is_final})


def introduce(connection: socket.socket, hello: Message, options: NetworkOptions) -> Message:
    """Perform the client's side of the handshake and return the server's answer.

    Args:
        connection: Connected; its timeout applies.
        hello: What to ask for.
        options: The job's key.

    Raises:
        StreamClosedError: The server refuses for good, or does not know the key.
        NotServedError: It does not serve that now.
    """
    server_nonce = str(_receive(connection, "A network server").get("nonce"))
    nonce = secrets.token_hex(_CHALLENGE_BYTES)
    request = {**hello, "nonce": nonce}
    _send(connection, {**request, "proof": _proof(options.key, server_nonce, "client", request)})
    answer = dict(_receive(connection, "A network server"))
    proof = str(answer.pop("proof", ""))
    if not hmac.compare_digest(proof, _proof(options.key, nonce, "server", answer)):
        raise StreamClosedError("A network server does not know the key.")
    if "refused" in answer:
        reason = str(answer["refused"])
        raise StreamClosedError(reason) if answer["is_final"] else NotServedError(reason)
    return answer


def encrypted(
    connection: socket.socket, options: NetworkOptions, *, is_server: bool
) -> socket.socket:
    """Return the connection, under TLS if it is to be; takes the connection over.

    Raises:
        OSError: The other end cannot prove its identity, or speaks no TLS.
    """
    if options.identity is None and not options.fingerprint:
        return connection
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # knowing the identity's key is the proof, not a name
    if options.identity is not None:
        context.load_cert_chain(options.identity)
    if options.identity is None or options.is_one_sided:
        context.verify_mode = ssl.CERT_NONE
    else:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(options.identity)
    wrapped = context.wrap_socket(connection, server_side=is_server)
    if options.fingerprint:
        _check_fingerprint(wrapped, options.fingerprint)
    return wrapped


def _check_fingerprint(connection: ssl.SSLSocket, fingerprint: str) -> None:
    shown = hashlib.sha256(connection.getpeercert(binary_form=True) or b"").hexdigest()
    if not hmac.compare_digest(shown, fingerprint):
        connection.close()
        raise StreamClosedError(
            f"A network server shows the certificate {shown[:16]}..., not {fingerprint[:16]}...; "
            "it is not the one that is meant."
        )


def _proof(key: bytes, nonce: str, side: str, message: Message) -> str:
    signed = {name: value for name, value in message.items() if name not in ("magic", "version")}
    text = f"{side} {nonce} {json.dumps(signed, sort_keys=True)}"
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _send(connection: socket.socket, message: Message) -> None:
    content = encode_message(message)
    connection.sendall(_LENGTH.pack(len(content)) + content)


def _receive(connection: socket.socket, peer: str) -> Message:
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size, peer))
    if length > _MAX_BYTES:
        raise InternalError(f"{peer} does not speak the stream handshake.")
    return decode_message(_exactly(connection, length, peer), peer)


def _exactly(connection: socket.socket, size: int, peer: str) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ChannelBrokenError(f"{peer} closed the connection during the handshake")
        data += part
    return bytes(data)
