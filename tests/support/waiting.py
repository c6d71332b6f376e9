"""Waiting for a condition of another process, with a deadline and a story when it does not come."""

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
        seconds: How long to wait at most.
        what: What is waited for, for the failure's message.
        seen: What there is to see instead, for the failure's message.
    """
    pause = threading.Event()
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come in {seconds} s\n{seen()}"
        pause.wait(_POLL_SECONDS)
