"""Whether the tensors of a session are in memory, or in a file that the kernel pages in and out.

State that fills most of the memory which the pod may use goes to a file without a name in the job's
directory. Mapped, it behaves as memory does, is gone when the last process that maps it ends, and
the kernel may write any of it back and drop it from memory.
"""

from dataclasses import dataclass
from pathlib import Path

from appliance.core.plans.shard_count import TENSOR_SHARE

_MEMORY_INFO = Path("/proc/meminfo")
_OWN_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")
_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Backing:
    """Where tensors lie.

    Attributes:
        directory: Where files without a name are made; those of snapshots always are.
        is_on_disk: Whether state lies in such a file, too.
        room_bytes: Memory that tensors may take.
    """

    directory: Path
    is_on_disk: bool = False
    room_bytes: int = 0

    @property
    def state_directory(self) -> Path | None:
        """Directory of the file that holds state; None if it lies in memory."""
        return self.directory if self.is_on_disk else None


def choose_backing(need_bytes: int, *, limit_bytes: int, directory: Path) -> Backing:
    """Return where tensors of a size lie in a pod that may use so much memory.

    Args:
        need_bytes: Bytes of all tensors of the session.
        limit_bytes: Memory that the pod may use.
        directory: Where files are made.
    """
    room = int(limit_bytes * TENSOR_SHARE)
    return Backing(directory=directory, is_on_disk=need_bytes > room, room_bytes=room)


def memory_limit() -> int:
    """Return the memory that this process may use, in bytes: the machine's, or its group's."""
    return min([_machine_bytes(), *_group_limits()])


def _machine_bytes() -> int:
    for line in _MEMORY_INFO.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemTotal":
            return int(value.split()[0]) * _KIB
    raise OSError(f"{_MEMORY_INFO} does not say how much memory the machine has.")


def _group_limits() -> list[int]:
    """Return the limits of the control groups that this process is in; both versions are read."""
    found: list[int] = []
    for line in _OWN_GROUPS.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        relative = path.lstrip("/")
        if not controllers:
            files = [_GROUPS / relative / "memory.max"]
        elif "memory" in controllers.split(","):
            files = [_GROUPS / "memory" / relative / "memory.limit_in_bytes"]
        else:
            continue
        found += [int(text) for file in files if (text := _text(file)).isdigit()]
    return found


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:  # the group's files are not mounted here
        return ""
