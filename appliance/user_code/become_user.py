"""Becomes a program of the user, with the user's rights alone, that dies with the pod it is of.

Runs as a script, before anything of ours is imported: `become_user.py PARENT_PID ORDER REPORT`,
where ORDER is a descriptor with the fields of `user_exec.Order`, and REPORT one that takes what
went wrong, if anything does. It starts with our rights and with none of the user's variables, and
gives the rights up before it enters the user's directory or looks for the program: so neither has
to be readable to us, nor Python and this file to the user, and whatever fails from then on would
fail for the user too. The kernel's parent-death signal survives `exec`, and a change of user clears
it, so it is set after that. It imports little, since every start waits for it.
"""

import ctypes
import marshal
import os
import sys

_PR_SET_PDEATHSIG, _SIGKILL = 1, 9
_UMASK = 0o022
_MAX_SHEBANG_BYTES = 256
_NOWHERE = (2, 20)  # ENOENT, ENOTDIR: another candidate may be there
_DENIED = 13


def main() -> None:
    """Become the program."""
    parent, request, report = map(int, sys.argv[1:])
    os.set_inheritable(report, False)
    with open(request, "rb") as file:
        order = marshal.loads(file.read())
    try:
        _become_user(order["uid"], order["gid"], order["groups"])
        _limit_memory(order["memory_bytes"])
        os.umask(_UMASK)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL)
        if os.getppid() != parent:  # it died before the signal was set
            sys.exit(1)
        problem = _become_program(
            order["programs"], order["arguments"], order["environment"], order["directory"]
        )
    except (OSError, ValueError) as error:  # the latter of text that no program can be given
        problem = f"nothing can be run as user {order['uid']}: {error}", False
    os.write(report, marshal.dumps(problem))
    sys.exit(126)


def _become_user(uid: int | None, gid: int | None, groups: tuple[int, ...]) -> None:
    if uid is None:
        return
    os.setgroups(groups)
    if gid is not None:
        os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _limit_memory(num_bytes: int) -> None:
    if not num_bytes:
        return
    import resource  # noqa: PLC0415 - for the few programs that have a limit

    _, most = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY or num_bytes < most:
        resource.setrlimit(resource.RLIMIT_AS, (num_bytes, num_bytes))


def _become_program(
    programs: tuple[str, ...],
    arguments: tuple[str, ...],
    environment: dict[str, str],
    directory: str,
) -> tuple[str, bool]:
    """Become the program, or return why not and whether it is because there is none."""
    who = f"user {os.getuid()}"
    try:
        os.chdir(directory)
    except OSError as error:
        return f"the directory {directory} cannot be entered by {who}: {error.strerror}", False
    denied = ""
    for program in programs:
        try:
            os.execve(program, (program, *arguments), environment)
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
