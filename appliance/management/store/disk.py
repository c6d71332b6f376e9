"""The data directory's disk: how much is free, and warnings about it in words."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from appliance.core.errors import ClusterError, UserError, WscError

_MIB = 1 << 20

_RESERVE_SHARE = 0.05
"""Of a small disk no more than this is kept free."""
_RESERVE_FILES = 1000
"""New files that must be possible: a job takes some dozens."""
_RESUME_FACTOR = 1.25
"""So much more than what stops admissions has to be free before they go on, so that one job's log
does not stop and start them again and again."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSpace:
    """What a disk has.

    Attributes:
        free_bytes: What we may still write.
        free_files: How many files may still be made; None where the file system sets no limit.
    """

    total_bytes: int
    free_bytes: int
    free_files: int | None = None

    @classmethod
    def of(cls, path: Path) -> "DiskSpace":
        """Return what the disk of a directory has."""
        status = os.statvfs(path)
        return cls(
            total_bytes=status.f_blocks * status.f_frsize,
            free_bytes=status.f_bavail * status.f_frsize,
            free_files=status.f_favail if status.f_files else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskReserve:
    """What must be free on the disk before anything is started that writes to it.

    Attributes:
        num_bytes: So many bytes, and at most a twentieth of the disk; 0 sets no limit.
    """

    num_bytes: int

    def __post_init__(self) -> None:
        if self.num_bytes < 0:
            raise UserError(f"A disk cannot have {self.num_bytes:,} bytes kept free.")

    def shortage(self, space: DiskSpace, path: Path, *, was_short: bool) -> str:
        """Say what the disk lacks, so that nothing is started; empty if it lacks nothing.

        Args:
            space: What it has.
            path: The data directory, for the sentence.
            was_short: Whether it lacked something before; then it has to have a quarter more.
        """
        if not self.num_bytes:
            return ""
        factor = _RESUME_FACTOR if was_short else 1.0
        wanted = int(min(self.num_bytes, space.total_bytes * _RESERVE_SHARE) * factor)
        if space.free_bytes < wanted:
            return (
                f"the disk of {path} has {space.free_bytes / _MIB:,.0f} MiB free, and "
                f"{wanted / _MIB:,.0f} MiB must be"
            )
        if space.free_files is not None and space.free_files < _RESERVE_FILES * factor:
            return (
                f"the disk of {path} takes {space.free_files:,} more files, and "
                f"{_RESERVE_FILES * factor:,.0f} must be possible"
            )
        return ""


def disk_error(error: BaseException, data_dir: Path) -> WscError | None:
    """Return a sentence for what the disk refused; None if it was not that.

    Args:
        error: What was raised.
        data_dir: The data directory.
    """
    if not isinstance(error, OSError) or error.errno is None:
        return None
    where = error.filename or data_dir
    if error.errno in _FULL:
        free = DiskSpace.of(data_dir).free_bytes
        return ClusterError(
            f"{where} cannot be written: {error.strerror}; the disk has {free:,} bytes free.",
            hint="Free some space on it and start again; nothing that was kept is lost.",
        )
    if error.errno in _NOT_OURS:
        return ClusterError(
            f"{where} cannot be used: {error.strerror}.",
            hint=f"Let the user with uid {os.geteuid()} write to {data_dir} and all in it, on a "
            "disk that is mounted for writing, or give another --data-dir.",
        )
    if error.filename and Path(error.filename) in (data_dir, *data_dir.parents):
        return UserError(
            f"The data directory {data_dir} cannot be made: {error.strerror} ({error.filename}).",
            hint="Give another --data-dir.",
        )
    return None


@contextmanager
def disk_errors(data_dir: Path) -> Iterator[None]:
    """Let what the disk refuses in the block leave as a sentence."""
    try:
        yield
    except OSError as error:
        sentence = disk_error(error, data_dir)
        if sentence is None:
            raise
        raise sentence from error
