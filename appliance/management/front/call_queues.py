"""At which of management's gRPC servers the calls of a connection wait.

A gRPC server hands calls over in the order in which they come, whoever sends them, and refuses all
new ones (`CANCELLED`) while a thousand wait. So whoever opens calls and resets them at once, as
fast as he can, keeps out all who use the same server (CVE-2023-44487). Management has several:
callers from one place use one of them, and the operator and root one that nobody else uses. The
servers take turns in one event loop.
"""

import secrets
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from appliance.wire.connections.accepted import Accepted

NUM_QUEUES = 16


def queue_sockets(directory: Path) -> tuple[Path, ...]:
    """Return where the servers listen; the first is that of the operator and root."""
    return tuple(directory / f"clients-{number}.sock" for number in range(NUM_QUEUES))


class CallQueues:
    """Chooses the server.

    Which places share one nobody else can know, so nobody can choose an address for it.

    Args:
        sockets: Those of `queue_sockets`.
    """

    def __init__(self, sockets: Sequence[Path]) -> None:
        self._first, *self._others = map(str, sockets)
        self._key = secrets.token_bytes(16)

    def address_of(self, origin: Accepted) -> str:
        """Return the socket to which a connection is passed on."""
        if origin.is_operators:
            return self._first
        digest = blake2b(origin.place.encode(), key=self._key, digest_size=8).digest()
        return self._others[int.from_bytes(digest) % len(self._others)]
