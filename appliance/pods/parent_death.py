"""Becomes another program that dies with the pod that started it.

Runs as a script, before anything of ours is imported: `leash.py PARENT_PID PROGRAM ARGUMENT...`.
The kernel's parent-death signal survives `exec`, and a change of user would clear it, so it is set
last, in the new process itself.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Set the parent-death signal and become the program."""
    parent = int(sys.argv[1])
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the signal was set
        sys.exit(1)
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
