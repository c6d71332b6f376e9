"""What one types: commands on a program that stands still."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from appliance.core.errors import UserError
from appliance.fabric.debugging.contents import contents, parse_expression
from appliance.fabric.debugging.lines import CodeLines, CodePlace
from appliance.sdk.host.debugger.targets import Target

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_LISTED = 5
_MOST_SYMBOLS = 200


class Machine(Protocol):
    """A run, as commands see it."""

    lines: CodeLines

    def cycle(self) -> int:
        """Return the clock cycle."""

    def counter(self, pe: int) -> int | None:
        """Return the next instruction of a PE; None where nothing runs."""

    def calls(self, pe: int) -> list[int]:
        """Return the next instruction of a PE, and where its calls return to."""

    def tasks(self, pe: int) -> list[str]:
        """Return the state of each task of a PE."""

    def queues(self, pe: int) -> list[str]:
        """Return what a PE's queues hold."""

    def operations(self, pe: int) -> list[str]:
        """Return the operations that are at work."""

    def wavelets(self, color: int | None) -> Iterator[str]:
        """Yield the wavelets in flight."""

    def waiting(self) -> str:
        """Return what waits for what."""

    def dump(self, path: Path) -> None:
        """Write a core file."""


@dataclass
class Breakpoint:
    """Where a program is to stop, or a symbol whose change stops it."""

    number: int
    text: str
    places: dict[int, tuple[int, ...]] = field(default_factory=dict)
    pes: frozenset[tuple[int, int]] | None = None
    watched: tuple[str, tuple[int, int]] | None = None
    value: bytes = b""


@dataclass(frozen=True, slots=True)
class Motion:
    """How a run goes on: `continue`, `step`, `next`, `until` a cycle, or `quit`."""

    kind: str
    cycle: int = 0


