"""Memory that several processes map: anonymous files, so nothing can be left behind by name.

A segment is a memfd or, if it may be larger than the memory, a file on disk that has no name. Its
bytes live as long as any process maps it or holds the descriptor, and the kernel frees them when
the last one goes, however it goes. Descriptors travel between processes over Unix sockets
(`appliance.streams.handshake`).
"""

import ctypes
import errno
import fcntl
import mmap
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from appliance.core.errors import ClusterError

_LIBC = ctypes.CDLL(None, use_errno=True)
_SYNC_FILE_RANGE_WRITE = 2
_SYNC_FILE_RANGE_WHOLLY = 1 | _SYNC_FILE_RANGE_WRITE | 4
"""Wait for what is being written, write what is left, and wait for that."""
_FALLOC_FL_KEEP_SIZE, _FALLOC_FL_PUNCH_HOLE = 1, 2
"""From the kernel's linux/fs.h; Python has no name for it."""
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
"""Fix the size: a peer that shrank the file would kill whoever reads beyond its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Bytes of a segment, as they are mapped and as they lie in its file.

    Attributes:
        view: The bytes.
        descriptor: Of the segment; open for as long as the ring's end that gave the extent.
        offset: Where they begin in the segment.
    """

    view: memoryview
    descriptor: int
    offset: int


def create_segment(name: str, num_bytes: int) -> int:
    """Return the descriptor of a new zeroed segment.

    Args:
        name: For people who read `/proc/PID/maps`; need not be unique.
        num_bytes: Its size, fixed from now on; may be 0.
    """
    descriptor = os.memfd_create(f"wsc-{name}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, num_bytes)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
    return descriptor


def create_file_segment(directory: Path, name: str, num_bytes: int) -> int:
    """Return the descriptor of a new zeroed segment that lies in a file without a name.

    Args:
        directory: Where on which file system; made if missing.
        name: For messages.
        num_bytes: Its size; the room is taken at once, so that no later write can lack it.

    Raises:
        ClusterError: The file system has no room for it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, mode=0o600)
    try:
        if num_bytes:
            os.posix_fallocate(descriptor, 0, num_bytes)
    except OSError as error:
        os.close(descriptor)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise ClusterError(
            f"Segment {name!r} needs {num_bytes:,} bytes in {directory}, where "
            f"{shutil.disk_usage(directory).free:,} are free.",
            hint="Free some, or start the appliance with a data directory that has more.",
        ) from error
    return descriptor


def read_ahead(descriptor: int, start: int, end: int) -> None:
    """Begin to read bytes of a file-backed segment into memory."""
    os.posix_fadvise(descriptor, start, end - start, os.POSIX_FADV_WILLNEED)


def write_behind(descriptor: int, memory: NDArray[np.uint8], start: int, end: int) -> None:
    """Begin to write bytes of a file-backed segment, and count them as this process's no more.

    They stay what they are, and mapped; the next use may find them in memory still. Nothing follows
    if the kernel declines: it is told what will be good, not what must happen.
    """
    _LIBC.sync_file_range(
        descriptor,
        ctypes.c_int64(start),
        ctypes.c_int64(end - start),
        ctypes.c_uint(_SYNC_FILE_RANGE_WRITE),
    )
    address = memory.ctypes.data + start
    rest = -address % mmap.PAGESIZE
    whole = (end - start - rest) // mmap.PAGESIZE * mmap.PAGESIZE
    if whole > 0:
        _LIBC.madvise(ctypes.c_void_p(address + rest), ctypes.c_size_t(whole), mmap.MADV_DONTNEED)


def drop_written(descriptor: int, start: int, end: int) -> None:
    """Wait until bytes of a file-backed segment are in the file, and give their memory back.

    Pages that a process has looked at since `write_behind`, or that it changes meanwhile,
    stay in memory. As there, nothing follows if the kernel declines.
    """
    _LIBC.sync_file_range(
        descriptor,
        ctypes.c_int64(start),
        ctypes.c_int64(end - start),
        ctypes.c_uint(_SYNC_FILE_RANGE_WHOLLY),
    )
    os.posix_fadvise(descriptor, start, end - start, os.POSIX_FADV_DONTNEED)


def give_back(descriptor: int, start: int, end: int) -> None:
    """Return the memory, or the disk's room, of whole pages of a segment; they read as zeros.

    Args:
        descriptor: The segment.
        start: First byte that is not needed any more.
        end: Byte after the last one.

    Raises:
        OSError: The system refuses.
    """
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    num_bytes = end // mmap.PAGESIZE * mmap.PAGESIZE - first
    if num_bytes <= 0:
        return
    flags = _FALLOC_FL_KEEP_SIZE | _FALLOC_FL_PUNCH_HOLE
    span = ctypes.c_int64(first), ctypes.c_int64(num_bytes)
    if _LIBC.fallocate(descriptor, ctypes.c_int(flags), *span) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def map_segment(descriptor: int, *, is_read_only: bool = False) -> NDArray[np.uint8]:
    """Return the bytes of a segment; they stay mapped until the last view of them dies.

    Args:
        descriptor: The segment; the caller still owns and closes it.
        is_read_only: Whether this process may only read them.
    """
    num_bytes = os.fstat(descriptor).st_size
    if num_bytes == 0:
        return np.empty(0, dtype=np.uint8)
    access = mmap.ACCESS_READ if is_read_only else mmap.ACCESS_WRITE
    return np.frombuffer(mmap.mmap(descriptor, num_bytes, access=access), dtype=np.uint8)


def segment_of_bytes(name: str, content: bytes) -> int:
    """Return the descriptor of a new segment that holds `content`."""
    descriptor = create_segment(name, len(content))
    if content:
        map_segment(descriptor)[:] = np.frombuffer(content, dtype=np.uint8)
    return descriptor
