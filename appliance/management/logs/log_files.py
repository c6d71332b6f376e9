"""Log files whose beginning may have been removed.

A pod writes its log for as long as it lives, by a descriptor that nobody can take from it. To keep
the file from filling the disk its beginning is returned to the file system as a hole (Linux,
fallocate(2) with FALLOC_FL_PUNCH_HOLE). Offsets do not change, so followers of the log continue
where they were, and no line is torn or lost between a copy and a rename.

Pods can write in the same directory, so neither a log nor its directory may be a link.
"""

import ctypes
import errno
import os
from pathlib import Path

from appliance.files.beneath import Beneath, open_file

_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_BLOCK_BYTES = 1 << 16
_HOLE_UNIT_BYTES = 4096

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


def kept_from(path: Path) -> int:
    """Return where the first whole stored line begins; 0 if all are stored, or without a file."""
    try:
        with open(_open(path), "rb") as file:
            first = os.lseek(file.fileno(), 0, os.SEEK_DATA)
            if first == 0:
                return 0
            file.seek(first)
            return first + file.read(_BLOCK_BYTES).find(b"\n") + 1
    except FileNotFoundError:
        return 0
    except OSError as error:
        if error.errno != errno.ENXIO:  # nothing but a hole, or empty
            raise
        return path.stat().st_size


def kept_bytes(path: Path) -> int:
    """Return how much of a file is stored; 0 for an absent one."""
    try:
        return path.stat().st_size - kept_from(path)
    except FileNotFoundError:
        return 0


def read_log(path: Path, offset: int, max_bytes: int) -> tuple[int, bytes]:
    """Read from an offset on, or from the first stored byte if that is later.

    Returns:
        Where the bytes begin, and them; none at the end of the file or for an absent one.
    """
    try:
        with open(_open(path), "rb") as file:
            start = max(offset, kept_from(path))
            file.seek(start)
            return start, file.read(max_bytes)
    except FileNotFoundError:
        return offset, b""


def drop_head(path: Path, keep_bytes: int) -> int:
    """Give all but the end of a file back to the file system.

    Args:
        path: The file; others may write to it meanwhile.
        keep_bytes: About how much of its end to keep.

    Returns:
        How many bytes of disk that gave back.

    Raises:
        OSError: The file system knows no holes.
    """
    descriptor = _open(path, os.O_RDWR)
    try:
        before = os.fstat(descriptor)
        end = (before.st_size - keep_bytes) // _HOLE_UNIT_BYTES * _HOLE_UNIT_BYTES
        if end <= 0:
            return 0
        if _libc.fallocate(descriptor, _PUNCH_HOLE | _KEEP_SIZE, 0, end) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
        return (before.st_blocks - os.fstat(descriptor).st_blocks) * 512
    finally:
        os.close(descriptor)


def tail_offset(path: Path, num_lines: int) -> int:
    """Return where the last lines of a file begin; where it is kept from if it has no more.

    Args:
        path: The file.
        num_lines: How many lines; a last one without a newline counts.
    """
    floor = kept_from(path)
    with open(_open(path), "rb") as file:
        end = file.seek(0, 2)
        if num_lines <= 0:
            return end
        position, missing = end, num_lines + 1
        while position > floor:
            start = max(floor, position - _BLOCK_BYTES)
            file.seek(start)
            block = file.read(position - start)
            if position == end and not block.endswith(b"\n"):
                missing -= 1
            for at in range(len(block) - 1, -1, -1):
                if block[at : at + 1] == b"\n":
                    missing -= 1
                    if missing == 0:
                        return start + at + 1
            position = start
    return floor


def _open(path: Path, flags: int = os.O_RDONLY) -> int:
    directory = path.parent
    return open_file(Beneath(root=directory.parent, parts=(directory.name, path.name)), flags)
