"""Who is at the other end of a TCP connection of this machine, as its kernel says.

Both ends of a connection over loopback are sockets of one kernel, which knows the user id of each.
It is asked by netlink (`sock_diag(7)`) for exactly the socket at the other end, which takes some
ten microseconds however many sockets there are, and found in /proc/net where that is not served.
What it says is true of an address at that moment alone, since a port is soon another's: so a
connection is asked about when it is accepted (`wire.connections.accepted`).
"""

import ctypes
import errno
import os
import socket
import stat
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLMSG_ERROR = 2
_NLM_F_REQUEST = 1
_ESTABLISHED = 1
"""Of a socket in another state the kernel may say root, whoever had it: its owner has let it go."""
_CLOSE_WAIT = 8
"""The other end has said that it sends nothing more; the connection is there."""
_ANY_STATE = 0xFFFFFFFF
_NO_COOKIE = (0xFFFFFFFF, 0xFFFFFFFF)

_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI")
_PORTS = struct.Struct("!HH")
_INTERFACE_AND_COOKIE = struct.Struct("=III")
_ERROR = struct.Struct("=i")
_ANSWER = struct.Struct("=BBBB48sIIIII")
"""`inet_diag_msg`: family, state, timer, retransmissions, the socket, expiry, two queues, user,
inode."""

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
    """

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a socket is.

    Attributes:
        uid: Its user id.
        inode: Its inode, by which a process knows its own.
    """

    uid: int
    inode: int


def find_owner(peer: Endpoint, here: Endpoint) -> Owner | None:
    """Return whose the socket at the other end of a connection is.

    Args:
        peer: The other end.
        here: Our own end.

    Returns:
        None if no open socket of this machine (or of its network namespace) is that end.
    """
    question = _question(peer.host, peer.port, here.host, here.port)
    if question is None:
        return None
    try:
        return _ask(question)
    except OSError:  # not served, or not permitted
        return _search(peer, here)


def is_connected(connection: socket.socket) -> bool:
    """Whether a connection of TCP is still there, so that no other can have its ends."""
    state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    return state in (_ESTABLISHED, _CLOSE_WAIT)


def is_held_here(inode: int) -> bool:
    """Whether a socket is one of this process."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # it was closed meanwhile
            status = os.fstat(int(name))
            if status.st_ino == inode and stat.S_ISSOCK(status.st_mode):
                return True
    return False


def is_own_address(host: str) -> bool:
    """Whether an address is one of this machine (or of its network namespace).

    From one of its own the kernel reaches itself by that same address. Nothing is sent.
    """
    address = _address(host)
    if address.is_loopback or address.is_unspecified:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((str(address), 9))
        return _address(probe.getsockname()[0]) == address
    return False  # nothing leads there


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


def _ask(question: _Question) -> Owner | None:
    """Ask the kernel for exactly one socket; None if it has none.

    A socket of the wide family that is connected to an IPv4 address is found by that address, and
    answered with the mapped one.

    Raises:
        OSError: It does not serve the question.
    """
    answer = _exchange(question.message)
    kind = _HEADER.unpack_from(answer)[1]
    if kind == _NLMSG_ERROR and -_ERROR.unpack_from(answer, _HEADER.size)[0] == errno.ENOENT:
        return None
    if kind != _SOCK_DIAG_BY_FAMILY:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    family, state, _, _, found, _, _, _, uid, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    wanted = question.wanted if family == question.family else question.wanted_wide
    is_it = state == _ESTABLISHED and found.startswith(wanted)
    return Owner(uid, inode) if is_it else None


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


def _search(peer: Endpoint, here: Endpoint) -> Owner | None:
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
                return Owner(int(columns[7]), int(columns[9]))
    return None


def _hex(address: _Address, port: int, wide: bool) -> str:
    """Return an endpoint as the kernel's tables have it: words of four bytes, the lowest first."""
    packed = address.packed
    if wide and len(packed) == 4:
        packed = b"\0" * 10 + b"\xff\xff" + packed
    words = (packed[i : i + 4][::-1].hex().upper() for i in range(0, len(packed), 4))
    return f"{''.join(words)}:{port:04X}"
