"""How management's own process ends, or begins anew, when what is in memory no longer counts."""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn


def end_at_once() -> NoReturn:
    """End this process without an orderly stop: all else is for another management, or the next."""
    os._exit(3)


def start_again() -> NoReturn:
    """Begin this process anew, with the same command line: its children, and so the pods, stay."""
    os.execv(sys.executable, [sys.executable, *command_line(sys.orig_argv)])


def command_line(command: Sequence[str]) -> Sequence[str]:
    """Return the arguments of the interpreter with which a process begins anew.

    Args:
        command: The whole command line of the process. `appliance serve OPTIONS DESCRIPTOR`, what
            `appliance up` starts, loses its descriptor: `up` has had its answer.
    """
    arguments = list(command[1:])
    return arguments[:-1] if "serve" in arguments[-3:-2] else arguments
