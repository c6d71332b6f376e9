"""Notes when the client comes to certain points, by its own log lines and calls.

Runs inside the client. Everything is wall time of one monotonic clock, as seconds since the process
began.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MARKS = {
    "Compiling the model": "compile begins",
    "Compile was successful": "compile ends",
    "Initiating a new execute wsjob": "execute requested",
    "Preparing to execute": "preparing to execute",
    "About to send initial weights": "weights begin",
    "Finished sending initial weights": "weights end",
    "Finalizing appliance staging": "staging ends",
    "Appliance staging is complete": "streaming begins",
    "Beginning appliance run": "run begins",
}
"""Beginnings of the client's log lines, and what they stand for."""


def _started_seconds() -> float:
    """Return when this process began, in seconds since the machine did."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


class Timeline(logging.Handler):
    """Keeps when each mark was first seen, and the calls that were timed."""

    def __init__(self) -> None:
        super().__init__(level=logging.INFO)
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - _started_seconds()
        self._began = time.monotonic() - age
        self.marks: dict[str, tuple[float, float]] = {}
        self.calls: dict[str, list[tuple[float, float, int]]] = {}
        self._guard = threading.Lock()
        logging.getLogger().addHandler(self)
        logging.getLogger().setLevel(logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        """Note a log line if it is a mark."""
        text = record.getMessage()
        for beginning, name in MARKS.items():
            if text.startswith(beginning):
                self.mark(name)

    def mark(self, name: str) -> None:
        """Note a point, the first time it is reached, with the processor time used so far."""
        self.marks.setdefault(name, (self.now(), time.process_time()))

    def now(self) -> float:
        """Return the seconds since the process began."""
        return time.monotonic() - self._began

    def time_calls(self, owner: type, method: str, num_bytes: Callable[..., int]) -> None:
        """Note begin, end and size of every call of a method from now on.

        Args:
            owner: Its class.
            method: Its name.
            num_bytes: Returns the size, given the result and the arguments.
        """
        call = getattr(owner, method)

        @functools.wraps(call)
        def timed(*arguments: Any, **options: Any) -> Any:
            begin = self.now()
            result = call(*arguments, **options)
            with self._guard:
                entry = (begin, self.now(), num_bytes(result, arguments))
                self.calls.setdefault(method, []).append(entry)
            return result

        setattr(owner, method, timed)

    def write(self, path: Path) -> None:
        """Write everything as JSON."""
        path.write_text(json.dumps({"marks": self.marks, "calls": self.calls}))
