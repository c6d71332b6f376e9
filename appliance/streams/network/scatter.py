"""Where a bridge puts what arrives for a ring: in its slots, or beside them, where it stays.

A reader that keeps a part of a slot beyond the slot's release would have to copy it. A ring that is
filled from another node may have an *area* beside its slots; the bridge receives such parts into
it. A part of the area is overwritten by the message that brings it next, so its readers have to
release their last use of it before that message can have a slot.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Fragments = tuple["Fragment", ...]
"""The bytes of a message, in order; none stands for a message that lies in its slot alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """A run of a message's bytes.

    Attributes:
        start: First byte, in the message and, unless it goes to the area, in the slot.
        num_bytes: Its size.
        area_start: First byte in the area; None in the slot.
    """

    start: int
    num_bytes: int
    area_start: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """Where every message of a ring goes.

    Attributes:
        area_bytes: Size of the area.
        num_slots: Slots that the ring may have at most.
        first_step: Fragments of each message of a session's first step.
        later_steps: Fragments of each message of any other step, as many as of the first.
    """

    area_bytes: int
    num_slots: int
    first_step: tuple[Fragments, ...]
    later_steps: tuple[Fragments, ...]

    def targets(
        self, number: int, num_bytes: int, slot: NDArray[np.uint8], area: NDArray[np.uint8]
    ) -> list[memoryview] | None:
        """Return where the bytes of a message go, in order; None if that is not its size.

        Args:
            number: The message's sequence number.
            num_bytes: Its size.
            slot: The slot that it has.
            area: The ring's area.
        """
        step, visit = divmod(number, len(self.first_step))
        fragments = (self.later_steps if step else self.first_step)[visit]
        if not fragments:
            return [slot.data[:num_bytes]]
        if sum(fragment.num_bytes for fragment in fragments) != num_bytes:
            return None
        return [_target(fragment, slot, area) for fragment in fragments]


def _target(fragment: Fragment, slot: NDArray[np.uint8], area: NDArray[np.uint8]) -> memoryview:
    memory, start = (
        (slot, fragment.start) if fragment.area_start is None else (area, fragment.area_start)
    )
    return memory.data[start : start + fragment.num_bytes]
