"""A process that forks others by order, so that their imports are paid for once."""

import os
import signal
import sys
from collections.abc import Callable


def fork_by_order(become: Callable[[], object]) -> None:
    """Take `start` and `kill` from standard input; `become` runs in the child and never returns."""
    child = 0
    for line in sys.stdin:
        if line.strip() == "start":
            child = os.fork()
            if child == 0:
                become()
        elif line.strip() == "kill":
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.write(1, b"killed\n")
