"""Blocks of POSIX shared memory through which the client's own programs hand over tensors.

A program opens them by name. A name would outlive a killed process, so it is taken away as soon
as the program has opened it; the memory then goes with the last process that maps it. A name
carries the job's id, so that what a crash in between leaves behind can be told from another job's.
"""

import mmap
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from appliance.core.errors import ClusterError
from appliance.core.ir.tensors import TensorType
from appliance.pods.job_user import JobUser
from appliance.wire import rtfx

_DIRECTORY = Path("/dev/shm")  # where shm_open keeps its objects on Linux


class SharedBlock:
    """One tensor's memory, in the wire's element type.

    Args:
        name: Name for `shm_open`, without a slash; chance is added, since who sees the job in the
            queue could make a file of a name that can be guessed, and the job would fail.
        type: Shape and element type on the wire.
    """

    def __init__(self, name: str, type_: TensorType) -> None:
        self.name = f"{name}-{secrets.token_hex(6)}"
        self.path = _DIRECTORY / self.name
        num_bytes = max(1, rtfx.encoded_bytes(type_))
        descriptor = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, num_bytes)  # else whoever writes dies of SIGBUS
            memory = mmap.mmap(descriptor, num_bytes)
        except OSError as error:
            self.unlink()
            raise _no_room(num_bytes, error) from error
        finally:
            os.close(descriptor)
        dtype = rtfx.encoded_dtype(type_.dtype)
        count = type_.num_elements
        self.values: NDArray[np.generic] = np.frombuffer(memory, dtype, count).reshape(type_.shape)

    def give_to(self, user: JobUser) -> None:
        """Make it the user's own, if that is somebody else than we; before it has another owner."""
        if user.uid is not None:
            descriptor = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                user.give(descriptor)
            finally:
                os.close(descriptor)

    def unlink(self) -> None:
        """Take the name away; the memory stays with those who map it."""
        self.path.unlink(missing_ok=True)


def _no_room(num_bytes: int, error: OSError) -> ClusterError:
    status = os.statvfs(_DIRECTORY)
    return ClusterError(
        f"{_DIRECTORY} has no room for a batch tensor of {num_bytes:,} bytes, "
        f"{status.f_bavail * status.f_frsize:,} are free: {error.strerror}.",
        hint="Give the node's pods more shared memory, as in `docker run --shm-size`.",
    )


def create_blocks(prefix: str, types: Sequence[TensorType]) -> list[SharedBlock]:
    """Return one block for each type, named after the prefix and its position.

    Raises:
        ClusterError: There is no room for them.
    """
    blocks: list[SharedBlock] = []
    try:
        for position, type_ in enumerate(types):
            blocks.append(SharedBlock(f"{prefix}-{position}", type_))
    except ClusterError:
        for block in blocks:
            block.unlink()
        raise
    return blocks
