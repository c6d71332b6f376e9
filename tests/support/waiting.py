"""Waiting for a condition of another process, with a deadline and a story when it does not come."""

import os
import threading
import time
from collections.abc import Callable

_POLL_SECONDS = 0.1


def wait_until(
    condition: Callable[[], bool],
    *,
    seconds: float,
    what: str,
    seen: Callable[[], str] = lambda: "",
) -> None:
    """Return as soon as `condition` holds.

    Args:
        condition: Asked again and again.
        seconds: How long to wait at most, on a machine that does nothing else.
        what: What is waited for, for the failure's message.
        seen: What there is to see instead, for the failure's message.
    """
    pause = threading.Event()
    limit = patience(seconds)
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come in {limit:.0f} s\n{seen()}"
        pause.wait(_POLL_SECONDS)


def patience(seconds: float) -> float:
    """Return how long to wait for what takes so many seconds where nothing else runs.

    A processor that several share gives each of them its part.
    """
    sharing, _, _ = os.getloadavg()
    return seconds * max(1.0, sharing / (os.cpu_count() or 1))
