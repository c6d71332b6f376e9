"""Becomes a program of the user, with the user's rights alone, that dies with the pod it is of.

Runs as a script, before anything of ours is imported: `user_exec.py PARENT_PID ORDER REPORT`, where
ORDER is a descriptor with an `Order` as JSON, and REPORT one that takes what went wrong, if
anything does. It starts with our rights and with none of the user's variables, and gives the rights
up before it enters the user's directory or looks for the program: so neither has to be readable to
us, nor Python and this file to the user, and whatever fails from then on would fail for the user
too. The kernel's parent-death signal survives `exec`, and a change of user clears it, so it is set
after that.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass

_PR_SET_PDEATHSIG = 1
_UMASK = 0o022
_MAX_SHEBANG_BYTES = 256
_NOWHERE = (2, 20)  # ENOENT, ENOTDIR: another candidate may be there
_DENIED = 13


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
    """

    programs: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    directory: str
    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()


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
        os.write(request, json.dumps(asdict(order)).encode())
        os.lseek(request, 0, os.SEEK_SET)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(request), str(tells)],
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
        raise CannotStartError(**json.loads(problem))
    return process


def main() -> None:
    """Become the program."""
    parent, request, report = map(int, sys.argv[1:])
    os.set_inheritable(report, False)
    with os.fdopen(request, "rb") as file:
        order = json.loads(file.read())
    try:
        _become_user(order["uid"], order["gid"], order["groups"])
        os.umask(_UMASK)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the signal was set
            sys.exit(1)
        problem, is_missing = _become_program(order)
    except OSError as error:
        problem, is_missing = f"user {order['uid']} cannot be: {error.strerror}", False
    os.write(report, json.dumps({"message": problem, "is_missing": is_missing}).encode())
    sys.exit(126)


def _become_user(uid: int | None, gid: int | None, groups: list[int]) -> None:
    if uid is None:
        return
    os.setgroups(groups)
    if gid is not None:
        os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _become_program(order: dict[str, object]) -> tuple[str, bool]:
    """Become the program, or return why not and whether it is because there is none."""
    programs, arguments = order["programs"], order["arguments"]
    environment, directory = order["environment"], order["directory"]
    assert isinstance(programs, list)
    assert isinstance(arguments, list)
    assert isinstance(environment, dict)
    who = f"user {os.getuid()}"
    try:
        os.chdir(str(directory))
    except OSError as error:
        return f"the directory {directory} cannot be entered by {who}: {error.strerror}", False
    denied = ""
    for program in programs:
        try:
            os.execve(program, [program, *arguments], environment)
        except OSError as error:
            why = _why_not(program, error, who)
            if error.errno == _DENIED:
                denied = denied or why
            elif error.errno not in _NOWHERE or os.path.lexists(program):
                return why, False
    return (denied, False) if denied else (f"there is no {' nor '.join(programs)}", True)


def _why_not(program: str, error: OSError, who: str) -> str:
    """Say why a program cannot be run: a script's interpreter may be at fault, not the script."""
    interpreter = _interpreter_of(program)
    if interpreter and not os.access(interpreter, os.X_OK):
        why = "cannot be run" if os.path.lexists(interpreter) else "is not there"
        return f"{program} names the interpreter {interpreter}, which {why} for {who}"
    return f"{program} cannot be run by {who}: {error.strerror}"


def _interpreter_of(program: str) -> str:
    """Return the interpreter that a script names in its first line; empty if it names none."""
    try:
        with open(program, "rb") as file:
            first = file.read(_MAX_SHEBANG_BYTES).split(b"\n", 1)[0]
    except OSError:
        return ""
    words = first[2:].split() if first.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words else ""


if __name__ == "__main__":
    main()
