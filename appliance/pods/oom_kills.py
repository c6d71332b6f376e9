"""Whether the kernel has killed a process of this control group because memory ran out."""

import signal
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_SELF = Path("/proc/self/cgroup")

WORDS = "the kernel killed it because memory ran out"


class OomKills:
    """Counts what the kernel kills of this control group, by limits and for want of memory alike.

    Args:
        root: Where control groups are mounted.
        memberships: The file that names those of this process.
    """

    def __init__(self, root: Path = _ROOT, memberships: Path = _SELF) -> None:
        self._file = _counter_file(root, memberships)
        self._known = self._count()

    def explain(self, exit_code: int) -> str:
        """Say why a process ended, if that was for want of memory; empty if nothing says so.

        Args:
            exit_code: How it ended; the negative number of a signal.
        """
        if exit_code != -signal.SIGKILL:
            return ""
        count = self._count()
        has_risen, self._known = count > self._known, count
        return WORDS if has_risen else ""

    def _count(self) -> int:
        try:
            lines = self._file.read_text().splitlines() if self._file is not None else []
        except OSError:  # the control group is gone, or not ours to look at: nothing says so
            return 0
        counts = dict(line.split(maxsplit=1) for line in lines if " " in line)
        return int(counts.get("oom_kill", 0))


def _counter_file(root: Path, memberships: Path) -> Path | None:
    """Return the file with the count; None if this system keeps none.

    In a container the mounted root is often the container's own group, whatever its path is.
    """
    try:
        groups = [line.split(":", 2) for line in memberships.read_text().splitlines()]
    except OSError:
        return None
    places = []
    for _, controllers, path in groups:
        inner = path.lstrip("/")
        if "memory" in controllers.split(","):
            top = root / "memory"
            places += [top / inner / "memory.oom_control", top / "memory.oom_control"]
        elif not controllers:
            places += [root / inner / "memory.events", root / "memory.events"]
    return next((place for place in places if place.is_file()), None)
