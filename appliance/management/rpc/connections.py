"""Who is authenticated on which connection, for the streams that carry no credentials.

The client's streams of ingress and heartbeats have no metadata, so no token; its ordinary calls on
the same connection have. gRPC distinguishes connections by address and port alone, and when one
ends another user of the same machine may get its port. So a proof made while a stream is open holds
for as long as one is, since a connection keeps its port as long as it lives. An earlier proof is a
good guess for some seconds: enough to be told the job's state, not its address.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from appliance.core.clock import Clock
from appliance.core.cluster.access import Principal

RECENT_SECONDS = 30.0
"""How long after a call a new stream of the same address and port is taken for the same client's:
it opens both right after it has submitted a job."""

_MAX_KNOWN = 10_000
"""Connections without streams that are remembered at most."""


@dataclass(slots=True)
class _Connection:
    """The proofs seen on one connection.

    Attributes:
        principal: Who has proved themselves on it last; None for nobody.
        at: When, in monotonic seconds.
        is_firm: Whether a stream has been open ever since.
        num_streams: Streams that are open on it.
        waiting: Set when somebody proves themselves.
    """

    principal: Principal | None = None
    at: float = 0.0
    is_firm: bool = False
    num_streams: int = 0
    waiting: set["Proof"] = field(default_factory=set)


class Proof:
    """What a stream knows of who is at its other end; see `Connections.stream`.

    Args:
        connection: The stream's connection.
        is_recent: Whether who had proved themselves before it opened counts.
        changed: Set when more is known.
    """

    def __init__(self, connection: _Connection, *, is_recent: bool, changed: asyncio.Event) -> None:
        self._connection, self._is_recent = connection, is_recent
        self._changed, self._loop = changed, asyncio.get_running_loop()

    @property
    def proved(self) -> Principal | None:
        """The user authenticated on this connection, or None."""
        connection = self._connection
        return connection.principal if connection.is_firm else None

    @property
    def likely(self) -> Principal | None:
        """Who most likely is at the other end; None if that cannot be said."""
        return self.proved or (self._connection.principal if self._is_recent else None)

    def tell(self) -> None:
        """Notify the stream that more is known; from any thread."""
        self._loop.call_soon_threadsafe(self._changed.set)


class OwnProof:
    """What is known of a stream whose own call has proved whose it is.

    Attributes:
        proved: The user.
        likely: The same.
    """

    __slots__ = ("likely", "proved")

    def __init__(self, principal: Principal) -> None:
        self.proved = self.likely = principal


class Connections:
    """All connections of clients that have proved themselves of late, or have streams open.

    Args:
        clock: Says what is recent.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._busy: dict[str, _Connection] = {}
        self._quiet: OrderedDict[str, _Connection] = OrderedDict()

    def proved(self, peer: str, principal: Principal) -> None:
        """Take note that an ordinary call has proved whose it is.

        Args:
            peer: The connection that it came by, as gRPC names it.
            principal: Whose it is.
        """
        now = self._clock.monotonic_seconds()
        with self._lock:
            busy = self._busy.get(peer)
            if busy is None:
                self._remember(peer, _Connection(principal=principal, at=now))
                return
            is_news = busy.principal != principal or not busy.is_firm
            busy.principal, busy.at, busy.is_firm = principal, now, True
            waiting = tuple(busy.waiting) if is_news else ()
        for proof in waiting:
            proof.tell()

    def likely(self, peer: str) -> Principal | None:
        """Return who has proved themselves on a connection of late; None for nobody."""
        with self._lock:
            connection = self._busy.get(peer) or self._quiet.get(peer)
        if connection is None:
            return None
        age_seconds = self._clock.monotonic_seconds() - connection.at
        is_known = connection.is_firm or age_seconds <= RECENT_SECONDS
        return connection.principal if is_known else None

    @contextmanager
    def stream(self, peer: str, changed: asyncio.Event) -> Iterator[Proof]:
        """Follow who is at the other end of a stream, while it is open.

        Args:
            peer: The connection that it came by.
            changed: Set when more is known.
        """
        with self._lock:
            connection = self._busy.get(peer) or self._quiet.pop(peer, None) or _Connection()
            self._busy[peer] = connection
            age_seconds = self._clock.monotonic_seconds() - connection.at
            proof = Proof(connection, is_recent=age_seconds <= RECENT_SECONDS, changed=changed)
            connection.num_streams += 1
            connection.waiting.add(proof)
        try:
            yield proof
        finally:
            with self._lock:
                connection.num_streams -= 1
                connection.waiting.discard(proof)
                if connection.num_streams == 0:
                    del self._busy[peer]
                    self._end(peer, connection)

    def _end(self, peer: str, connection: _Connection) -> None:
        if connection.principal is not None:
            now = self._clock.monotonic_seconds()
            was_firm = connection.is_firm
            connection.is_firm = False
            connection.at = now if was_firm else connection.at
            self._remember(peer, connection)

    def _remember(self, peer: str, connection: _Connection) -> None:
        self._quiet[peer] = connection
        self._quiet.move_to_end(peer)
        if len(self._quiet) > _MAX_KNOWN:
            self._quiet.popitem(last=False)
