"""Starts programs of the user, with the user's rights alone; `become_user` gives ours up."""

import marshal
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from appliance.user_code import become_user


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A program of the user.

    Attributes:
        programs: Paths that it may lie at; the first that can be run is.
        arguments: Its command line, without its own name.
        environment: Its whole environment.
        directory: Its working directory.
        uid: User to run as; None leaves that, and the groups, as they are.
        gid: Group to run as.
        groups: Other groups.
        memory_bytes: Address space that it may have at most; 0 leaves that as it is.
    """

    programs: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()
    memory_bytes: int = 0


class CannotStartError(Exception):
    """A program of the user was not started.

    Args:
        message: Why; one sentence without a full stop.
        is_missing: Whether there is no such program at all.
    """

    def __init__(self, message: str, *, is_missing: bool) -> None:
        super().__init__(message)
        self.is_missing = is_missing


def start(
    order: Order, *, output: int | None = None, pass_fds: tuple[int, ...] = ()
) -> "subprocess.Popen[bytes]":
    """Start a program of the user in a session of its own, from a thread that stays.

    Args:
        order: What to run.
        output: Descriptor that takes what it prints; None for our own output.
        pass_fds: Descriptors that it is to have.

    Raises:
        CannotStartError: It cannot be run.
    """
    request = os.memfd_create("order", os.MFD_CLOEXEC)
    told, tells = os.pipe()
    try:
        fields = {**asdict(order), "environment": dict(order.environment)}
        os.write(request, marshal.dumps(fields))
        os.lseek(request, 0, os.SEEK_SET)
        words = (os.getpid(), request, tells)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", become_user.__file__, *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            cwd="/",
            env={"LC_ALL": "C.UTF-8"},
            pass_fds=(request, tells, *pass_fds),
            start_new_session=True,
        )
    except BaseException:
        os.close(told)
        raise
    finally:
        os.close(request)
        os.close(tells)
    with os.fdopen(told, "rb") as report:
        problem = report.read()  # ends as the program begins
    if problem:
        process.wait()
        message, is_missing = marshal.loads(problem)
        raise CannotStartError(message, is_missing=is_missing)
    return process
