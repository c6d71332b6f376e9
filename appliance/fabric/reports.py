"""Reads the kernel's state for people: faults, and what waits where."""

from collections.abc import Iterator

from appliance.csl.program import Program
from appliance.fabric.bytecode import NUM_COLORS, NUM_QUEUES, DsdKind, Fault
from appliance.fabric.errors import FabricError, Waiting
from appliance.fabric.loading import LoadedProgram
from appliance.fabric.lowering.classes import LoweredClass
from appliance.fabric.native.loader import Kernel

_NEVER = (1 << 64) - 1
_MAIN_THREAD = 8
_ENDLESS = 0xFFFFFFFF
_PORTS = ("West", "East", "South", "North", "Ramp", "Host")


class Inspector:
    """Looks into the PEs of a loaded program."""

    def __init__(self, program: Program, loaded: LoadedProgram, kernel: Kernel) -> None:
        self._program = program
        self._loaded = loaded
        self._kernel = kernel

    def fault(self) -> FabricError:
        """Return the kernel's fault as an error."""
        kind, number, pc, a, b = (self._kernel.value(self._loaded.handle, n) for n in range(1, 6))
        x, y = self._place(number)
        where = self.position(number, pc)
        text = _FAULT_TEXTS[Fault(kind)].format(
            a=a, b=b, **self._details(Fault(kind), number, a, b, pc)
        )
        at = f" at {where}" if where else ""
        return FabricError(f"PE ({x}, {y}){at}: {text}", hint=_FAULT_HINTS.get(Fault(kind), ""))

    def _details(self, fault: Fault, number: int, a: int, b: int, pc: int) -> dict[str, object]:
        if fault is Fault.TWO_ARRIVALS:
            first, second = sorted((a, b))
            return {"first": _PORTS[first], "second": _PORTS[second], "color": pc}
        if fault is Fault.MEMORY:
            return {"size": self._read(number, 21, 0)}
        if fault is Fault.MICROTHREAD_BUSY:
            return {"other": self.position(number, b)}
        return {}

    def position(self, number: int, pc: int) -> str:
        """Return the source position of an instruction as `file:line:column`."""
        code_class = self._class_of(number)
        if code_class is None or not 0 < pc < len(code_class.positions):
            return ""
        position = code_class.positions[pc]
        if position is None:
            return ""
        file, line, column = position
        return f"{self._program.files[file]}:{line}:{column}"

    def waiting(self) -> Iterator[Waiting]:
        """Yield what cannot go on, PE by PE."""
        for number in range(self._program.grid.width * self._program.grid.height):
            if self._read(number, 0, 0) != _NEVER:
                yield from self._waiting_threads(number)
                yield from self._waiting_tasks(number)
                yield from self._waiting_wavelets(number)

    def _waiting_threads(self, number: int) -> Iterator[Waiting]:
        for thread in range(_MAIN_THREAD + 1):
            if not self._read(number, 5, thread) or self._read(number, 7, thread) == _ENDLESS:
                continue
            who = "the main thread" if thread == _MAIN_THREAD else f"microthread {thread}"
            remaining = self._read(number, 7, thread)
            needs = self._needs(number, self._read(number, 9, thread))
            text = f"{who} waits {needs}, {remaining:,} elements to go"
            where = self.position(number, self._read(number, 6, thread))
            yield self._entry(number, text, where, self._read(number, 8, thread))

    def _needs(self, number: int, packed: int) -> str:
        out, output, first, source, second, other = (
            *(packed & 0xFF, packed >> 8 & 0xFF),
            *(packed >> 24 & 0xFF, packed >> 32 & 0xFF, packed >> 40 & 0xFF, packed >> 48 & 0xFF),
        )
        for kind, queue in ((first, source), (second, other)):
            if (
                kind == DsdKind.FABRIC_IN
                and queue < NUM_QUEUES
                and not self._read(number, 10, queue)
            ):
                color = self._read(number, 11, queue)
                return f"for a wavelet in input queue {queue} (color {color})"
        if out == DsdKind.FABRIC_OUT:
            return f"for room in output queue {output} (color {self._read(number, 13, output)})"
        return "for an element of a FIFO"

    def _waiting_tasks(self, number: int) -> Iterator[Waiting]:
        state = self._read(number, 1, 0)
        if state & 1 and not state & 2:
            where = self.position(number, self._read(number, 0, 0))
            yield self._entry(number, "the main thread waits for a wavelet in @map", where, 0)
        blocked = self._read(number, 2, 0) & self._read(number, 3, 0)
        for task in range(64):
            if blocked >> task & 1:
                yield self._entry(number, f"local task {task} is active but blocked", "", 0)

    def _waiting_wavelets(self, number: int) -> Iterator[Waiting]:
        for queue in range(NUM_QUEUES):
            count, color = self._read(number, 10, queue), self._read(number, 11, queue)
            if count:
                text = f"{count} wavelets of color {color} wait in input queue {queue}; no running "
                yield self._entry(number, text + "operation or unblocked task takes them", "", 0)
            sent = self._read(number, 12, queue)
            if sent:
                color = self._read(number, 13, queue)
                text = f"{sent} wavelets wait in output queue {queue}; the router does not take "
                yield self._entry(number, f"{text}color {color} from the ramp", "", 0)
        for color in range(NUM_COLORS):
            count = self._read(number, 14, color)
            if count:
                yield self._entry(number, self._stuck(number, color, count), "", 0)

    def _stuck(self, number: int, color: int, count: int) -> str:
        packed = self._read(number, 15, color)
        tx = [name for port, name in enumerate(_PORTS[:5]) if packed >> (8 + port) & 1]
        state = (
            "the color is in teardown"
            if packed >> 16 & 1
            else f"next: {' and '.join(tx) or 'nowhere'}"
        )
        return f"{count} wavelets of color {color} wait in the router; {state}"

    def _entry(self, number: int, what: str, where: str, since: int) -> Waiting:
        x, y = self._place(number)
        return Waiting(x=x, y=y, what=what, where=where, since=since)

    def _place(self, number: int) -> tuple[int, int]:
        return number % self._program.grid.width, number // self._program.grid.width

    def _class_of(self, number: int) -> LoweredClass | None:
        x, y = self._place(number)
        index = self._program.grid.code_class(x, y)
        return self._loaded.classes[index] if index < len(self._loaded.classes) else None

    def _read(self, number: int, what: int, index: int) -> int:
        return self._kernel.inspect(self._loaded.handle, number, what, index)


