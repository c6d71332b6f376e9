"""How many messages of one caller management reads at a time, so that none can fill its memory.

gRPC tells nobody how long a message is before all of it is in memory, and has one limit for all
methods of a port. So a call waits here before it asks for its message; what is not asked for stays
with its sender, by HTTP/2's flow control. For use within one event loop.
"""

import asyncio
from collections import deque
from types import TracebackType

NUM_PLACES = 32
"""For the messages of one caller."""


class ReadingPlaces:
    """Places for messages that are being read, so many for each caller.

    Args:
        num_places: For one caller.
    """

    def __init__(self, num_places: int = NUM_PLACES) -> None:
        self._num_places = num_places
        self._num_taken: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    def of(self, caller: str) -> "ReadingPlace":
        """Return a place for a message of a caller, to be taken with `async with`."""
        return ReadingPlace(self, caller)

    async def take(self, caller: str) -> None:
        """Wait for a place."""
        taken = self._num_taken.get(caller, 0)
        if taken < self._num_places:
            self._num_taken[caller] = taken + 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(caller, deque())
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(caller)
            raise

    def give_back(self, caller: str) -> None:
        """Let the call that has waited longest have the place."""
        waiting = self._waiting.get(caller, deque())
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._waiting.pop(caller, None)
        self._num_taken[caller] -= 1
        if not self._num_taken[caller]:
            del self._num_taken[caller]


class ReadingPlace:
    """A place of a caller's.

    Args:
        places: Where it is one of.
        caller: Whose.
    """

    __slots__ = ("_caller", "_places")

    def __init__(self, places: ReadingPlaces, caller: str) -> None:
        self._places, self._caller = places, caller

    async def __aenter__(self) -> None:
        await self._places.take(self._caller)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._places.give_back(self._caller)
