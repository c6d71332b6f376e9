"""A control group with a memory limit for a test's processes."""

import contextlib
import os
import uuid
from pathlib import Path

import pytest

_ROOT = Path("/sys/fs/cgroup")


class MemoryGroup:
    """A group; see `memory_group`."""

    def __init__(self, directory, limit_file, peak_file):
        self._directory, self._limit, self._peak = directory, limit_file, peak_file

    def limit(self, num_bytes):
        (self._directory / self._limit).write_text(str(num_bytes))

    @contextlib.contextmanager
    def joined(self):
        """Put this process into the group for a while; what it starts meanwhile stays in it."""
        own = _own_group(self._directory.parent)
        (self._directory / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            (own / "cgroup.procs").write_text(str(os.getpid()))

    def num_failures(self):
        """Return how often the kernel has killed a process of the group for want of memory."""
        for name, key in (("memory.events", "oom_kill"), ("memory.oom_control", "oom_kill")):
            if (file := self._directory / name).exists():
                lines = dict(line.split() for line in file.read_text().splitlines())
                return int(lines.get(key, 0))
        raise AssertionError(f"{self._directory} counts no failures")

    def peak_bytes(self):
        return int((self._directory / self._peak).read_text())


@contextlib.contextmanager
def memory_group():
    """Yield a group without processes; skips the test where none can be made."""
    name = f"wsc-test-{uuid.uuid4().hex[:8]}"
    if (_ROOT / "memory").is_dir():
        directory, files = _ROOT / "memory" / name, _V1
    else:
        directory, files = _ROOT / name, _V2
    try:
        directory.mkdir()
    except OSError as error:
        pytest.skip(f"no control group with a memory limit can be made here: {error}")
    try:
        if not (directory / files[0]).exists():
            pytest.skip("control groups have no memory controller here")
        yield MemoryGroup(directory, *files)
    finally:
        _remove(directory)


_V1 = ("memory.limit_in_bytes", "memory.max_usage_in_bytes")
_V2 = ("memory.max", "memory.peak")


def _own_group(root):
    """Return the directory of the group that this process is in, below a controller's root."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if root.name in controllers.split(",") or (root == _ROOT and not controllers):
            return root / path.lstrip("/")
    raise AssertionError(f"this process is in no group below {root}")


def _remove(directory):
    for pid in (directory / "cgroup.procs").read_text().split():
        # A test that failed may have left some; they go to where a group's parent is.
        with contextlib.suppress(OSError):
            (directory.parent / "cgroup.procs").write_text(pid)
    os.rmdir(directory)
