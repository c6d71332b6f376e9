"""How much of the appliance one caller may occupy: open calls and new calls a second, by cost.

`core.access_rules.model.ALLOWANCES` has the numbers. A call is admitted before anything of its body
is read; a caller above the allowance is refused at once, with the number.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import Self

from appliance.core.access_rules.model import ALLOWANCES, Allowance, Cost
from appliance.core.clock import Clock
from appliance.core.errors import TooManyRequestsError

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
        clock: Source of time.
        table: How much of each cost there is.
    """

    def __init__(self, clock: Clock, table: Mapping[Cost, Allowance] = ALLOWANCES) -> None:
        self._clock, self._table = clock, table
        self._lock = Lock()
        self._uses: dict[tuple[Cost, str], _Use] = {}
        self._totals = dict.fromkeys(table, 0)

    def take(self, caller: str, cost: Cost, *, is_exempt: bool = False) -> "Hold":
        """Let a call begin; what is returned is released at its end.

        Args:
            caller: Who calls, as a key.
            cost: What the call occupies.
            is_exempt: Whether only the limit of all callers together holds.

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
            if not is_exempt:
                _check(use, cost, allowance)
            use.tokens = max(use.tokens - 1, 0)
            use.num_open += 1
            self._totals[cost] += 1
        return Hold(self, caller, cost)

    def release(self, caller: str, cost: Cost) -> None:
        """Let a call end."""
        with self._lock:
            self._uses[cost, caller].num_open -= 1
            self._totals[cost] -= 1

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
        cost: Which.
    """

    __slots__ = ("_allowances", "_caller", "_cost")

    def __init__(self, allowances: Allowances, caller: str, cost: Cost) -> None:
        self._allowances: Allowances | None = allowances
        self._caller, self._cost = caller, cost

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
            allowances.release(self._caller, self._cost)


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
