"""The ends of a process's own children."""

import os
from collections.abc import Iterator


def ended_children() -> Iterator[tuple[int, int]]:
    """Yield process id and exit code of every child that has ended and was not yielded before.

    The exit code is that of `os.waitstatus_to_exitcode`: negative for a signal.
    """
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)
