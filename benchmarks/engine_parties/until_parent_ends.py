"""Runs a command that the kernel ends together with whoever started it.

    python until_parent_ends.py PARENT COMMAND...

PARENT is its process id. A benchmark that is killed cannot end its parties itself, and they would
go on waiting with all of their memory. The command takes this process's place, so signals and exit
code are its own.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def ending_with_this_process(command: Sequence[str]) -> tuple[str, ...]:
    """Return a command that is ended with this process; to be started by its main thread."""
    return (sys.executable, __file__, str(os.getpid()), *command)


def main() -> None:
    """Become the command."""
    parent, *command = sys.argv[1:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit(f"process {parent} has ended")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
