"""Whom the code of a job's user runs as."""

import ctypes
import os
import platform
import pwd
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from appliance.core.errors import InternalError

_Result = TypeVar("_Result")

_SYS_SETGROUPS = {"x86_64": 116, "aarch64": 159}
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUser:
    """Whom the code of a job's user runs as.

    Attributes:
        uid: User; None leaves user and groups as they are.
        gid: Group.
        groups: Other groups.
        name: Login name.
        home: Home directory.
    """

    uid: int | None
    gid: int | None
    groups: tuple[int, ...]
    name: str
    home: str

    @classmethod
    def of(cls, uid: int | None, gid: int | None, login: str = "") -> "JobUser":
        """Return the user of these ids; ourselves where there are none or we may not change.

        Args:
            uid: User id; None for ourselves.
            gid: Group id; None for the user's own.
            login: Name that the user goes by here; empty for that of the system.
        """
        wanted = os.geteuid() if uid is None else uid
        try:
            entry = pwd.getpwuid(wanted)
            name, home, own_gid = entry.pw_name, entry.pw_dir, entry.pw_gid
        except KeyError:  # a user that only the user node knows
            name, home, own_gid = "", "/", wanted
        known = login or name or str(wanted)
        if os.geteuid() != 0 or wanted == 0:
            return cls(uid=None, gid=None, groups=(), name=known, home=home)
        group = own_gid if gid is None else gid
        groups = tuple(os.getgrouplist(name, group)) if name else (group,)
        return cls(uid=wanted, gid=group, groups=groups, name=known, home=home)

    def give(self, descriptor: int) -> None:
        """Make an open file or directory the user's own, if that is somebody else than we."""
        if self.uid is not None:
            os.fchown(descriptor, self.uid, -1 if self.gid is None else self.gid)

    def look(self, question: Callable[[], _Result]) -> _Result:
        """Ask the file system something with the user's rights, in a thread that has no others.

        The kernel keeps these ids for each thread (setfsuid(2)); only the C library makes the
        others the same for all.
        """
        if self.uid is None:
            return question()
        answers: list[_Result] = []
        errors: list[BaseException] = []

        def ask() -> None:
            try:
                self._become()
                answers.append(question())
            except BaseException as error:  # noqa: BLE001 - raised again by whoever asked
                errors.append(error)

        thread = threading.Thread(target=ask, name="with the user's rights")
        thread.start()
        thread.join()
        if errors:
            raise errors[0]
        return answers[0]

    def _become(self) -> None:
        number = _SYS_SETGROUPS.get(platform.machine())
        groups = (ctypes.c_uint32 * len(self.groups))(*self.groups)
        if number is None or _libc.syscall(number, len(self.groups), groups) != 0:
            raise InternalError(f"The groups of user {self.uid} cannot be taken on.")
        gid = self.uid if self.gid is None else self.gid
        for take_on, wanted in ((_libc.setfsgid, gid), (_libc.setfsuid, self.uid)):
            take_on(wanted)
            if take_on(-1) != wanted:  # tells the present id
                raise InternalError(f"The file system does not see us as user {self.uid}.")
