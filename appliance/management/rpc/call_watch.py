"""Ends calls whose readers may not read on, or take nothing of what is sent to them.

By HTTP/2 a client says for each call how much may be sent. One that says nothing more, and goes on
to acknowledge the connection itself, would keep the call, what waits to be sent and its place among
those that may be open, for ever: to TCP and to gRPC's pings it is well. gRPC cannot end such a call
before what it has to say is taken. So the connection is cut, as one is whose peer takes nothing
(`wire.connections.stalled_peers`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType

UNTAKEN_SECONDS = 300.0
"""A connection is cut by which a message of ours is not taken for so long: as long as a stream of
messages to us may be silent, and long enough for somebody who reads a log page by page."""
RECHECK_SECONDS = 10.0
"""While a stream goes on, its reader's rights are looked at again so often."""


class StreamWatch:
    """Watches a stream, from entering to leaving its block; of one event loop.

    Args:
        check: Raises if the reader may not read on; None if each answer asks that by itself.
        cut: Cuts the reader's connection.
    """

    def __init__(
        self, check: Callable[[], Awaitable[None]] | None, cut: Callable[[], None]
    ) -> None:
        self._check, self._cut = check, cut
        self._loop, self._stream = asyncio.get_running_loop(), asyncio.current_task()
        self._sent_at: float | None = None
        """Since when a message waits to be taken; None while none does."""
        self._asking: asyncio.Task[None] | None = None
        self._refusal: Exception | None = None

    def __enter__(self) -> "StreamWatch":
        self._timer = self._loop.call_later(RECHECK_SECONDS, self._look)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if self._asking is not None:
            self._asking.cancel()
        is_ours = isinstance(error, asyncio.CancelledError) and self._refusal is not None
        if is_ours and self._stream is not None and self._stream.uncancel() == 0:
            assert self._refusal is not None
            raise self._refusal

    def sends(self) -> None:
        """Take note that a message is about to be sent."""
        self._sent_at = self._loop.time()

    def sent(self) -> None:
        """Take note that it was taken; raises what the check has raised meanwhile."""
        self._sent_at = None
        if self._refusal is not None:
            raise self._refusal

    def _look(self) -> None:
        if self._sent_at is not None and self._loop.time() - self._sent_at > UNTAKEN_SECONDS:
            self._cut()
            return
        self._timer = self._loop.call_later(RECHECK_SECONDS, self._look)
        if self._check is not None and self._asking is None:
            self._asking = self._loop.create_task(self._ask(self._check))

    async def _ask(self, check: Callable[[], Awaitable[None]]) -> None:
        try:
            await check()
        except Exception as refusal:  # noqa: BLE001 - the stream ends with it, whatever it is
            self._refusal = refusal
            if self._sent_at is None and self._stream is not None:
                self._stream.cancel()  # it waits for news that it may not tell
        finally:
            self._asking = None


def cut_if_untaken(cut: Callable[[], None]) -> None:
    """Cut the connection of the present call, which has just been answered, if that is not taken.

    Args:
        cut: Does so.
    """
    task = asyncio.current_task()
    assert task is not None
    timer = asyncio.get_running_loop().call_later(UNTAKEN_SECONDS, cut)
    task.add_done_callback(lambda _: timer.cancel())
