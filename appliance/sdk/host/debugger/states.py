"""The states of PEs while a run stands still: tasks, queues, operations, wavelets."""

from collections.abc import Iterator
from dataclasses import dataclass

from appliance.csl.program import Program, TaskKind
from appliance.fabric.bytecode import NUM_COLORS, NUM_QUEUES, VECTOR_OPS
from appliance.fabric.debugging.lines import CodeLines
from appliance.fabric.debugging.stops import Stops

_NEVER = (1 << 64) - 1
_ENDLESS = 0xFFFFFFFF
_MAIN_THREAD = 8
_PORTS = ("west", "east", "south", "north", "the ramp")


@dataclass(frozen=True, slots=True)
class PeStates:
    """Tells of the PEs of a run."""

    program: Program
    stops: Stops
    lines: CodeLines

    def tasks(self, pe: int) -> list[str]:
        """Return the state of each task of a PE."""
        source = self.program.classes[self.stops.code_of(pe)]
        active, blocked, blocked_data = (self._number(pe, what) for what in (2, 3, 4))
        running = self._number(pe, 24) if self.stops.counter(pe) is not None else _NEVER
        found: list[str] = []
        for task in source.tasks:
            states = ["running"] if running == task.function else []
            if task.kind is TaskKind.LOCAL:
                states += ["active"] if active >> task.id & 1 else []
                states += ["blocked"] if blocked >> task.id & 1 else []
            elif task.kind is TaskKind.DATA and blocked_data >> task.id & 1:
                states.append("blocked")
            name = source.functions[task.function].name
            waits = "waits for its activation" if task.kind is TaskKind.LOCAL else "waits"
            found.append(f"{task.kind} task {task.id} ({name}): {', '.join(states) or waits}")
        return found or ["no tasks"]

    def queues(self, pe: int) -> list[str]:
        """Return what a PE's queues hold."""
        return [text for *_, text in self._queues(pe)] or ["no queue has a color"]

    def _queues(self, pe: int) -> Iterator[tuple[int, int, str]]:
        """Yield the color of a queue, how many wavelets it holds, and both in words."""
        for queue in range(NUM_QUEUES):
            for name, what in (("input", 10), ("output", 12)):
                count, color = self._number(pe, what, queue), self._number(pe, what + 1, queue)
                if color >= NUM_COLORS:
                    continue
                head = ""
                if what == 10 and count:
                    head = f", the first {self._number(pe, 18, queue):#010x}"
                number = f"{count} wavelet{'s' * (count != 1)}"
                yield color, count, f"{name} queue {queue} (color {color}): {number}{head}"

    def operations(self, pe: int) -> list[str]:
        """Return the operations that are at work."""
        found: list[str] = []
        for thread in self._working(pe):
            who = "main thread" if thread == _MAIN_THREAD else f"microthread {thread}"
            left, since = self._number(pe, 7, thread), self._number(pe, 8, thread)
            rest = "without end" if left == _ENDLESS else f"{left:,} elements to go"
            found.append(f"{who}: {self._operation(pe, thread)}, {rest}, since cycle {since:,}")
        return found or ["no operation is at work"]

    def places_of_operations(self, pe: int) -> list[str]:
        """Return the operations that are at work, by their lines alone."""
        return [self._operation(pe, thread) for thread in self._working(pe)]

    def _working(self, pe: int) -> list[int]:
        return [thread for thread in range(_MAIN_THREAD + 1) if self._number(pe, 5, thread)]

    def _operation(self, pe: int, thread: int) -> str:
        place = self.lines.place(self.stops.code_of(pe), self._number(pe, 6, thread))
        return f"@{VECTOR_OPS[self._number(pe, 27, thread)]} of {place}"

    def wavelets(self, color: int | None) -> Iterator[str]:
        """Yield the wavelets in flight."""
        width = self.program.grid.width
        for pe in range(width * self.program.grid.height):
            if self.stops.inspect(pe, 0) == _NEVER:
                continue
            where = f"PE ({pe % width}, {pe // width})"
            yield from (f"{where} {text}" for text in self._routed(pe, color))
            for its_color, count, text in self._queues(pe):
                if count and color in (None, its_color):
                    yield f"{where} {text}"

    def _routed(self, pe: int, color: int | None) -> Iterator[str]:
        """Yield what a PE's router holds."""
        for number in range(NUM_COLORS) if color is None else (color,):
            count = self._number(pe, 14, number)
            if count:
                tx = self._number(pe, 15, number) >> 8
                ports = [port for bit, port in enumerate(_PORTS) if tx >> bit & 1]
                yield f"router: {count} of color {number}, to {' and '.join(ports) or 'nowhere'}"

    def _number(self, pe: int, what: int, index: int = 0) -> int:
        """Return a number of a PE; 0 where nothing has touched it."""
        value = self.stops.inspect(pe, what, index)
        return 0 if value == _NEVER else value
