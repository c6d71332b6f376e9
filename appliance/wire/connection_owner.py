"""Who is at the other end of a TCP connection of this machine, as its kernel says.

Both ends of a connection over loopback are sockets of one kernel, which knows the user id of each.
It is asked by netlink (`sock_diag(7)`) for exactly the socket at the other end, which takes some
ten microseconds however many sockets there are, and found in /proc/net where that is not served. A
connection is asked about at every call: what was true of an address a moment ago may be another
user's by now, and gRPC tells connections apart by nothing else.
"""

import ctypes
import os
import socket
import struct
import threading
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from urllib.parse import unquote

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_ESTABLISHED = 1
"""Of a socket in another state the kernel may say root, whoever had it: its owner has let it go."""
_ANY_STATE = 0xFFFFFFFF
_NO_COOKIE = (0xFFFFFFFF, 0xFFFFFFFF)

_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI")
_PORTS = struct.Struct("!HH")
_INTERFACE_AND_COOKIE = struct.Struct("=III")
_ANSWER = struct.Struct("=BBBB48sIIIII")
"""`inet_diag_msg`: family, state, timer, retransmissions, the socket, expiry, two queues, user."""

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")

_MAX_ANSWER = 4096
_LIBC = ctypes.PyDLL(None, use_errno=True)
for _function in (_LIBC.send, _LIBC.recv):
    _function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int)
    _function.restype = ctypes.c_ssize_t


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a TCP connection.

    Attributes:
        host: Its address, in figures.
        port: Its port.
    """

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine has such an address."""
        return _address(self.host).is_loopback


Origin = tuple[Endpoint, Endpoint]
"""The far and the near end of the connection that a client made."""


@lru_cache(maxsize=1024)
def parse_peer(text: str) -> Endpoint | None:
    """Return the endpoint that gRPC calls `ipv4:HOST:PORT` or `ipv6:[HOST]:PORT`.

    Returns:
        None for what is no endpoint of TCP.
    """
    kind, _, rest = text.partition(":")
    host, _, port = unquote(rest).rpartition(":")
    if kind not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    try:
        return Endpoint(str(_address(host.strip("[]"))), int(port))
    except ValueError:
        return None


def uid_of_peer(peer: Endpoint, here: Endpoint) -> int | None:
    """Return the user id of the socket at the other end of a connection.

    Args:
        peer: The other end.
        here: Our own end.

    Returns:
        None if no open socket of this machine (or of its network namespace) is that end.
    """
    question = _question(peer.host, peer.port, here.host, here.port)
    if question is None:
        return None
    uid = _ask(question)
    return uid if uid is not None else _search(peer, here)


def may_reach(peer: Endpoint, here: Endpoint, *, owner_uid: int) -> bool:
    """Whether whoever is at the other end may reach what a user's job serves.

    From this machine it is the owner, root or the user that we run as ourselves; of others the
    kernel knows nothing, and it is whoever knows the job's authority.

    Args:
        peer: The other end of the connection.
        here: Our own end.
        owner_uid: User id of the owner; -1 for none.
    """
    if peer.host != here.host and not here.is_loopback:
        return True
    uid = uid_of_peer(peer, here)
    return uid is not None and uid in (0, os.getuid(), owner_uid)


_Address = IPv4Address | IPv6Address
_threads = threading.local()


@lru_cache(maxsize=256)
def _address(host: str) -> _Address:
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


@dataclass(frozen=True, slots=True)
class _Question:
    """What the kernel is asked about one socket.

    Attributes:
        family: Of the addresses.
        message: The request.
        wanted: How an answer about that socket begins.
        wanted_wide: The same if it is of the wide family, connected to an IPv4 address.
    """

    family: int
    message: bytes
    wanted: bytes
    wanted_wide: bytes


