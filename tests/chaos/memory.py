"""Control groups with next to no memory, into which a process of a job is put."""

import contextlib
import os
import uuid
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_LIMIT_BYTES = 4096
"""What a process has already stays charged where it was: the next page that it needs ends it."""


def can_be_limited():
    """Whether this user may limit the memory of processes."""
    try:
        _remove(_make())
    except OSError:
        return False
    return True


@contextlib.contextmanager
def limited(pid):
    """Leave a process no more memory than it has, until the end of this."""
    home = _group_of(pid)
    group = _make()
    try:
        (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for left in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (home / "cgroup.procs").write_text(left)
        _remove(group)


def _make():
    root = _ROOT / "memory" if (_ROOT / "memory").is_dir() else _ROOT
    group = root / f"wsc-chaos-{uuid.uuid4().hex[:8]}"
    group.mkdir()
    name = "memory.limit_in_bytes" if root != _ROOT else "memory.max"
    try:
        (group / name).write_text(str(_LIMIT_BYTES))
    except OSError:
        _remove(group)
        raise
    return group


def _remove(group):
    os.rmdir(group)


def _group_of(pid):
    has_controllers = (_ROOT / "memory").is_dir()
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if ("memory" in controllers.split(",")) if has_controllers else not controllers:
            return (_ROOT / "memory" if has_controllers else _ROOT) / path.lstrip("/")
    raise ProcessLookupError(pid)
