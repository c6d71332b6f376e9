"""How many messages of one caller management reads at a time, so that none can fill its memory.

gRPC tells nobody how long a message is before all of it is in memory, and has one limit for all
methods of a port. So a call waits here before it asks for its message; what is not asked for stays
with its sender, by HTTP/2's flow control. For use within one event loop.
"""

import asyncio
from collections import deque

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

    def take(self, caller: str) -> bool:
        """Take a place for a message of a caller, if there is one; it is given back at the end."""
        taken = self._num_taken.get(caller, 0)
        if taken >= self._num_places:
            return False
        self._num_taken[caller] = taken + 1
        return True

    async def wait(self, caller: str) -> None:
        """Wait for a place, and take it."""
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
