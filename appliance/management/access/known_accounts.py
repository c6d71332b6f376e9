"""Accounts as they were read a moment ago, so that a call need not ask the database.

And the accounts of this machine, of which its C library knows.
"""

import getpass
import os
import pwd
from collections.abc import Mapping
from threading import Lock

from appliance.core.clock import Clock
from appliance.core.cluster.access import Account
from appliance.core.cluster.identity import LocalAccount
from appliance.core.cluster.records import User
from appliance.core.errors import UserError
from appliance.core.integers import MAX_ID
from appliance.storage.users.access import AccessRepository

_MAX_AGE_SECONDS = 1.0
"""How late a change that another process made to an account may be noticed."""


class KnownAccounts:
    """Finds accounts; for any thread.

    Args:
        repository: Where accounts are stored.
        clock: Says how old what was read is.
    """

    def __init__(self, repository: AccessRepository, clock: Clock) -> None:
        self._repository = repository
        self._clock = clock
        self._lock = Lock()
        self._by_name: Mapping[str, Account] = {}
        self._by_uid: Mapping[int, Account] = {}
        self._read_at: float | None = None

    def by_name(self, name: str) -> Account | None:
        """Return the account of a name; None if there is none.

        One that is not known is looked for in the database: another process may have made it since.
        """
        if (found := self._read()[0].get(name)) is None:
            self.forget()
            found = self._read()[0].get(name)
        return found

    def by_uid(self, uid: int) -> Account | None:
        """Return the account of a uid; None if there is none."""
        return self._read()[1].get(uid)

    def has(self, user: User) -> bool:
        """Whether a user has an account, and not another one who has got their id since."""
        account = self.by_uid(user.uid)
        return account is not None and account.name == user.name

    def forget(self) -> None:
        """Read the accounts again at the next question: one was changed here."""
        with self._lock:
            self._read_at = None

    def _read(self) -> tuple[Mapping[str, Account], Mapping[int, Account]]:
        now = self._clock.monotonic_seconds()
        with self._lock:
            if self._read_at is not None and now - self._read_at <= _MAX_AGE_SECONDS:
                return self._by_name, self._by_uid
        accounts = self._repository.accounts()
        with self._lock:
            self._by_name = {account.name: account for account in accounts}
            self._by_uid = {account.uid: account for account in accounts}
            self._read_at = now
            return self._by_name, self._by_uid


def check_uid(uid: int) -> None:
    """Raise `UserError` if a number can be nobody's id."""
    if not 0 <= uid <= MAX_ID:
        raise UserError(f"{uid} is no user id; they go from 0 to {MAX_ID}.")


def this_user() -> User:
    """Return who runs this process."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a container's uid without an entry in passwd
        name = "operator"
    return User(uid=os.getuid(), gid=os.getgid(), name=name)


def find_account(uid: int) -> LocalAccount | None:
    """Return the account that this machine has for a user id; None if there is none."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return None
    groups = frozenset(os.getgrouplist(entry.pw_name, entry.pw_gid))
    return LocalAccount(name=entry.pw_name, gid=entry.pw_gid, groups=groups)
