"""Who had how much: past use of each account, halved with time, and the order that follows.

Two levels, as in Slurm's fair tree: sessions against their shares, then the users of one session
against each other. The result is not a number per job but a *class* per account, in steps of a
factor of two: accounts that had about the same stay first come, first served, and a user can be
told why somebody goes first ("has had between two and four times its share").
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from appliance.core.records import DEFAULT_SESSION

NUM_CLASSES = 16
"""Classes of use, 0 to 15; a lower one goes first."""

_EVEN_CLASS = 4
"""First class beyond the share; class 3 had between half its share and all of it."""

_MAX_HALF_LIVES = 64.0


class Account(NamedTuple):
    """Whom use is charged to."""

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
        self._grown: dict[Account, float] = {}

    def charge(self, account: Account, system_seconds: float, *, at_seconds: float) -> None:
        """Add use that ended at a time."""
        half_lives = self._half_lives(at_seconds)
        if half_lives > _MAX_HALF_LIVES:
            self._rebase(at_seconds)
            half_lives = 0.0
        grown = system_seconds * 2.0**half_lives
        self._grown[account] = self._grown.get(account, 0.0) + grown

    def used(self, account: Account, *, at_seconds: float) -> float:
        """Return an account's use as it counts at a time, in system-seconds."""
        return float(self._grown.get(account, 0.0) * 2.0 ** -self._half_lives(at_seconds))

    def accounts(self) -> Iterator[Account]:
        """Return everybody who ever used anything."""
        return iter(self._grown)

    def used_by(self, accounts: Sequence[Account], *, at_seconds: float) -> NDArray[np.float64]:
        """Return the use of many accounts, in system-seconds, in their order."""
        grown = np.fromiter((self._grown.get(a, 0.0) for a in accounts), np.float64, len(accounts))
        decay: float = 2.0 ** -self._half_lives(at_seconds)
        return grown * decay

    def _half_lives(self, at_seconds: float) -> float:
        return (at_seconds - self._epoch_seconds) / self._half_life_seconds

    def _rebase(self, at_seconds: float) -> None:
        factor = 2.0 ** -self._half_lives(at_seconds)
        self._grown = {account: grown * factor for account, grown in self._grown.items()}
        self._epoch_seconds = at_seconds


class UseClasses(NamedTuple):
    """Classes of use, one of each kind per account."""

    session: NDArray[np.int64]
    user: NDArray[np.int64]


def classify(
    accounts: Sequence[Account], used: NDArray[np.float64], shares: Mapping[str, float]
) -> UseClasses:
    """Sort accounts into classes by use over share.

    Args:
        accounts: Everybody who waits, runs or ever used anything.
        used: Their use, in the same order, in any one unit.
        shares: Shares of sessions; those not named have one share.
    """
    numbers: dict[str, int] = {}
    session = np.fromiter(
        (numbers.setdefault(account.session, len(numbers)) for account in accounts),
        np.int64,
        len(accounts),
    )
    by_session = np.bincount(session, used, len(numbers)).astype(np.float64)
    share = np.array([shares.get(name, 1.0) for name in numbers])
    num_users = np.bincount(session, minlength=len(numbers))
    session_class = _classes(_over(by_session, by_session.sum()), share / share.sum())
    user_class = _classes(_over(used, by_session[session]), 1.0 / num_users[session])
    return UseClasses(session_class[session], user_class)


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


def _over(
    part: NDArray[np.float64], whole: NDArray[np.float64] | np.float64
) -> NDArray[np.float64]:
    return np.divide(part, whole, out=np.zeros_like(part), where=np.asarray(whole) > 0)


def _classes(use: NDArray[np.float64], share: NDArray[np.float64]) -> NDArray[np.int64]:
    ratio = use / np.maximum(share, 1e-12)
    with np.errstate(divide="ignore"):
        steps = np.floor(np.log2(ratio)) + _EVEN_CLASS
    classes: NDArray[np.int64] = np.clip(steps, 0, NUM_CLASSES - 1).astype(np.int64)
    return classes
