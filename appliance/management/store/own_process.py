"""How management's own process exits or restarts itself, and its interpreter settings."""

import gc
import os
import sys
from collections.abc import Coroutine, Sequence
from typing import NoReturn

import uvloop

_COLLECTOR_THRESHOLDS = (50_000, 20, 20)
_SWITCH_SECONDS = 0.02


def run_event_loop(main: Coroutine[None, None, None]) -> None:
    """Run management in an event loop of its own; see docs/decisions/0122.

    The event loop and the reconciler share Python's lock. Each lets it go at every system call, so
    Python takes it away less often than it does by default: after 20 ms instead of 5.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    uvloop.run(main)


def end_at_once() -> NoReturn:
    """End this process without an orderly stop: all else is for another management, or the next."""
    os._exit(3)


def start_again() -> NoReturn:
    """Restart this process with the same command line: its children, and so the pods, stay."""
    os.execv(sys.executable, [sys.executable, *command_line(sys.orig_argv)])


def command_line(command: Sequence[str]) -> Sequence[str]:
    """Return the arguments of the interpreter with which a process restarts.

    Args:
        command: The whole command line of the process. `appliance serve OPTIONS ANSWER`, what
            `appliance up` starts, loses the descriptor of its answer: `up` has had that.
    """
    arguments = list(command[1:])
    return arguments[:-1] if "serve" in arguments[-3:-2] else arguments


def spare_the_collector() -> None:
    """Let Python look for garbage in cycles more rarely, and never at what a start has left.

    Calls and turns make thousands of short-lived values a second, hardly any of them in cycles, and
    a hundred thousand waiting jobs are values that stay. The default looks at all of them again and
    again: a tenth of the time of a busy appliance.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTOR_THRESHOLDS)
