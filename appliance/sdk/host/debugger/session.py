"""A run that stops between two cycles and waits for commands."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance.core.errors import UserError
from appliance.csl.program import NO_CODE
from appliance.fabric.bytecode import Op
from appliance.fabric.debugging.lines import CodeLines, CodePlace
from appliance.fabric.debugging.parts import StopReason
from appliance.fabric.debugging.stops import Places, Stops
from appliance.fabric.host_interface import Simulator
from appliance.sdk.host.core_files import write_core
from appliance.sdk.host.debugger.debug_commands import Breakpoint, Debugger, Motion
from appliance.sdk.host.debugger.states import PeStates
from appliance.sdk.host.debugger.targets import Target
from appliance.sdk.host.fabric_traces import sources_of

DEBUG_VARIABLE = "WSC_CS_DEBUG"
"""Variable by which `cs_debug` has a run stop: the file of its commands, or empty for those that
somebody types."""

PROMPT = "(cs_debug) "
_STORES = (
    *(Op.STORE_16, Op.STORE_32, Op.STORE_64, Op.COPY, Op.INDEX_STORE_16, Op.INDEX_STORE_32),
    *(Op.VECTOR, Op.MAP_PUT, Op.INTRINSIC),
)


@dataclass(frozen=True, slots=True)
class _Began:
    """Where a step began."""

    pe: int
    place: CodePlace | None
    depth: int


class DebugSession:
    """Runs the kernel for a simulator, and stops it for commands.

    Args:
        simulator: What is debugged.
        target: Its program and memory.
        read: Returns the next command; None after the last one.
        say: Takes a line of output.
    """

    def __init__(
        self,
        simulator: Simulator,
        target: Target,
        read: Callable[[], str | None],
        say: Callable[[str], None],
    ) -> None:
        self._simulator, self._read, self._say = simulator, read, say
        parts = simulator.parts()
        self._kernel, self._handle = parts.kernel, parts.loaded.handle
        self._stops = Stops(parts.program, parts.loaded, parts.kernel)
        self._program = parts.program
        self.lines = CodeLines(parts.program, parts.loaded.classes)
        self._states = PeStates(parts.program, self._stops, self.lines)
        self.debugger = Debugger(target, self)
        self._motion: Motion | None = None
        self._began: _Began | None = None
        self._is_detached = False

    # --- the run

    def run(self, limit: int, stop: int, target: int, work: int) -> int:
        """Simulate as the kernel does, with pauses for commands; return why it stopped."""
        if self._motion is None:
            self._stand("The program is loaded; nothing has run yet.")
        while True:
            self._arm()
            bound = self._bound(limit)
            reason = self._kernel.run(self._handle, bound, stop, target, work)
            text = self._stop_text(reason)
            if text:
                self._stand(text)
            is_early = reason == StopReason.LIMIT and bound < limit and self.cycle() + 1 < limit
            if reason != StopReason.BREAK and not is_early:
                return reason

    def fail(self, text: str) -> None:
        """Let somebody look at a run that cannot go on."""
        self._stand(text)

    def _bound(self, limit: int) -> int:
        if self._is_detached or self._motion is None:
            return limit
        if any(each.watched for each in self.debugger.breakpoints.values()):
            limit = min(limit, self.cycle() + 2)
        return min(limit, self._motion.cycle + 1) if self._motion.kind == "until" else limit

    def _stop_text(self, reason: int) -> str:
        """Return why the run is to stand still; empty if it is not."""
        if self._is_detached or self._motion is None:
            return ""
        changed = self._changed()
        if changed:
            return changed
        if reason == StopReason.FAULT:
            return f"The program failed: {self._simulator.parts().inspector.fault()}"
        if reason == StopReason.BREAK:
            return self._arrived()
        if self._motion.kind == "until" and self.cycle() >= self._motion.cycle:
            return f"Cycle {self.cycle():,}."
        return ""

    def _arrived(self) -> str:
        hits: list[tuple[int, str]] = []
        for pe, counter in self._stops.arrived().items():
            place = self.lines.place(self._stops.code_of(pe), counter)
            hits += [(pe, text) for text in self._hits(pe, counter, place)]
        if not hits:
            return ""
        own = self._pe_number(*self.debugger.pe)
        pe, text = next((hit for hit in hits if hit[0] == own), hits[0])
        self.debugger.pe = self._place(pe)
        others = len({hit[0] for hit in hits}) - 1
        more = f", and {others} other PE{'s' * (others > 1)}" if others else ""
        return f"{text}{more}, cycle {self.cycle():,}."

    def _hits(self, pe: int, counter: int, place: CodePlace | None) -> Iterator[str]:
        code = self._stops.code_of(pe)
        for each in self.debugger.breakpoints.values():
            is_here = counter in each.places.get(code, ())
            if is_here and (each.pes is None or self._place(pe) in each.pes):
                yield f"Breakpoint {each.number}"
                return
        began = self._began
        if began is None or began.pe != pe or self._motion is None:
            return
        if counter not in self.lines.beginnings(code):
            return
        depth = len(self._stops.calls(pe))
        is_over = self._motion.kind == "next" and depth > began.depth > 0
        if not is_over and (place != began.place or depth != began.depth):
            yield "Step"

    def _changed(self) -> str:
        for each in self.debugger.breakpoints.values():
            if each.watched is None:
                continue
            name, (x, y) = each.watched
            target = self.debugger.target
            variable = target.symbols.variable(target.code_of(x, y), name)
            value = target.memory.read(x, y, variable.address, variable.num_bytes)
            if value != each.value:
                each.value = value
                self.debugger.pe = (x, y)
                writer = self._writer(x, y)
                return (
                    f"Watchpoint {each.number}: {each.text} has changed{writer}, "
                    f"cycle {self.cycle():,}."
                )
        return ""

    def _writer(self, x: int, y: int) -> str:
        """Return what the PE did last, or what operation is at work there."""
        pe = self._pe_number(x, y)
        counter, code = self._stops.counter(pe), self._stops.code_of(pe)
        if counter is not None:
            return f" by {self.lines.place(code, counter - 1)}"
        return "".join(f" by the {each}" for each in self._states.places_of_operations(pe))

    # --- breakpoints

    def _arm(self) -> None:
        breakpoints = self.debugger.breakpoints.values()
        if self._is_detached or self._motion is None:
            self._stops.set((), ())
            return
        places: list[Places] = [each.places for each in breakpoints if each.places]
        pes: set[int] = set()
        for each in breakpoints:
            pes.update(self._pes_of(each))
            if each.watched is not None:
                places.append(self._after_stores(self.debugger.target.code_of(*each.watched[1])))
        if self._began is not None:
            code = self._stops.code_of(self._began.pe)
            places.append({code: self.lines.beginnings(code)})
            pes.add(self._began.pe)
        self._stops.set(places, pes)

    def _pes_of(self, each: Breakpoint) -> Iterable[int]:
        if each.watched is not None:
            return (self._pe_number(*each.watched[1]),)
        if each.pes is not None:
            return (self._pe_number(x, y) for x, y in each.pes)
        count = self._program.grid.width * self._program.grid.height
        return (pe for pe in range(count) if self._stops.code_of(pe) in each.places)

    def _after_stores(self, code: int) -> dict[int, list[int]]:
        """Return the instructions behind those that may write to memory."""
        operations = self._simulator.parts().loaded.classes[code].code["op"] & 0xFF
        return {code: [at + 1 for at, op in enumerate(operations[:-1].tolist()) if op in _STORES]}

    # --- commands

    def _stand(self, text: str) -> None:
        """Say why the run stands still, and do commands until one lets it go on."""
        if self._is_detached:
            return
        self._say(text)
        for line in self._safe(self.debugger.where):
            self._say(line)
        while True:
            line_typed = self._read()
            if line_typed is None:
                self._is_detached = True
                return
            if not line_typed.strip() or line_typed.lstrip().startswith("#"):
                continue
            motion = self._do(line_typed)
            if motion is not None:
                self._go(motion)
                return

    def _do(self, line: str) -> Motion | None:
        try:
            lines, motion = self.debugger.execute(line)
        except UserError as error:
            self._say(f"error: {error}")
            return None
        for each in lines:
            self._say(each)
        return motion

    def _safe(self, show: Callable[[], list[str]]) -> list[str]:
        try:
            return show()
        except UserError as error:
            return [str(error)]

    def _go(self, motion: Motion) -> None:
        if motion.kind == "quit":
            sys.exit(0)
        self._motion, self._began = motion, None
        if motion.kind in ("step", "next"):
            pe = self._pe_number(*self.debugger.pe)
            counter = self._stops.counter(pe)
            place = None if counter is None else self.lines.place(self._stops.code_of(pe), counter)
            self._began = _Began(pe, place, len(self._stops.calls(pe)))

    # --- what commands ask

    def cycle(self) -> int:
        """Return the clock cycle."""
        return self._simulator.cycle()

    def counter(self, pe: int) -> int | None:
        """Return the next instruction of a PE; None where nothing runs."""
        return self._stops.counter(pe)

    def calls(self, pe: int) -> list[int]:
        """Return the next instruction of a PE, and where its calls return to."""
        return self._stops.calls(pe)

    def tasks(self, pe: int) -> list[str]:
        """Return the state of each task of a PE."""
        return self._states.tasks(pe)

    def queues(self, pe: int) -> list[str]:
        """Return what a PE's queues hold."""
        return self._states.queues(pe)

    def operations(self, pe: int) -> list[str]:
        """Return the operations that are at work."""
        return self._states.operations(pe)

    def wavelets(self, color: int | None) -> Iterator[str]:
        """Yield the wavelets in flight."""
        return self._states.wavelets(color)

    def waiting(self) -> str:
        """Return what waits for what."""
        return str(self._simulator.stall_report("Nothing is wrong yet."))

    def dump(self, path: Path) -> None:
        """Write a core file."""
        write_core(path, self._simulator, self.debugger.target.origin)

    def _pe_number(self, x: int, y: int) -> int:
        return y * self._program.grid.width + x

    def _place(self, pe: int) -> tuple[int, int]:
        return pe % self._program.grid.width, pe // self._program.grid.width


def attach(simulator: Simulator, directory: Path) -> None:
    """Have a run wait for commands, if `cs_debug` started this process."""
    commands = os.environ.get(DEBUG_VARIABLE)
    if commands is None:
        return
    program = simulator.parts().program
    target = Target(
        program=program,
        memory=simulator.parts().memories,
        sources=sources_of(directory),
        origin=program.offsets,
    )
    is_there = any(program.grid.code_class(0, y) != NO_CODE for y in range(program.grid.height))
    session = DebugSession(simulator, target, reader(commands), print_line)
    if not is_there:
        session.debugger.pe = session._place(0)
    simulator.debug(session)


def reader(path: str) -> Callable[[], str | None]:
    """Return what gives the commands of a file, each shown as if typed, or those of a terminal.

    Raises:
        UserError: The file cannot be read.
    """
    if not path:
        return _typed
    try:
        lines = iter(Path(path).read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}.") from error

    def following() -> str | None:
        line = next(lines, None)
        if line is not None and line.strip():
            print_line(f"{PROMPT}{line}")
        return line

    return following


def _typed() -> str | None:
    try:
        return input(PROMPT)
    except EOFError:
        return "quit"


def print_line(line: str) -> None:
    """Write a line to the terminal."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
