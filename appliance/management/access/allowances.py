"""How much of the appliance one caller may occupy: open calls and new calls a second, by cost.

`core.access_rules.model.ALLOWANCES` has the numbers. A call is admitted before anything of its body
is read; a caller above the allowance is refused at once, with the number.

Strangers, callers who have proved nothing, share a part of each total, so the rest is for callers
who have, whatever strangers do. Of what is free of their part a stranger may have half, as buffers
are shared in switches (Source: Choudhury and Hahne, Dynamic queue length thresholds for
shared-memory packet switches, 1998, section II, doi:10.1109/90.664262): so one of them who takes
all he can, even from several places, leaves some for the next.

`ReadingPlaces` bounds the messages of one caller that are read at a time, so that none can fill
management's memory. gRPC tells nobody how long a message is before all of it is in memory, and has
one limit for all methods of a port. So a call waits there before it asks for its message; what is
not asked for stays with its sender, by HTTP/2's flow control.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import Self

from appliance.core.access_rules.model import ALLOWANCES, Allowance, Cost
from appliance.core.clock import Clock
from appliance.core.errors import TooManyRequestsError

NUM_PLACES = 32
"""For the messages of one caller."""

_MANY_CALLERS = 4096
"""So many callers are remembered before those that could start afresh are forgotten."""


@dataclass(slots=True)
class _Use:
    """What one caller has of one cost: open calls, and calls that may begin at once."""

    num_open: int
    tokens: float
    at: float


class Allowances:
    """Counts open calls; safe in threads.

    Args:
        table: How much of each cost there is.
    """

    def __init__(self, clock: Clock, table: Mapping[Cost, Allowance] = ALLOWANCES) -> None:
        self._clock, self._table = clock, table
        self._lock = Lock()
        self._uses: dict[tuple[Cost, str], _Use] = {}
        self._totals, self._strangers = dict.fromkeys(table, 0), dict.fromkeys(table, 0)

    def take(
        self, caller: str, cost: Cost, *, is_exempt: bool = False, is_stranger: bool = False
    ) -> "Hold":
        """Let a call begin; what is returned is released at its end.

        Args:
            caller: Who calls, as a key.
            cost: What the call occupies.
            is_exempt: Whether only the limit of all callers together holds.
            is_stranger: Whether it has proved nothing, and its key is where it calls from.

        Raises:
            TooManyRequestsError: It would be above a limit.
        """
        allowance = self._table[cost]
        with self._lock:
            if self._totals[cost] >= allowance.total:
                raise TooManyRequestsError(
                    f"{allowance.total} calls of cost '{cost.value}' are open, which is the limit "
                    "of this appliance.",
                    hint="Try again later.",
                )
            use = self._use(caller, cost, allowance)
            if is_stranger:
                _check_stranger(use, cost, allowance, self._strangers[cost])
            if not is_exempt:
                _check(use, cost, allowance)
            use.tokens = max(use.tokens - 1, 0)
            use.num_open += 1
            self._totals[cost] += 1
            self._strangers[cost] += is_stranger
        return Hold(self, caller, cost, is_stranger=is_stranger)

    def release(self, caller: str, cost: Cost, *, is_stranger: bool) -> None:
        """Let a call end."""
        with self._lock:
            self._uses[cost, caller].num_open -= 1
            self._totals[cost] -= 1
            self._strangers[cost] -= is_stranger

    def num_open(self, cost: Cost) -> int:
        """Return how many calls of a cost are open."""
        return self._totals[cost]

    def _use(self, caller: str, cost: Cost, allowance: Allowance) -> _Use:
        now = self._clock.monotonic_seconds()
        use = self._uses.get((cost, caller))
        if use is None:
            if len(self._uses) >= _MANY_CALLERS:
                self._forget_idle(now)
            use = self._uses[cost, caller] = _Use(0, allowance.burst, now)
        gained = (now - use.at) * allowance.per_second
        use.tokens, use.at = min(use.tokens + gained, allowance.burst), now
        return use

    def _forget_idle(self, now: float) -> None:
        """Forget callers without open calls that have been idle for long enough."""
        for key, use in list(self._uses.items()):
            allowance = self._table[key[0]]
            is_full = use.tokens + (now - use.at) * allowance.per_second >= allowance.burst
            if use.num_open == 0 and is_full:
                del self._uses[key]


class Hold:
    """What one call occupies; a context manager that gives it back at the end.

    Args:
        allowances: Where.
        caller: Whose.
        is_stranger: Whether the caller has proved nothing.
    """

    __slots__ = ("_allowances", "_caller", "_cost", "_is_stranger")

    def __init__(
        self, allowances: Allowances, caller: str, cost: Cost, *, is_stranger: bool
    ) -> None:
        self._allowances: Allowances | None = allowances
        self._caller, self._cost, self._is_stranger = caller, cost, is_stranger

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        """Give it back; nothing happens the second time."""
        allowances, self._allowances = self._allowances, None
        if allowances is not None:
            allowances.release(self._caller, self._cost, is_stranger=self._is_stranger)


def _check_stranger(use: _Use, cost: Cost, allowance: Allowance, num_strangers: int) -> None:
    """Raise `TooManyRequestsError` if a stranger has half of what is left for strangers."""
    free = allowance.strangers - num_strangers
    if use.num_open >= min(allowance.per_caller, free - free // 2):
        raise TooManyRequestsError(
            f"{use.num_open} calls of cost '{cost.value}' that prove nothing are open from there, "
            f"and {num_strangers} from everywhere, of {allowance.strangers}.",
            hint="Give CSAUTH_TOKEN, or try again later.",
        )


def _check(use: _Use, cost: Cost, allowance: Allowance) -> None:
    if use.num_open >= allowance.per_caller:
        raise TooManyRequestsError(
            f"You have {use.num_open} calls of cost '{cost.value}' open; one caller may have "
            f"{allowance.per_caller}.",
            hint="Wait for one to end, or close one.",
        )
    if use.tokens < 1:
        seconds = (1 - use.tokens) / allowance.per_second
        raise TooManyRequestsError(
            f"You have begun more than {allowance.burst} calls of cost '{cost.value}' faster than "
            f"{allowance.per_second:g} a second.",
            hint=f"Try again in {seconds:.1f} seconds.",
            retry_seconds=seconds,
        )


class ReadingPlaces:
    """Places for messages that are being read, so many for each caller, in one event loop.

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