@dataclass
class Debugger:
    """The state of a debugging session.

    Attributes:
        target: Program and memory.
        machine: The run; None for a core file.
        pe: The PE that commands are about.
        breakpoints: By number.
    """

    target: Target
    machine: Machine | None
    pe: tuple[int, int] = (0, 0)
    breakpoints: dict[int, Breakpoint] = field(default_factory=dict)
    _next: int = 1
    _listed: tuple[str, int] = ("", 0)

    def execute(self, line: str) -> tuple[list[str], Motion | None]:
        """Do a command; return what it says, and how the run is to go on if it says that.

        Raises:
            UserError: There is no such command, or it cannot be done.
        """
        word, _, rest = line.strip().partition(" ")
        name = _ALIASES.get(word, word)
        if name not in COMMANDS:
            known = ", ".join(COMMANDS)
            raise UserError(f"There is no command {word!r}.", hint=f"There are {known}.")
        made = COMMANDS[name].action(self, rest.strip())
        return ([], made) if isinstance(made, Motion) else (made, None)

    # --- stops

    def break_at(self, text: str) -> list[str]:
        """Stop at a line or function."""
        where, _, rest = text.partition(" ")
        if not where:
            raise UserError("Say where: break FILE:LINE or break FUNCTION, and perhaps X,Y.")
        places = self.running().lines.find(where)
        pes = self._pes(rest) if rest.strip() else None
        shown = f" on PEs {rest.strip()}" if pes is not None else ""
        found = self._add(Breakpoint(self._next, f"{where}{shown}", places=places, pes=pes))
        codes = {self.target.code_of(x, y) for x, y in pes or ()} & set(places) or set(places)
        code = min(codes)
        place = self.running().lines.place(code, places[code][0])
        return [f"Breakpoint {found.number} at {place}{shown}"]

    def watch(self, text: str) -> list[str]:
        """Stop when a symbol of the PE changes."""
        self.running()
        name, where, field = parse_expression(text)
        if where or field:
            raise UserError("A whole symbol is watched: leave out the index.")
        code = self.target.code_of(*self.pe)
        variable = self.target.symbols.variable(code, name)
        value = self.target.memory.read(*self.pe, variable.address, variable.num_bytes)
        x, y = self.pe
        made = Breakpoint(
            self._next, f"{name} of PE ({x}, {y})", watched=(name, self.pe), value=value
        )
        return [f"Watchpoint {self._add(made).number}: {made.text}"]

    def _add(self, made: Breakpoint) -> Breakpoint:
        self.breakpoints[made.number] = made
        self._next += 1
        return made

    def delete(self, text: str) -> list[str]:
        """Forget a breakpoint, or all."""
        if not text:
            self.breakpoints.clear()
        elif not text.isdecimal() or int(text) not in self.breakpoints:
            raise UserError(f"There is no breakpoint {text}.")
        else:
            del self.breakpoints[int(text)]
        return []

    def info(self, _: str) -> list[str]:
        """List breakpoints."""
        return [f"{each.number}  {each.text}" for each in self.breakpoints.values()] or ["none"]

    # --- the run

    def step(self, _: str) -> Motion:
        """Go on to the PE's next line."""
        self.running()
        return Motion("step")

    def next(self, _: str) -> Motion:
        """Go on to the next line of the PE's function, or of what called it."""
        self.running()
        return Motion("next")

    def until(self, text: str) -> Motion:
        """Go on to a cycle."""
        cycle = _number(text.removeprefix("+"), "a cycle") + (
            self.running().cycle() if text.startswith("+") else 0
        )
        if cycle <= self.running().cycle():
            raise UserError(f"It is cycle {self.running().cycle():,} already.")
        return Motion("until", cycle)

    def running(self) -> Machine:
        """Return the run.

        Raises:
            UserError: A core file does not run.
        """
        if self.machine is None:
            raise UserError("A core file has memory alone; this needs a run.")
        return self.machine

    # --- what it shows

    def select(self, text: str) -> list[str]:
        """Choose the PE."""
        if text:
            x, y = _pair(text)
            self.target.code_of(x, y)
            self.pe = (x, y)
        return self.where()

    def where(self) -> list[str]:
        """Return where the PE is."""
        x, y = self.pe
        if self.machine is None:
            source = self.target.program.classes[self.target.code_of(x, y)]
            return [f"PE ({x}, {y}) {source.file} {source.parameters}"]
        counter = self.machine.counter(self._number_of_pe())
        if counter is None:
            return [f"PE ({x}, {y}) runs no task"]
        place = self.machine.lines.place(self.target.code_of(x, y), counter)
        return [f"PE ({x}, {y}) {place or 'in code without a line'}", *self._source_line(place)]

    def _source_line(self, place: CodePlace | None) -> list[str]:
        lines = self.target.sources.get(place.file, ()) if place is not None else ()
        if place is None or not 0 < place.line <= len(lines):
            return []
        self._listed = (place.file, place.line)
        return [f"{place.line:>5}  {lines[place.line - 1]}"]

    def backtrace(self, _: str) -> list[str]:
        """Show the calls of the PE's task."""
        code = self.target.code_of(*self.pe)
        calls = self.running().calls(self._number_of_pe())
        lines = self.running().lines
        # A call returns behind itself, which may be another line.
        places = [lines.place(code, each - (at > 0)) for at, each in enumerate(calls)]
        return [f"#{at}  {place}" for at, place in enumerate(places)] or [
            f"PE {self.pe} runs no task"
        ]

    def show(self, text: str) -> list[str]:
        """Show a symbol, or elements or fields of it."""
        name, where, field = parse_expression(text)
        variable, of_name = self.target.symbols.field(self.target.code_of(*self.pe), name)
        x, y = self.pe
        half = self.target.program.fp16_format

        def read(address: int, num_bytes: int) -> bytes:
            return self.target.memory.read(x, y, address, num_bytes)

        return [f"{text} = {contents(variable, where, read, half, of_name + field)}"]

    def examine(self, text: str) -> list[str]:
        """Show words of memory: an address, and how many."""
        first, _, count = text.partition(" ")
        address, words = _number(first, "an address"), _number(count or "8", "a number of words")
        data = self.target.memory.read(*self.pe, address, 2 * words)
        shown = [f"{data[at] | data[at + 1] << 8:04x}" for at in range(0, len(data), 2)]
        rows = range(0, words, 8)
        return [f"{address + 2 * at:#06x}  {' '.join(shown[at : at + 8])}" for at in rows]

    def symbols(self, text: str) -> list[str]:
        """List the symbols of the PE, or those that contain a text."""
        source = self.target.program.classes[self.target.code_of(*self.pe)]
        found = [each for each in source.variables if text in each.name]
        shown = [
            f"{each.address:#06x} {each.num_bytes:>6} bytes  {each.name}"
            for each in sorted(found, key=lambda variable: variable.address)[:_MOST_SYMBOLS]
        ]
        return shown or [f"no symbol has {text!r} in its name"]

    def source(self, text: str) -> list[str]:
        """Show source lines around FILE:LINE, or around where the PE is, or the next ones."""
        if text:
            file, _, line = text.rpartition(":")
            found = [name for name in self.target.sources if name.endswith(file)] if file else []
            if not found:
                raise UserError(f"There is no source file {file!r}.", hint="Write list FILE:LINE.")
            self._listed = (found[0], _number(line, "a line"))
        elif not self._listed[0]:
            self.where()
        file, middle = self._listed
        lines = self.target.sources.get(file, ())
        first = max(1, middle - _LISTED)
        self._listed = (file, middle + 2 * _LISTED + 1)
        shown = lines[first - 1 : middle + _LISTED]
        return [f"{first + at:>5}  {line}" for at, line in enumerate(shown)] or ["no more lines"]

    def _number_of_pe(self) -> int:
        return self.pe[1] * self.target.program.grid.width + self.pe[0]

    def tasks(self, _: str) -> list[str]:
        """Show tasks of the PE: which are active, blocked, or wait for a wavelet."""
        return self.running().tasks(self._number_of_pe())

    def queues(self, _: str) -> list[str]:
        """Show what the PE's queues hold."""
        return self.running().queues(self._number_of_pe())

    def operations(self, _: str) -> list[str]:
        """Show the DSD operations of the PE that are at work."""
        return self.running().operations(self._number_of_pe())

    def wavelets(self, text: str) -> list[str]:
        """Show wavelets in flight, of all colors or of one."""
        color = _number(text, "a color") if text else None
        return list(self.running().wavelets(color)) or ["none"]

    def waiting(self, _: str) -> list[str]:
        """Show what waits for what."""
        return self.running().waiting().splitlines()

    def dump(self, text: str) -> list[str]:
        """Write a core file."""
        if not text:
            raise UserError("Name the file: dump FILE.")
        self.running().dump(Path(text))
        return [f"wrote {text}"]

    def help(self, text: str) -> list[str]:
        """Say what commands there are, or what one does."""
        name = _ALIASES.get(text, text)
        if name in COMMANDS:
            return [f"{COMMANDS[name].usage}  {COMMANDS[name].about}"]
        width = max(len(each.usage) for each in COMMANDS.values())
        return [f"{each.usage:<{width}}  {each.about}" for each in COMMANDS.values()]

    def _pes(self, text: str) -> frozenset[tuple[int, int]]:
        """Return the PEs of `X,Y` or `X-X,Y-Y`."""
        parts = [_RANGE.fullmatch(part.strip()) for part in text.split(",")]
        if len(parts) != 2 or parts[0] is None or parts[1] is None:
            raise UserError(f"{text!r} is no set of PEs, as in 2,0 or 0-3,1.")
        columns, rows = (range(int(p[1]), int(p[2] or p[1]) + 1) for p in parts if p is not None)
        found = frozenset((x, y) for x in columns for y in rows)
        for x, y in found:
            self.target.code_of(x, y)
        if not found:
            raise UserError(f"{text!r} has no PE.")
        return found


