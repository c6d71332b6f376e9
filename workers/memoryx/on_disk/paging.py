"""Moves a store's tensors between file and memory ahead of their use, and out of memory after it.

The order of a step is known. So what a layer step loads and an update touches is read ahead, and
what an update has written starts on its way to the file at once; then its pages are clean, and the
kernel can reuse them. Left alone, the kernel would keep what was used last, which is what a step
needs again last of all: the moments of an optimizer are used once a step. So those for which there
is no room are dropped as soon as they are written, and weights, used in the forward pass, in the
backward pass and by their update, find the room. Separate threads do this, since even a hint about
much memory takes milliseconds, and a disk that writes delays nothing that is read.
"""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from appliance.core.plans.plan import Plan, Update
from appliance.streams.segment import drop_written, read_ahead, write_behind
from appliance.streams.slot_layout import SlotLayout

_LOADS_AHEAD = 1
"""Layer steps, beyond those that are announced and not yet sent."""
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

    def ranges(self, names: Iterable[str]) -> "Ranges":
        """Return the bytes of tensors as few ranges; names of other values do not count."""
        items = {item.name: item for item in self.layout.items}
        found = sorted({items[name].offset: items[name] for name in names if name in items}.items())
        ranges: list[tuple[int, int]] = []
        for offset, item in found:
            end = offset + item.type.num_bytes
            if ranges and offset - ranges[-1][1] < _GAP_BYTES:
                ranges[-1] = ranges[-1][0], end
            else:
                ranges.append((offset, end))
        return tuple(Range(self, start, end) for start, end in ranges)


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes of a file, from `start` to before `end`."""

    paged: Paged
    start: int
    end: int


Ranges = tuple[Range, ...]


class Paging:
    """Read-ahead and write-behind of one session's state, and of packed copies of it.

    Args:
        plan: The session's plan.
        packed: Packed copies of loads.
        layer_steps: The layer step of each announcement of a step, in order.
        room_bytes: Memory that tensors may take.
    """

    def __init__(
        self,
        plan: Plan,
        state: Paged,
        packed: Paged,
        layer_steps: Sequence[int],
        *,
        room_bytes: int,
    ) -> None:
        loads = [
            (
                *state.ranges(name for name in step.loads if name not in plan.packed),
                *packed.ranges(step.loads),
            )
            for step in plan.layer_steps
        ]
        self._loads = tuple(loads[layer_step] for layer_step in layer_steps)
        self._updates = tuple(
            (*state.ranges(_touched(update)), *packed.ranges(_written(update)))
            for update in plan.updates
        )
        used_once = (state.ranges(names) for names in used_once_a_step(plan))
        weights = {name for step in plan.layer_steps for name in step.loads} - plan.packed.keys()
        room = room_bytes - _num_bytes((*state.ranges(weights), *packed.ranges(plan.packed)))
        self._dropped = tuple(_those_without_room(used_once, room))
        self._reading = _Worker("paging-read")
        self._writing = _Worker("paging-write")
        self._written: Ranges = ()

    def before_announcing(self, position: int) -> None:
        """Read ahead of an announcement, given its place in the step."""
        ahead = (position + _LOADS_AHEAD) % len(self._loads)
        self._reading.do(_read_ahead, self._loads[ahead])

    def before_update(self, index: int) -> None:
        """Read ahead of an update, given its place in the step."""
        ahead = (index + _UPDATES_AHEAD) % len(self._updates)
        self._reading.do(_read_ahead, self._updates[ahead])

    def after_update(self, index: int) -> None:
        """Begin to write what an update has changed; drop what the one before it has."""
        self._writing.do(_write_behind, self._updates[index])
        self._writing.do(_drop_written, self._written)
        self._written = self._dropped[index]

    def close(self) -> None:
        """End the threads."""
        self._reading.close()
        self._writing.close()


class _Worker:
    """A thread that moves ranges in the order in which it is told."""

    def __init__(self, name: str) -> None:
        self._hints: queue.Queue[tuple[Callable[[Range], None], Ranges] | None]
        self._hints = queue.Queue(_MAX_HINTS)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def do(self, move: Callable[[Range], None], ranges: Ranges) -> None:
        """Move ranges later; not at all if too many others wait."""
        with contextlib.suppress(queue.Full):
            self._hints.put_nowait((move, ranges))

    def close(self) -> None:
        """End after the range that is being moved."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._hints.get_nowait()
        self._hints.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (hint := self._hints.get()) is not None:
            move, ranges = hint
            for each in ranges:
                move(each)


def used_once_a_step(plan: Plan) -> tuple[tuple[str, ...], ...]:
    """Return, by update, the values that only updates use, each with the last one that does.

    The names of state are among them, but for weights that layer steps load as they are.
    """
    loaded = {name for step in plan.layer_steps for name in step.loads if name not in plan.packed}
    last = {name: i for i, update in enumerate(plan.updates) for name in _touched(update)}
    found: list[list[str]] = [[] for _ in plan.updates]
    for name, index in last.items():
        if name not in loaded:
            found[index].append(name)
    return tuple(map(tuple, found))


def _those_without_room(each_update: Iterable[Ranges], room_bytes: int) -> Iterable[Ranges]:
    """Yield the ranges of each update, or none if there is still room for them in memory."""
    for ranges in each_update:
        num_bytes = _num_bytes(ranges)
        if num_bytes <= room_bytes:
            room_bytes -= num_bytes
            yield ()
        else:
            yield ranges


def _num_bytes(ranges: Ranges) -> int:
    return sum(each.end - each.start for each in ranges)


def _read_ahead(each: Range) -> None:
    read_ahead(each.paged.descriptor, each.start, each.end)


def _write_behind(each: Range) -> None:
    write_behind(each.paged.descriptor, each.paged.memory, each.start, each.end)


def _drop_written(each: Range) -> None:
    drop_written(each.paged.descriptor, each.start, each.end)


def _written(update: Update) -> tuple[str, ...]:
    return tuple(commit.state for commit in update.commits)


def _touched(update: Update) -> tuple[str, ...]:
    return (*(name for node in update.nodes for name in node.operands), *_written(update))
