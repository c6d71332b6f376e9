"""Looking at processes that may end, or become another program, at any moment."""

from pathlib import Path

import psutil


def command_of(process: psutil.Process) -> list[str]:
    """Return a process's command line; empty if there is none to be read.

    It has ended, or its other threads end at this moment so that one of them may exec another
    program, in which it looks like a zombie.
    """
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []


def name_of(process: psutil.Process) -> str:
    """Return a process's name; empty if it has ended."""
    try:
        return process.name()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return ""


def variables_of(process: psutil.Process) -> dict[str, str]:
    """Return the environment that a process was started with; empty if there is none to be read."""
    try:
        return process.environ()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return {}


def directory_of(process: psutil.Process) -> str:
    """Return a process's working directory; empty if there is none to be read."""
    try:
        return process.cwd()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return ""


def programs_in(directory: Path) -> list[int]:
    """Return the processes of users that were forked for a directory.

    They show the command line of what imports for them; what a library starts for itself does not.
    """
    return [
        process.pid
        for process in psutil.process_iter()
        if directory_of(process) == str(directory)
        and any(word.startswith("/proc/self/fd/") for word in command_of(process))
    ]


def owner_of(process: psutil.Process) -> int | None:
    """Return the id of the user that a process runs as; None if it has ended."""
    try:
        return process.uids().real
    except psutil.NoSuchProcess:
        return None


def is_alive(pid: int) -> bool:
    """Return whether there is a process of that id that has not ended."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
