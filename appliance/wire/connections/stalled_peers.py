"""Cuts connections whose peers take nothing of what is sent to them.

A peer that reads nothing would keep its connection, and its place among those that may be open, for
ever: what it has not taken waits in our memory, also after we have closed the connection. A bound
on the time of each answer would end slow downloads, too, so only a peer that takes nothing at all
is cut.
"""

import asyncio
import socket
import struct
from contextlib import suppress

STALLED_SECONDS = 60.0
"""A peer is cut that has taken nothing for so long, and before twice that: as long as a client may
be silent before gRPC asks whether it is alive."""

_BYTES_ACKED = struct.Struct("@Q")
_BYTES_ACKED_AT = 120
"""Of `tcpi_bytes_acked` in Linux's `struct tcp_info`."""


class StalledPeer:
    """Watches a connection from now on, until `stop`.

    Args:
        transport: Of the connection; one that is not TCP is left alone.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._taken: int | None = None
        """What it had taken when last looked at, if more waited then."""
        self._timer = self._loop.call_later(STALLED_SECONDS, self._look)

    def stop(self) -> None:
        """Watch no longer."""
        self._timer.cancel()

    def _look(self) -> None:
        waits = self._transport.get_write_buffer_size() > 0
        taken = _num_taken(self._transport.get_extra_info("socket")) if waits else None
        if taken is not None and taken == self._taken:
            self._transport.abort()
            return
        self._taken = taken
        self._timer = self._loop.call_later(STALLED_SECONDS, self._look)


def _num_taken(connection: socket.socket) -> int | None:
    """Return how many bytes the other end has acknowledged; None where nothing says."""
    if connection.family == socket.AF_UNIX:
        return None
    with suppress(OSError, struct.error):
        told = connection.getsockopt(
            socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_ACKED_AT + _BYTES_ACKED.size
        )
        (taken,) = _BYTES_ACKED.unpack_from(told, _BYTES_ACKED_AT)
        return int(taken)
    return None
