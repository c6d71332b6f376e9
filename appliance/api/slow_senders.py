"""HTTP/1.1 that knows whose a connection is, and closes one that is slow.

Whose it is is found out once, when it is accepted, and is in the state of each of its requests.

uvicorn waits without end for headers to arrive, and for an answer to be taken: a thousand
connections with half a head each, or that read nothing, would keep a thousand sockets. `api.entry`
limits the time of a body.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from appliance.api.services import ACCEPTED
from appliance.api.strict_http import StrictConnection
from appliance.wire.connections.accepted import Accepted
from appliance.wire.connections.connection_shares import ConnectionShares
from appliance.wire.connections.stalled_peers import StalledPeer

HEAD_SECONDS = 10.0
"""From the first moment of a connection, or from the first byte of a later request, to the end of
the head."""
_MAX_HEAD_BYTES = 1 << 16
MAX_CONNECTIONS = 2048
"""Connections at a time, if so many files may be open; `ConnectionShares` says whose."""


class TimedHttp(H11Protocol):
    """One connection; see the module.

    Args:
        see: Finds out whose it is.
        shares: Say whether it may be kept.
        arguments: Of uvicorn's own class.
    """

    _head_timer: asyncio.TimerHandle | None = None
    _place: str | None = None
    _stalled: StalledPeer | None = None

    # `Any`: as uvicorn declares them.
    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 - see above
        see: Callable[[socket.socket], Accepted],
        shares: ConnectionShares,
        **options: Any,  # noqa: ANN401 - see above
    ) -> None:
        super().__init__(*arguments, **options)
        self.conn = StrictConnection(h11.SERVER, _MAX_HEAD_BYTES)
        self._see, self._shares = see, shares

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Find out whose it is, and begin to wait for the first request."""
        super().connection_made(transport)
        whose = self._see(transport.get_extra_info("socket"))
        self.app_state = {**self.app_state, ACCEPTED: whose}
        self._place = self._shares.take(whose)
        if self._place is None:
            transport.abort()
            return
        self._stalled = StalledPeer(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Take what came, and see whether the head of a request is whole."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._head_timer is None:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        if self._stalled is not None:
            self._stalled.stop()
        if self._place is not None:
            self._shares.give_back(self._place)
            self._place = None
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()
