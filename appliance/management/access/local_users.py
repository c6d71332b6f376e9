"""The users behind connections over loopback, and the accounts of this machine."""

import os
import pwd
from collections.abc import Callable

from appliance.core.cluster.identity import LocalAccount
from appliance.wire.connection_owner import Endpoint, Origin, parse_peer, uid_of_peer


class LocalPeers:
    """Asks the kernel whose connections are, also those that come through clients' one port."""

    def __init__(self) -> None:
        self._here: Endpoint | None = None
        self._origin_of: Callable[[Endpoint], Origin | None] = _direct

    def serve_at(self, host: str, port: int) -> None:
        """Take note of where gRPC is served."""
        self._here = Endpoint(host, port)

    def follow(self, origin_of: Callable[[Endpoint], Origin | None]) -> None:
        """Set the lookup of the original connection behind one that was passed on.

        Args:
            origin_of: Returns the connection behind the far end of ours; None if it is no passed-on
                one.
        """
        self._origin_of = origin_of

    def uid_of_call(self, peer: str) -> int | None:
        """Return whose connection a gRPC call came by.

        Args:
            peer: As gRPC names it.

        Returns:
            None if the kernel does not know.
        """
        there = parse_peer(peer)
        return None if there is None or self._here is None else self.uid_of(there, self._here)

    def host_of_call(self, peer: str) -> str:
        """Return the address that a gRPC call comes from, behind clients' one port, too.

        Args:
            peer: As gRPC names it.
        """
        there = parse_peer(peer)
        if there is None:
            return peer
        origin = self._origin_of(there)
        return there.host if origin is None else origin[0].host

    def uid_of(self, peer: Endpoint, here: Endpoint) -> int | None:
        """Return whose connection it is that has these ends; None if the kernel does not know."""
        there, near = self._origin_of(peer) or (peer, here)
        try:
            return uid_of_peer(there, near)
        except ValueError:  # no address in figures, such as that of a Unix socket
            return None


def _direct(_: Endpoint) -> Origin | None:
    return None


def find_account(uid: int) -> LocalAccount | None:
    """Return the account that this machine has for a user id; None if there is none."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return None
    groups = frozenset(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return LocalAccount(name=entry.pw_name, gid=entry.pw_gid, groups=groups)