@lru_cache(maxsize=1024)
def _question(host: str, port: int, our_host: str, our_port: int) -> _Question | None:
    """Return the question about the other end; None if no connection has such ends."""
    there, ours = _address(host), _address(our_host)
    if there.version != ours.version:
        return None
    family = socket.AF_INET if there.version == 4 else socket.AF_INET6
    wanted = _socket_id(there, port, ours, our_port)
    request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _ANY_STATE) + wanted
    request += _INTERFACE_AND_COOKIE.pack(0, *_NO_COOKIE)
    length = _HEADER.size + len(request)
    return _Question(
        family=int(family),
        message=_HEADER.pack(length, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + request,
        wanted=wanted,
        wanted_wide=_socket_id(_mapped(there), port, _mapped(ours), our_port),
    )


def _ask(question: _Question) -> int | None:
    """Ask the kernel for exactly one socket; None if it has none, or does not serve the question.

    A socket of the wide family that is connected to an IPv4 address is found by that address, and
    answered with the mapped one.
    """
    try:
        answer = _exchange(question.message)
    except OSError:  # not served, or not permitted
        return None
    if _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None  # an error: there is no such socket
    found_family, state, _, _, found, _, _, _, uid, _ = _ANSWER.unpack_from(answer, _HEADER.size)
    wanted = question.wanted if found_family == question.family else question.wanted_wide
    return uid if state == _ESTABLISHED and found.startswith(wanted) else None


def _socket_id(there: _Address, port: int, ours: _Address, our_port: int) -> bytes:
    """Return the first fields of the kernel's `inet_diag_sockid`."""
    addresses = there.packed.ljust(16, b"\0") + ours.packed.ljust(16, b"\0")
    return _PORTS.pack(port, our_port) + addresses


def _mapped(address: _Address) -> _Address:
    return IPv6Address(f"::ffff:{address}") if address.version == 4 else address


class _Netlink:
    """A socket to the kernel, which a thread keeps and which is closed with the thread.

    Python's own sockets release the interpreter's lock for every call, and wait for other threads
    to have it back: milliseconds, where the kernel needs microseconds to answer. So the kernel is
    called with the lock held. It answers before it returns from `send`, and never blocks.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
        self._socket.setblocking(False)
        self._answer = ctypes.create_string_buffer(_MAX_ANSWER)

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self._socket.close()

    def exchange(self, request: bytes) -> bytes:
        """Send a request and return its answer; raises `OSError`."""
        number = self._socket.fileno()
        _checked(_LIBC.send(number, request, len(request), 0))
        length = _checked(_LIBC.recv(number, self._answer, _MAX_ANSWER, 0))
        return ctypes.string_at(self._answer, length)


def _checked(count: int) -> int:
    """Return what a function of the C library returned, unless that says that it has failed."""
    if count < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return count


def _exchange(request: bytes) -> bytes:
    netlink: _Netlink | None = getattr(_threads, "netlink", None)
    _threads.netlink = None  # one that has failed is not used again
    netlink = netlink or _Netlink()
    answer = netlink.exchange(request)
    _threads.netlink = netlink
    return answer


def _search(peer: Endpoint, here: Endpoint) -> int | None:
    """Find the socket in the kernel's tables, of which a mapped IPv4 address is in the second."""
    there, ours = _address(peer.host), _address(here.host)
    wanted = {(_hex(there, peer.port, wide), _hex(ours, here.port, wide)) for wide in (False, True)}
    for table in _TABLES:
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            columns = line.split()
            is_it = (columns[1], columns[2]) in wanted and int(columns[3], 16) == _ESTABLISHED
            if is_it and columns[9] != "0":  # one without an inode belongs to nobody any more
                return int(columns[7])
    return None


def _hex(address: _Address, port: int, wide: bool) -> str:
    """Return an endpoint as the kernel's tables have it: words of four bytes, the lowest first."""
    packed = address.packed
    if wide and len(packed) == 4:
        packed = b"\0" * 10 + b"\xff\xff" + packed
    words = (packed[i : i + 4][::-1].hex().upper() for i in range(0, len(packed), 4))
    return f"{''.join(words)}:{port:04X}"
