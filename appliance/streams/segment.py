"""Memory that several processes map: anonymous files, so nothing can be left behind by name.

A segment is a memfd. Its bytes live as long as any process maps it or holds the descriptor, and the
kernel frees them when the last one goes, however it goes. Descriptors travel between processes over
Unix sockets (`appliance.streams.handshake`).
"""

import fcntl
import mmap
import os

import numpy as np
from numpy.typing import NDArray

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
"""Fix the size: a peer that shrank the file would kill whoever reads beyond its end."""


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
