"""Takes a port for clients: of a port on loopback both addresses, or neither.

Clients on the appliance's machine are told the name `localhost`, which stands for 127.0.0.1 and, on
most machines, for ::1, too; gRPC and browsers try both. If we had one of them alone, any user of
the machine could listen at the same port of the other one, and be taken for us.
"""

import errno
import socket

_LOOPBACK = {"127.0.0.1": "::1", "::1": "127.0.0.1"}
"""The other address of the name that clients are told."""

_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""Nobody else can have an address of a machine that has no such addresses, either."""

_NUM_TRIES = 100
"""Ports tried, where any will do: one that is free at one address may be taken at the other."""


class PortTakenError(OSError):
    """A port cannot be had.

    Attributes:
        host: At which address.
    """

    def __init__(self, host: str, error: OSError) -> None:
        super().__init__(error.errno, error.strerror)
        self.host = host


def bind_for_clients(host: str, port: int, *, is_shared: bool = False) -> list[socket.socket]:
    """Return sockets that are bound, and do not listen yet, all at one port.

    Args:
        host: Address to bind to, in figures; one of loopback stands for both, and :: for all of
            this machine's, of either family.
        port: 0 for any that is free.
        is_shared: Whether `share_port` may bind to the same port, in a process of the same user.

    Raises:
        PortTakenError: Another program has it, or such an address is not this machine's.
    """
    for _ in range(_NUM_TRIES - 1):
        try:
            return _bind(host, port, is_shared=is_shared)
        except PortTakenError as error:
            if port or error.host == host:
                raise
    return _bind(host, port, is_shared=is_shared)


def share_port(port: int) -> list[socket.socket]:
    """Return sockets bound to a port on loopback that another process of ours listens at.

    They get no connections, and keep other users away once that process has ended. For that they do
    not offer to be bound beside (`SO_REUSEADDR`): who does not listen could be pushed aside by it.

    Raises:
        PortTakenError: The other process does not share it, or is another user's.
    """
    first = _bound("127.0.0.1", port, is_shared=True, is_taken_over=False)
    try:
        return [first, _bound("::1", port, is_shared=True, is_taken_over=False)]
    except PortTakenError as error:
        if error.errno in _NOT_HERE:
            return [first]
        first.close()
        raise


def _bind(host: str, port: int, *, is_shared: bool) -> list[socket.socket]:
    first = _bound(host, port, is_shared=is_shared)
    other = _LOOPBACK.get(host)
    if other is None:
        return [first]
    try:
        return [first, _bound(other, first.getsockname()[1], is_shared=is_shared)]
    except PortTakenError as error:
        if error.errno in _NOT_HERE:
            return [first]
        first.close()
        raise


def _bound(host: str, port: int, *, is_shared: bool, is_taken_over: bool = True) -> socket.socket:
    """Return a socket that is bound; `is_taken_over` if connections that are over do not matter."""
    is_six = ":" in host
    try:
        bound = socket.socket(socket.AF_INET6 if is_six else socket.AF_INET)
    except OSError as error:  # a kernel without IPv6
        if host == "::":
            return _bound("0.0.0.0", port, is_shared=is_shared, is_taken_over=is_taken_over)
        raise PortTakenError(host, error) from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, is_taken_over)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, is_shared)
        if is_six and host == "::":
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise PortTakenError(host, error) from error
    return bound
