"""Log files whose beginning may have been removed.

A pod writes its log for as long as it lives, by a descriptor that nobody can take from it. To keep
the file from filling the disk its beginning is returned to the file system as a hole (Linux,
fallocate(2) with FALLOC_FL_PUNCH_HOLE). Offsets do not change, so followers of the log continue
where they were, and no line is torn or lost between a copy and a rename.

Pods can write in the same directory, so neither a log nor its directory may be a link. Nor does a
log decide how long a thread of ours is held up: every function here reads at most `MAX_TAIL_BYTES`,
or what its caller asks for, whatever holes and lines a file is made of.
"""

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from appliance.files.beneath import Beneath, open_file

MAX_TAIL_BYTES = 16 << 20
"""How far from its end a log is looked through for its last lines; it takes 10 ms."""

_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_BLOCK_BYTES = 1 << 16
_HOLE_UNIT_BYTES = 4096

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


def kept_from(path: Path) -> int:
    """Return where the first whole stored line begins; 0 if all are stored, or without a file."""
    with _opened(path) as file:
        return 0 if file is None else _kept_from(file)


def kept_bytes(path: Path) -> int:
    """Return how much of a file is stored; 0 for an absent one."""
    with _opened(path) as file:
        return 0 if file is None else os.fstat(file).st_size - _kept_from(file)


def size_of(path: Path) -> int:
    """Return how long a file is, with what was removed of it; 0 for an absent one."""
    with _opened(path) as file:
        return 0 if file is None else os.fstat(file).st_size


def read_log(path: Path, offset: int, max_bytes: int) -> tuple[int, bytes]:
    """Read from an offset on, or from the first stored byte after it.

    Returns:
        Where the bytes begin, and them; none at the end of the file or for an absent one.
    """
    with _opened(path) as file:
        if file is None:
            return offset, b""
        start = _next_stored(file, max(offset, _kept_from(file)))
        return start, os.pread(file, max_bytes, start)


def pieces(path: Path, start: int, *, max_bytes: int) -> Iterator[bytes]:
    """Yield what is stored of a file from an offset to its present end.

    Args:
        path: The file.
        start: The offset.
        max_bytes: Bytes of a piece.
    """
    end, offset = size_of(path), start
    while offset < end:
        offset, data = read_log(path, offset, max_bytes)
        if not data[: end - offset]:
            return
        yield data[: end - offset]
        offset += len(data)


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
    """Return where the last lines of a file begin.

    Args:
        path: The file.
        num_lines: How many lines; a last one without a newline counts.

    Returns:
        Where it is kept from if it has no more lines; or, if they are longer than `MAX_TAIL_BYTES`,
        where so many bytes before its end begin. 0 for an absent file.
    """
    with _opened(path) as file:
        return 0 if file is None else _tail_offset(file, num_lines)


def _tail_offset(file: int, num_lines: int) -> int:
    end = os.fstat(file).st_size
    if num_lines <= 0:
        return end
    floor = max(_kept_from(file), end - MAX_TAIL_BYTES)
    position, missing = end, num_lines + 1
    while position > floor:
        start = max(floor, position - _BLOCK_BYTES)
        block = os.pread(file, position - start, start)
        if position == end and not block.endswith(b"\n"):
            missing -= 1
        found = block.count(b"\n")
        if found >= missing:
            return start + _behind_newline(block, missing)
        missing -= found
        position = start
    return floor


def _behind_newline(block: bytes, number: int) -> int:
    """Return where the line behind a newline begins, counted from the last newline, which is 1."""
    at = len(block)
    for _ in range(number):
        at = block.rindex(b"\n", 0, at)
    return at + 1


def _kept_from(file: int) -> int:
    first = _next_stored(file, 0)
    if first == 0:
        return 0
    return first + os.pread(file, _BLOCK_BYTES, first).find(b"\n") + 1


def _next_stored(file: int, offset: int) -> int:
    """Return an offset, or where the hole that it lies in ends; the file's end if all is a hole."""
    try:
        return os.lseek(file, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:  # nothing but a hole up to the end, or behind it
            raise
        return max(offset, os.fstat(file).st_size)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int | None]:
    """Open an ordinary file; None for an absent one."""
    try:
        descriptor = _open(path)
    except FileNotFoundError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open(path: Path, flags: int = os.O_RDONLY) -> int:
    directory = path.parent
    return open_file(Beneath(root=directory.parent, parts=(directory.name, path.name)), flags)
