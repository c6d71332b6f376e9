"""A DSD operation under way, and what its operands say of its length and speed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.fabric_reference.arithmetic import Widths
from tests.support.fabric_reference.image import Settings
from tests.support.fabric_reference.operands import Cursor, Kind

MEDIUM = 2
"""The priority of an operation that names none."""


@dataclass
class LoadedDsr:
    """A data structure register: a DSD, and how an operation that names it runs."""

    value: int
    settings: Settings
    target: int
    control_target: int
    saves_address: bool


@dataclass
class Thread:
    """An operation under way.

    Attributes:
        op: Its name.
        operands: Destination, first and second source.
        settings: How it runs.
        endings: What it activates or unblocks at its end (action, kind, id); nothing if the main
            thread waits for it.
        factor: Scalar of a fused operation.
        index: High half of 16-bit wavelets that it sends, and offset into memory.
        remaining: Elements to go; None for an endless operation.
        priority: 1 to 3.
        microthread: The id that it was told to have.
        ready: Cycle from which on it moves: it has been set up.
        result: False if a FIFO ended it early.
    """

    op: str
    operands: tuple[Cursor, Cursor, Cursor]
    settings: Settings
    endings: list[tuple[int, int, int]] = field(default_factory=list)
    factor: int = 0
    index: int | None = None
    remaining: int | None = 0
    priority: int = MEDIUM
    microthread: int | None = None
    ready: int = 0
    is_active: bool = True
    result: bool = True
    accumulates: bool = False
    widths: Widths = field(default_factory=lambda: Widths(2, 2, 2))


def length_of(operands: tuple[Cursor, Cursor, Cursor]) -> int | None:
    """Return the elements of an operation: of its first source that says, or its destination."""
    return next((c.length for c in (operands[1], operands[2], operands[0]) if c.has_length), 1)


IN_MEMORY = (Kind.MEMORY, Kind.SHAPED)


def share_one_bank(dest: Cursor, source: Cursor) -> bool:
    """Say whether both stay in one and the same bank, which reads or writes once a cycle."""
    stride, _ = dest.row()
    if dest.kind not in IN_MEMORY or not stride:
        return False
    stays = stride % 16 == 0 and source.row()[0] % 16 == 0
    return stays and (dest.address // 2) % 8 == (source.address // 2) % 8


def walks(source: Cursor) -> bool:
    """Say whether an operand goes through memory."""
    return source.kind in IN_MEMORY and source.row()[0] != 0


def reading_cycles(sources: Sequence[tuple[Cursor, int]], num_elements: int) -> int:
    """Return how long elements that are read together take: two cycles where banks meet.

    Args:
        sources: What goes through memory, and the bytes of its elements.
        num_elements: Of each.
    """
    if num_elements == 0:
        return 0
    if len(sources) < 2:
        return 1
    words = []
    for cursor, width in sources:
        is_column = cursor.in_width(cursor.row()[0], width) != width
        length = 1 if is_column else -(-num_elements * width // 4)
        words.append(range(cursor.address // 4, cursor.address // 4 + length))
    num_banks = 8 if max(map(len, words)) > 2 else 4
    first, second = ({word % num_banks for word in each} for each in words)
    return 2 if first & second else 1


def rate_of(cursor: Cursor, width: int) -> int:
    """Elements per cycle that a stride over eight banks allows."""
    if cursor.kind not in IN_MEMORY:
        return 8
    words = int(cursor.in_width(cursor.row()[0], width) / 2)
    step = int(words / 2) if width == 4 else words
    if step in (0, 1):
        return 8
    return {0: 1, 1: 2, 4: 2, 7: 2}.get(step % 8, 8)
