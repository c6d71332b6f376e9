"""Moves a store's tensors between file and memory ahead of their use.

The order of a step is known. So what a layer step loads and an update touches is read ahead, and
what an update has written starts on its way to the file at once; then its pages are clean, and the
kernel can reuse them. A separate thread does this, since even a hint about much memory takes
milliseconds.
"""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from appliance.core.plans.plan import Plan
from appliance.streams.segment import read_ahead, write_behind
from appliance.streams.slot_layout import LayoutItem, SlotLayout

_LOADS_AHEAD = 2
"""Layer steps; as many as a system holds."""
_UPDATES_AHEAD = 2
_Range = tuple[int, int]
_Hint = tuple[Callable[[int, int], None], Sequence[_Range]]
_GAP_BYTES = 1 << 16
"""Reading a gap of so many bytes costs less than a call of its own."""
_MAX_HINTS = 256
"""A hint that has to wait behind so many others has come too late."""


class Paging:
    """Read-ahead and write-behind of one session's state.

    Args:
        plan: The session's plan.
        layout: Where each state tensor lies.
        memory: The state's bytes.
        descriptor: The file that backs them.
        layer_steps: The layer step of each announcement of a step, in order.
    """

    def __init__(
        self,
        plan: Plan,
        layout: SlotLayout,
        memory: NDArray[np.uint8],
        descriptor: int,
        layer_steps: Sequence[int],
    ) -> None:
        self._memory, self._descriptor = memory, descriptor
        items = {item.name: item for item in layout.items}
        loads = [_ranges(items, step.loads) for step in plan.layer_steps]
        self._loads = tuple(loads[layer_step] for layer_step in layer_steps)
        self._updates = tuple(
            _ranges(
                items,
                [
                    *(name for node in update.nodes for name in node.operands),
                    *(commit.state for commit in update.commits),
                ],
            )
            for update in plan.updates
        )
        self._hints: queue.Queue[_Hint | None] = queue.Queue(_MAX_HINTS)
        self._thread = threading.Thread(target=self._run, name="paging", daemon=True)
        self._thread.start()

    def before_announcing(self, position: int) -> None:
        """Read ahead of an announcement, given its place in the step."""
        ahead = (position + _LOADS_AHEAD) % len(self._loads)
        self._hint(self._read_ahead, self._loads[ahead])

    def before_update(self, index: int) -> None:
        """Read ahead of an update, given its place in the step."""
        ahead = (index + _UPDATES_AHEAD) % len(self._updates)
        self._hint(self._read_ahead, self._updates[ahead])

    def after_update(self, index: int) -> None:
        """Begin to write what an update has changed."""
        self._hint(self._write_behind, self._updates[index])

    def close(self) -> None:
        """End the thread."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._hints.get_nowait()
        self._hints.put(None)
        self._thread.join()

    def _hint(self, move: Callable[[int, int], None], ranges: Sequence[_Range]) -> None:
        with contextlib.suppress(queue.Full):
            self._hints.put_nowait((move, ranges))

    def _read_ahead(self, start: int, end: int) -> None:
        read_ahead(self._descriptor, start, end)

    def _write_behind(self, start: int, end: int) -> None:
        write_behind(self._descriptor, self._memory, start, end)

    def _run(self) -> None:
        while (hint := self._hints.get()) is not None:
            move, ranges = hint
            for start, end in ranges:
                move(start, end)


def _ranges(items: Mapping[str, LayoutItem], names: Iterable[str]) -> tuple[_Range, ...]:
    """Return the bytes of tensors as few ranges; names of other values do not count."""
    found = sorted({items[name].offset: items[name] for name in names if name in items}.items())
    ranges: list[_Range] = []
    for offset, item in found:
        end = offset + item.type.num_bytes
        if ranges and offset - ranges[-1][1] < _GAP_BYTES:
            ranges[-1] = ranges[-1][0], end
        else:
            ranges.append((offset, end))
    return tuple(ranges)
