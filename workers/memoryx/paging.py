"""Moves a store's tensors between file and memory ahead of their use.

The order of a step is known. So what a layer step loads and an update touches is read ahead, and
what an update has written starts on its way to the file at once; then its pages are clean, and the
kernel can reuse them. A separate thread does this, since even a hint about much memory takes
milliseconds.
"""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from appliance.core.plans.plan import Plan, Update
from appliance.streams.segment import read_ahead, write_behind
from appliance.streams.slot_layout import SlotLayout

_LOADS_AHEAD = 2
"""Layer steps; as many as a system holds."""
_UPDATES_AHEAD = 2
_GAP_BYTES = 1 << 16
"""Reading a gap of so many bytes costs less than a call of its own."""
_MAX_HINTS = 256
"""A hint that has to wait behind so many others has come too late."""


@dataclass(frozen=True, slots=True)
class Paged:
    """Tensors in a file.

    Attributes:
        layout: Where each lies.
        memory: Their bytes.
        descriptor: The file.
    """

    layout: SlotLayout
    memory: NDArray[np.uint8]
    descriptor: int


_Range = tuple[Paged, int, int]
_Hint = tuple[Callable[[_Range], None], Sequence[_Range]]


class Paging:
    """Read-ahead and write-behind of one session's state, and of packed copies of it.

    Args:
        plan: The session's plan.
        packed: Packed copies of loads.
        layer_steps: The layer step of each announcement of a step, in order.
    """

    def __init__(self, plan: Plan, state: Paged, packed: Paged, layer_steps: Sequence[int]) -> None:
        loads = [
            (
                *_ranges(state, [name for name in step.loads if name not in plan.packed]),
                *_ranges(packed, step.loads),
            )
            for step in plan.layer_steps
        ]
        self._loads = tuple(loads[layer_step] for layer_step in layer_steps)
        self._updates = tuple(
            (*_ranges(state, _touched(update)), *_ranges(packed, _written(update)))
            for update in plan.updates
        )
        self._hints: queue.Queue[_Hint | None] = queue.Queue(_MAX_HINTS)
        self._thread = threading.Thread(target=self._run, name="paging", daemon=True)
        self._thread.start()

    def before_announcing(self, position: int) -> None:
        """Read ahead of an announcement, given its place in the step."""
        ahead = (position + _LOADS_AHEAD) % len(self._loads)
        self._hint(_read_ahead, self._loads[ahead])

    def before_update(self, index: int) -> None:
        """Read ahead of an update, given its place in the step."""
        ahead = (index + _UPDATES_AHEAD) % len(self._updates)
        self._hint(_read_ahead, self._updates[ahead])

    def after_update(self, index: int) -> None:
        """Begin to write what an update has changed."""
        self._hint(_write_behind, self._updates[index])

    def close(self) -> None:
        """End the thread."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._hints.get_nowait()
        self._hints.put(None)
        self._thread.join()

    def _hint(self, move: Callable[[_Range], None], ranges: Sequence[_Range]) -> None:
        with contextlib.suppress(queue.Full):
            self._hints.put_nowait((move, ranges))

    def _run(self) -> None:
        while (hint := self._hints.get()) is not None:
            move, ranges = hint
            for each in ranges:
                move(each)


def _read_ahead(each: _Range) -> None:
    paged, start, end = each
    read_ahead(paged.descriptor, start, end)


def _write_behind(each: _Range) -> None:
    paged, start, end = each
    write_behind(paged.descriptor, paged.memory, start, end)


def _written(update: Update) -> tuple[str, ...]:
    return tuple(commit.state for commit in update.commits)


def _touched(update: Update) -> tuple[str, ...]:
    return (*(name for node in update.nodes for name in node.operands), *_written(update))


def _ranges(paged: Paged, names: Iterable[str]) -> tuple[_Range, ...]:
    """Return the bytes of tensors as few ranges; names of other values do not count."""
    items = {item.name: item for item in paged.layout.items}
    found = sorted({items[name].offset: items[name] for name in names if name in items}.items())
    ranges: list[tuple[int, int]] = []
    for offset, item in found:
        end = offset + item.type.num_bytes
        if ranges and offset - ranges[-1][1] < _GAP_BYTES:
            ranges[-1] = ranges[-1][0], end
        else:
            ranges.append((offset, end))
    return tuple((paged, start, end) for start, end in ranges)