def _number(text: str, what: str) -> int:
    try:
        number = int(text.strip(), 0)
    except ValueError:
        raise UserError(f"{text!r} is no number: this takes {what}.") from None
    if number < 0:
        raise UserError(f"{number} is below 0: this takes {what}.")
    return number


def _pair(text: str) -> tuple[int, int]:
    x, comma, y = text.partition(",")
    if not comma:
        raise UserError(f"{text!r} is no PE, as in 2,0.")
    return _number(x, "a column"), _number(y, "a row")


@dataclass(frozen=True, slots=True)
class Command:
    """A command: how it is written, what it does, and how."""

    usage: str
    about: str
    action: Callable[[Debugger, str], list[str] | Motion]


COMMANDS = {
    "break": Command(
        "break FILE:LINE|FUNCTION [X,Y]", "stop there; PEs as 2,0 or 0-3,1", Debugger.break_at
    ),
    "watch": Command("watch SYMBOL", "stop when it changes on the PE", Debugger.watch),
    "delete": Command("delete [N]", "forget a breakpoint, or all", Debugger.delete),
    "info": Command("info", "list breakpoints", Debugger.info),
    "continue": Command("continue", "go on to the next stop", lambda *_: Motion("continue")),
    "step": Command("step", "go on to the PE's next line", Debugger.step),
    "next": Command("next", "the same, but over calls", Debugger.next),
    "until": Command("until CYCLE|+CYCLES", "go on to a clock cycle", Debugger.until),
    "pe": Command("pe [X,Y]", "choose the PE; say where it is", Debugger.select),
    "backtrace": Command("backtrace", "the calls of the PE's task", Debugger.backtrace),
    "print": Command("print SYMBOL[I,J|A:B]", "a symbol of the PE, or elements", Debugger.show),
    "x": Command("x ADDRESS [WORDS]", "words of the PE's memory", Debugger.examine),
    "symbols": Command("symbols [TEXT]", "the PE's symbols", Debugger.symbols),
    "list": Command("list [FILE:LINE]", "source lines", Debugger.source),
    "tasks": Command("tasks", "the PE's tasks and their states", Debugger.tasks),
    "queues": Command("queues", "the PE's queues", Debugger.queues),
    "operations": Command("operations", "the PE's operations at work", Debugger.operations),
    "wavelets": Command("wavelets [COLOR]", "wavelets in flight", Debugger.wavelets),
    "waiting": Command("waiting", "what waits for what", Debugger.waiting),
    "dump": Command("dump FILE", "write a core file", Debugger.dump),
    "help": Command("help [COMMAND]", "this", Debugger.help),
    "quit": Command("quit", "end the program", lambda *_: Motion("quit")),
}
_ALIASES = {
    "b": "break",
    "c": "continue",
    "run": "continue",
    "s": "step",
    "n": "next",
    "p": "print",
    "bt": "backtrace",
    "where": "backtrace",
    "l": "list",
    "d": "delete",
    "h": "help",
    "q": "quit",
    "u": "until",
    "w": "watch",
    "i": "info",
}
