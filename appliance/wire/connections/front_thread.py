"""Runs a front in a thread with an event loop of its own, so that copying bytes delays no calls."""

import asyncio
import socket
import threading
from collections.abc import Sequence

from appliance.wire.connections.forwarder import Forwarder


class FrontThread:
    """Accepts connections and passes them on, from `start` to `close`.

    Args:
        forwarder: Says where to.
        listeners: The sockets that clients connect to, all alike; closed at the end.
        name: Of the thread.
    """

    def __init__(
        self, forwarder: Forwarder, listeners: Sequence[socket.socket], *, name: str
    ) -> None:
        self._forwarder, self._listeners = forwarder, listeners
        self._drain_seconds = 0.0
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to accept."""
        for listener in self._listeners:
            listener.listen()  # so that early callers wait
        self._thread.start()

    def close(self, *, drain_seconds: float = 0.0) -> None:
        """Refuse new connections and cut the others.

        Args:
            drain_seconds: How long connections to coordinators may go on: a client that sends or
                fetches tensors does not survive the end of its connection.
        """
        if self._thread.is_alive():
            self._drain_seconds = drain_seconds
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
        for listener in self._listeners:
            listener.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        await self._forwarder.serve(self._listeners)
        await self._stop.wait()
        await self._forwarder.close(drain_seconds=self._drain_seconds)
