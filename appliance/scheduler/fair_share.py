"""Fair share: past use of each account, decayed by half-life, and the order that follows.

Two levels, as in Slurm's fair tree: sessions against their shares, then the users of one session
against each other. The result is not a number per job but a *class* per account, in steps of a
factor of two: accounts that had about the same stay first come, first served, and a user can be
told why somebody goes first ("has had between two and four times its share").
"""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from appliance.core.cluster.records import DEFAULT_SESSION

NUM_CLASSES = 16
"""Classes of use, 0 to 15; a lower one goes first."""

_EVEN_CLASS = 4
"""First class beyond the share; class 3 had between half its share and all of it."""

_MAX_HALF_LIVES = 64.0
_LEAST_USE = 1e-9


class Account(NamedTuple):
    """The session and user to which use is charged."""

    session: str
    user: str


NOBODY = Account(DEFAULT_SESSION, "")
"""Whom use is charged to when it is not known whose it is."""


class UsageLedger:
    """System-seconds that each account has used, halved every half-life.

    Amounts are kept in units that grow as use decays, so that time passing changes nothing and
    charging is one addition.

    Args:
        half_life_seconds: After this time, use counts half.
    """

    def __init__(self, half_life_seconds: float) -> None:
        self._half_life_seconds = half_life_seconds
        self._epoch_seconds = 0.0
        self._numbers: dict[Account, int] = {}
        self._grown: NDArray[np.float64] = np.zeros(0)

    def charge(self, account: Account, system_seconds: float, *, at_seconds: float) -> None:
        """Add use that ended at a time."""
        if self._half_lives(at_seconds) > _MAX_HALF_LIVES:
            self._grown = self._grown * self._decay(at_seconds)
            self._epoch_seconds = at_seconds
        number = self._numbers.setdefault(account, len(self._numbers))
        if number == len(self._grown):
            self._grown = np.append(self._grown, 0.0)
        self._grown[number] += system_seconds / self._decay(at_seconds)

    def used(self, account: Account, *, at_seconds: float) -> float:
        """Return an account's use as it counts at a time, in system-seconds."""
        number = self._numbers.get(account)
        return 0.0 if number is None else float(self._grown[number] * self._decay(at_seconds))

    def numbers(self) -> dict[Account, int]:
        """Return where in `all_used` each account with recorded use is; the caller's to change."""
        return self._numbers.copy()

    def all_used(self, *, at_seconds: float) -> NDArray[np.float64]:
        """Return the use of all `accounts`, in system-seconds."""
        return self._grown * self._decay(at_seconds)

    def _half_lives(self, at_seconds: float) -> float:
        return (at_seconds - self._epoch_seconds) / self._half_life_seconds

    def _decay(self, at_seconds: float) -> float:
        return float(2.0 ** -self._half_lives(at_seconds))


class UseClasses(NamedTuple):
    """Classes of use, one of each kind per account."""

    session: NDArray[np.int64]
    user: NDArray[np.int64]


def classify(
    accounts: Collection[Account], used: NDArray[np.float64], shares: Mapping[str, float]
) -> UseClasses:
    """Sort accounts into classes by use over share.

    Args:
        accounts: Everybody who waits, runs or ever used anything.
        used: Their use, in the same order, in any one unit.
        shares: Shares of sessions; those not named have one share.
    """
    session, num_users, names = _sessions_of(tuple(accounts))
    by_session = np.bincount(session, used, len(names)).astype(np.float64)
    share = np.array([shares.get(name, 1.0) for name in names])
    total = max(float(used.sum()), _LEAST_USE)
    session_class = _classes(by_session / total, share / share.sum())
    of_session = np.maximum(by_session, _LEAST_USE)[session]
    user_class = _classes(used / of_session, 1.0 / num_users[session])
    return UseClasses(session_class[session], user_class)


@lru_cache(maxsize=4)
def _sessions_of(
    accounts: tuple[Account, ...],
) -> tuple[NDArray[np.int64], NDArray[np.int64], tuple[str, ...]]:
    """Return the number of each account's session, the accounts of each session, and their names.

    From one cycle to the next the accounts are mostly the same.
    """
    numbers: dict[str, int] = {}
    session = np.array([numbers.setdefault(a.session, len(numbers)) for a in accounts])
    return session, np.bincount(session), tuple(numbers)


def describe_class(number: int) -> str:
    """Say in words what a class of use means."""
    steps = number - _EVEN_CLASS
    if number == 0:
        return f"has had less than 1/{2 ** (_EVEN_CLASS - 1)} of its share"
    if steps == -1:
        return "has had between half its share and all of it"
    if steps < 0:
        return f"has had between 1/{2**-steps} and 1/{2 ** (-steps - 1)} of its share"
    return f"has had between {2**steps} and {2 ** (steps + 1)} times its share"


def _classes(use: NDArray[np.float64], share: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return floor(log2(use / share)), moved so that the share itself begins class 4."""
    steps = np.frexp(use / share)[1] - 1 + _EVEN_CLASS
    steps[use <= 0.0] = 0
    return np.asarray(np.minimum(np.maximum(steps, 0), NUM_CLASSES - 1), dtype=np.int64)
