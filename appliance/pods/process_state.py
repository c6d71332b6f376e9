"""The kernel's view of a process on this node, for `appliance.core.cluster.liveness`."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance.core.cluster.liveness import Activity, ProcessLook, activity_of

_TICKS = os.sysconf("SC_CLK_TCK")
_STATE, _USER_TICKS, _SYSTEM_TICKS = 0, 11, 12
"""Fields of `stat`, counted from the one after the process's name (proc(5))."""


def look_at(pid: int) -> ProcessLook:
    """Return the states of a process's threads and the processor time that it has used."""
    states: list[str] = []
    ticks = 0
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):  # a thread may end meanwhile
                text = Path(f"/proc/{pid}/task/{thread}/stat").read_text()
                fields = text.rpartition(")")[2].split()
                states.append(fields[_STATE])
                ticks += int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
    return ProcessLook(states=states, cpu_seconds=ticks / _TICKS)


def named_processes(prefix: str) -> Mapping[str, int]:
    """Return the processes whose command line begins with a prefix, as a job's pods' do.

    Returns:
        Their ids by the first word of their command line.
    """
    found: dict[str, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):  # it may end meanwhile
                word = Path(f"/proc/{name}/cmdline").read_bytes().partition(b"\0")[0]
                if word.startswith(prefix.encode()):
                    found[word.decode(errors="replace")] = int(name)
    return found


@dataclass(slots=True, kw_only=True)
class SilentProcess:
    """A process that does not answer, looked at again and again.

    Attributes:
        pid: Its id; 0 if it is on another node or not known.
    """

    pid: int
    _first: tuple[ProcessLook, float] | None = None

    def activity(self, silent_seconds: float) -> Activity:
        """Return what it does after so long a silence."""
        if not self.pid:
            return Activity.UNKNOWN
        look = look_at(self.pid)
        if self._first is None:
            self._first = look, silent_seconds
        first, since = self._first
        return activity_of(look, first, watched_seconds=silent_seconds - since)

    def answered(self) -> None:
        """Forget its silence."""
        self._first = None