_FAULT_TEXTS = {
    Fault.MEMORY: "an access of {b} bytes at {a:#06x} goes beyond this PE's data, "
    "which end at {size:#06x}.",
    Fault.ASSERTION: "@assert does not hold.",
    Fault.DIVISION: "an integer is divided by zero.",
    Fault.MICROTHREAD_BUSY: "microthread {a} still runs the operation at {other}; two operations "
    "that run at a time need two microthreads.",
    Fault.QUEUE_BUSY: "queue {a} is in use by another running operation.",
    Fault.TWO_ARRIVALS: "color {color} arrived from {first} and {second} on the same cycle, which "
    "a router cannot take.",
    Fault.NO_TASK: "no task is bound to id {b}, which a wavelet names.",
    Fault.NULL_FUNCTION: "a call through the function pointer {a}, which points at no function.",
    Fault.NO_QUEUE: "queue {a} has no color: it was not initialized.",
    Fault.BAD_OPERAND: "the DSR {b} of file {a} is used before it is loaded.",
    Fault.STACK: "calls or @map are nested too deeply ({a}).",
    Fault.FIFO_FAULT: "FIFO {a} was used while empty or full, which its action makes a fault.",
    Fault.NO_SWITCH: "color {a} has no switch.",
}
_FAULT_HINTS = {
    Fault.NO_QUEUE: "Call @initialize_queue in a comptime block.",
    Fault.BAD_OPERAND: "Call @load_to_dsr before the operation.",
    Fault.TWO_ARRIVALS: "Let one neighbour at a time send on this color, or use a switch.",
}
