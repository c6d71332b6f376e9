"""Whose a connection is, found out once: when it is accepted.

This is the one place that makes a caller out of a connection. Nothing changes later what it has
said: no header, no other connection that gets the same port, no end of the connection.

REST keeps it in the object that serves the connection. gRPC tells handlers nothing of a connection
but the address of its other end, which may be another's by then. So gRPC is served on a Unix socket
that only we can reach, behind a front (`forwarder`) that accepts connections and passes them on
from sockets with names, of which no two are ever alike. A call is found by that name, and a name
that is not known, or not any more, is nobody's.
"""

import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network, ip_address

from appliance.core.cluster.identity import ROOT
from appliance.wire.connection_owner import (
    Endpoint,
    Owner,
    find_owner,
    is_connected,
    is_held_here,
    is_own_address,
)

_SITE_BITS = 64
"""Whoever has one IPv6 address has all that begin like it (RFC 4291, 2.5.4)."""
_ABSTRACT = "unix-abstract:"
"""What gRPC puts before the name of a socket that lies in no directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A connection, as it was when it was accepted.

    Attributes:
        host: Address of its other end; empty if that was not known.
        uid: User id of the socket at the other end; None if that is nobody's, or of another
            machine, or one of our own.
        is_local: Whether the other end is on this machine, or may be.
    """

    host: str = ""
    uid: int | None = None
    is_local: bool = True

    @property
    def is_operators(self) -> bool:
        """Whether the kernel says that it is root's, or of the user that we run as."""
        return self.uid in (ROOT, os.geteuid())

    @property
    def place(self) -> str:
        """From where it comes, for limits: a user of this machine, an address, or an IPv6 site.

        One address is one place, however it is written.
        """
        if self.uid is not None:
            return f"uid {self.uid}"
        try:
            address = ip_address(self.host.partition("%")[0])
        except ValueError:
            return self.host
        if not isinstance(address, IPv6Address):
            return str(address)
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(IPv6Network((address, _SITE_BITS), strict=False))

    def may_reach(self, owner_uid: int) -> bool:
        """Whether it may come to what serves a user's job, given the job's authority.

        Of this machine's users that are the owner, root and the user that we run as. Of others the
        kernel knows nothing.
        """
        return not self.is_local or self.is_operators or self.uid == owner_uid


NOBODY = Accepted()


def accepted(
    connection: socket.socket,
    *,
    find: Callable[[Endpoint, Endpoint], Owner | None] = find_owner,
    counts_own: bool = False,
) -> Accepted:
    """Find out whose a connection is that was just accepted.

    The kernel is asked about the socket that has the connection's ends. As long as ours is
    connected no other can have them; so what it says counts only if ours still is.

    Args:
        connection: Our end.
        find: Asks the kernel.
        counts_own: Whether what this process connects to itself is its user's, and not nobody's: if
            it connects to nothing that somebody else names.
    """
    try:
        there = Endpoint(*connection.getpeername()[:2])
        owner = find(there, Endpoint(*connection.getsockname()[:2]))
        is_whole = is_connected(connection)
    except (OSError, TypeError, ValueError):  # it has ended, or has no address in figures
        return NOBODY
    if owner is None:
        return Accepted(host=there.host, is_local=is_own_address(there.host))
    is_ours = not counts_own and owner.uid == os.geteuid() and is_held_here(owner.inode)
    return Accepted(host=there.host, uid=owner.uid if is_whole and not is_ours else None)


class AcceptedConnections:
    """What is known of the connections that the front passes on, by the names that they get."""

    def __init__(self) -> None:
        self._known: dict[str, Accepted] = {}
        self._cuts: dict[str, Callable[[], None]] = {}

    def add(self, connection: Accepted, cut: Callable[[], None] = lambda: None) -> str:
        """Return a name for a connection; no other has it, or ever will, and nobody can guess it.

        Else somebody could take the name of the next connection before it is made.

        Args:
            connection: What is known of it.
            cut: Cuts it; from any thread.
        """
        name = f"wsc-{secrets.token_hex(16)}"
        self._known[name], self._cuts[name] = connection, cut
        return name

    def remove(self, name: str) -> None:
        """Forget a connection."""
        self._known.pop(name, None)
        self._cuts.pop(name, None)

    def cut(self, peer: str) -> None:
        """Cut the connection that a call of gRPC came by, unless it has ended.

        Args:
            peer: As gRPC names it.
        """
        if (cut := self._cuts.get(peer.removeprefix(_ABSTRACT))) is not None:
            cut()

    def of_call(self, peer: str) -> Accepted:
        """Return the connection that a call of gRPC came by.

        Args:
            peer: As gRPC names it.
        """
        if not peer.startswith(_ABSTRACT):
            return NOBODY
        return self._known.get(peer[len(_ABSTRACT) :], NOBODY)

    def of_socket(self, connection: socket.socket) -> Accepted:
        """Return what is known of a connection that was just accepted, passed on or not."""
        try:
            peer = connection.getpeername()
        except OSError:
            return NOBODY
        if isinstance(peer, bytes):
            return self._known.get(peer[1:].decode("ascii", "replace"), NOBODY)
        return NOBODY if isinstance(peer, str) else accepted(connection)
