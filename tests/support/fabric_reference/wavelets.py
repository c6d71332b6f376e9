"""Wavelets, the commands in control wavelets, and the queues between core and router."""

from dataclasses import dataclass, field
from enum import IntEnum


class Command(IntEnum):
    """What a control wavelet tells a router."""

    NOP = 0
    ADVANCE = 1
    RESET = 2
    TEARDOWN = 3


_GROUPS = (
    *((22, 23, 24), (25, 26, 27), (28, 29, 0)),
    *((bit, bit + 1, bit + 2) for bit in range(1, 15, 3)),
)
"""For each of eight commands: its two bits, and the bit that the core does not see it."""
_KEPT = 0xC03F0000


def command_of(payload: int, group: int = 0) -> Command:
    """Return a command of a control wavelet."""
    low, high, _ = _GROUPS[group]
    return Command(payload >> low & 1 | (payload >> high & 1) << 1)


def passes_core(payload: int) -> bool:
    """Say whether the core is not to see a control wavelet."""
    return bool(payload >> _GROUPS[0][2] & 1)


def without_first_command(payload: int) -> int:
    """Return the payload with its commands moved down by one; the last one stays, too."""
    result = payload & _KEPT
    for group, bits in enumerate(_GROUPS):
        source = _GROUPS[min(group + 1, len(_GROUPS) - 1)]
        for bit, old in zip(bits, source, strict=True):
            result |= (payload >> old & 1) << bit
    return result


@dataclass(frozen=True, slots=True)
class Wavelet:
    """32 bits on a color.

    Attributes:
        data: The payload.
        color: Its color.
        is_control: Whether it is a control wavelet.
        advances: Whether the sender's own switch advances behind it.
        ready: From this cycle on, whoever reads the queue that it lies in sees it.
    """

    data: int
    color: int
    is_control: bool = False
    advances: bool = False
    ready: int = 0


@dataclass
class Queue:
    """Wavelets between core and router: as many as the queue is deep and the ramp long."""

    room: int
    color: int | None = None
    is_bound: bool = False
    is_lent: bool = False
    user: int | None = None
    is_filtered: bool = True
    is_flushing: bool = False
    priority: int = 0
    wavelets: list[Wavelet] = field(default_factory=list)

    @property
    def has_room(self) -> bool:
        """Whether another wavelet fits."""
        return len(self.wavelets) < self.room

    def head(self, now: int) -> Wavelet | None:
        """Return the oldest wavelet if it has come out of the ramp."""
        return self.wavelets[0] if self.wavelets and self.wavelets[0].ready <= now else None
