"""What the two ends of a ring on one node tell each other, and how its memory is divided."""

import struct

import numpy as np
from numpy.typing import NDArray

SEQUENCE = struct.Struct("<q")
"""Sequence number that a reader releases."""
PUBLISHED = struct.Struct("<qq")
"""Sequence number and used bytes of a slot that the writer publishes."""
END = SEQUENCE.pack(-1)
"""The writer has ended the stream."""
ABANDONED = SEQUENCE.pack(-2)
"""An end was closed before the stream's end."""
_PAGE_BYTES = 4096


def stride_of(slot_bytes: int) -> int:
    """Return the distance between two slots: whole pages."""
    return -(-slot_bytes // _PAGE_BYTES) * _PAGE_BYTES


def slots_of(
    memory: NDArray[np.uint8], num_slots: int, slot_bytes: int
) -> tuple[NDArray[np.uint8], ...]:
    """Return each slot of a ring as a view of its memory."""
    stride = stride_of(slot_bytes)
    return tuple(memory[i * stride : i * stride + slot_bytes] for i in range(num_slots))


def area_of(
    memory: NDArray[np.uint8], num_slots: int, slot_bytes: int, area_bytes: int
) -> NDArray[np.uint8]:
    """Return what a ring has beside its slots as a view of its memory."""
    start = num_slots * stride_of(slot_bytes)
    return memory[start : start + area_bytes]
