"""Reads the kernel's state for people: faults, and what waits where."""

from collections.abc import Iterator
from dataclasses import dataclass

from appliance.csl.program import CodeClass, Position, Program, TaskBinding, TaskKind
from appliance.csl.program.operations import uneven_lengths
from appliance.csl.program.registers import unknown_register
from appliance.fabric.bytecode import NUM_COLORS, NUM_QUEUES, DsdKind, Fault
from appliance.fabric.errors import FAULT_HINTS, FAULT_TEXTS, FabricError, Place, Waiting
from appliance.fabric.idle import idle_code, silent_files
from appliance.fabric.loading import LoadedProgram
from appliance.fabric.lowering.classes import LoweredClass
from appliance.fabric.native.loader import Kernel
from appliance.fabric.paths import Destination, Paths

_NEVER = (1 << 64) - 1
_MAIN_THREAD = 8
_ENDLESS = 0xFFFFFFFF
_NO_COLOR = 0xFF
_IS_RUNNING, _IN_OPERATION, _COMMAND_READY = 1, 1 << 1, 1 << 3
_BEYOND, _UNEVEN = 18, 22
"""Where the kernel tells the parts of its notes."""
_MOST_NAMED = 3
"""PEs that a sentence names."""
_PORTS = ("West", "East", "South", "North", "Ramp", "Host")


@dataclass(frozen=True, slots=True)
class Cursors:
    """The queues of an operation.

    Attributes:
        inputs: Input queues that it reads.
        output: Output queue that it writes; None for none.
        output_color: The color that it was told to send on; none of the colors if it was not.
    """

    inputs: tuple[int, ...]
    output: int | None
    output_color: int

    @classmethod
    def of(cls, packed: int) -> "Cursors":
        """Return them as the kernel packs them: kind, queue and color, then two sources."""
        kind, queue, color = packed & 0xFF, packed >> 8 & 0xFF, packed >> 16 & 0xFF
        sources = ((packed >> at & 0xFF, packed >> (at + 8) & 0xFF) for at in (24, 40))
        inputs = (number for kind_, number in sources if kind_ == DsdKind.FABRIC_IN)
        sends = kind == DsdKind.FABRIC_OUT and queue < NUM_QUEUES
        return cls(
            tuple(number for number in inputs if number < NUM_QUEUES),
            queue if sends else None,
            color,
        )


@dataclass(frozen=True, slots=True)
class _Need:
    """What an operation waits for.

    Attributes:
        text: In words.
        remedy: Who would have to do what, as the end of a sentence.
        on: The PEs of the remedy.
    """

    text: str
    remedy: str = ""
    color: int | None = None
    on: tuple[Place, ...] = ()


class Inspector:
    """Looks into the PEs of a loaded program."""

    def __init__(self, program: Program, loaded: LoadedProgram, kernel: Kernel) -> None:
        self._program = program
        self._loaded = loaded
        self._kernel = kernel
        self._paths = Paths(program, self._read)

    def fault(self) -> FabricError:
        """Return the kernel's fault as an error."""
        kind, number, pc, a, b = (self._kernel.value(self._loaded.handle, n) for n in range(1, 6))
        x, y = self._place(number)
        # Routers have no program: what stands there is the color.
        where = "" if Fault(kind) is Fault.TWO_ARRIVALS else self.position(number, pc)
        text = FAULT_TEXTS[Fault(kind)].format(
            a=a, b=b, **self._details(Fault(kind), number, a, b, pc)
        )
        at = f" at {where}" if where else ""
        return FabricError(f"PE ({x}, {y}){at}: {text}", hint=FAULT_HINTS.get(Fault(kind), ""))

    def _details(self, fault: Fault, number: int, a: int, b: int, pc: int) -> dict[str, object]:
        if fault is Fault.TWO_ARRIVALS:
            first, second = sorted((a, b))
            senders = self._senders_of(number, pc)
            return {
                "first": _PORTS[first],
                "second": _PORTS[second],
                "color": pc,
                "senders": senders,
            }
        if fault is Fault.QUEUE_BUSY:
            return self._busy_queue(number, a, is_input=bool(b))
        if fault is Fault.NO_QUEUE:
            queue = f"{'input' if b & 1 else 'output'} queue {a}"
            return {"queue": queue if b > 1 else f"a queue for color {a}"}
        if fault is Fault.NO_REGISTER:
            return {"unknown": unknown_register(a, self._program.architecture)}
        if fault is Fault.NO_OPERAND:
            return {"way": "read" if a else "written"}
        if fault is Fault.INDEX:
            return self._index(number, pc, a, b)
        if fault is Fault.MEMORY:
            return {"size": self._read(number, 21, 0)}
        if fault is Fault.MICROTHREAD_BUSY:
            return {"other": self.position(number, b)}
        return {}

    def _index(self, number: int, pc: int, index: int, count: int) -> dict[str, object]:
        code_class = self._class_of(number)
        array = "" if code_class is None else code_class.arrays.get(pc, "")
        signed = index - (1 << 32) if index >> 31 else index
        return {"array": array, "index": signed, "last": count - 1}

    def doubts(self) -> list[str]:
        """Return what a checked program did that is likely not what was meant, as sentences."""
        return [text for text in (self._beyond(), self._uneven()) if text]

    def _note(self, which: int) -> tuple[int, int, int, int, int] | None:
        """A note of the kernel: operand, PE, instruction, and two numbers."""
        parts = (self._kernel.value(self._loaded.handle, which + part) for part in range(3))
        first, place, numbers = parts
        if not first:
            return None
        return (first >> 32, *divmod(place, 1 << 32), *divmod(numbers, 1 << 32))

    def _beyond(self) -> str:
        note = self._note(_BEYOND)
        if note is None:
            return ""
        _, number, pc, byte, limit = note
        x, y = self._place(number)
        source = self._program.classes[self._program.grid.code_class(x, y)]
        names = [each.name for each in source.variables if each.address == limit >> 16]
        return (
            f"PE ({x}, {y}) at {self.position(number, pc)}: the operation reaches byte "
            f"{byte - (1 << 32) if byte >> 31 else byte} of array '{names[-1]}', which has "
            f"{limit & 0xFFFF}. Its numbers may be wrong."
        )

    def _uneven(self) -> str:
        note = self._note(_UNEVEN)
        if note is None:
            return ""
        operand, number, pc, taken, length = note
        x, y = self._place(number)
        return (
            f"PE ({x}, {y}) at {self.position(number, pc)}: "
            f"{uneven_lengths(taken, operand, length)}. The first source decides."
        )

    def _senders_of(self, number: int, color: int) -> str:
        """Return who sends wavelets to a router, with source lines, as the end of a sentence."""
        if not self._paths.can_follow(color):
            return ""
        senders = self._paths.sources(number, color)
        told = [
            f"PE {self._place(pe)} at {where}"
            for pe in senders
            if (where := self._sent_at(pe, color))
        ]
        return f" It is sent by {' and '.join(told[:_MOST_NAMED])}." if told else ""

    def _busy_queue(self, number: int, queue: int, *, is_input: bool) -> dict[str, object]:
        """Return the color of a queue, and the operation that uses it."""
        other, color = "", self._read(number, 11, queue) if is_input else _NO_COLOR
        for thread in range(_MAIN_THREAD + 1):
            cursors = Cursors.of(self._read(number, 9, thread))
            used = cursors.inputs if is_input else (cursors.output,)
            if self._read(number, 5, thread) and queue in used:
                other = f" at {self.position(number, self._read(number, 6, thread))}"
                color = color if is_input else cursors.output_color
        if not is_input and color >= NUM_COLORS:
            color = self._read(number, 13, queue)
        of = f" (color {color})" if color < NUM_COLORS else ""
        return {"queue": f"{'input' if is_input else 'output'} queue {queue}{of}", "other": other}

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

    def endless(self, now: int, limit: int) -> FabricError | None:
        """Return an error of the first task that has computed for more cycles than a limit."""
        grid = self._program.grid
        for number in range(grid.width * grid.height):
            state = self._read(number, 1, 0)
            if state == _NEVER or not state & _IS_RUNNING or state & _IN_OPERATION:
                continue
            cycles = now - self._read(number, 25, 0)
            if cycles > limit:
                x, y = self._place(number)
                where = self.position(number, self._read(number, 0, 0))
                return FabricError(
                    f"PE ({x}, {y}) at {where}: this code has run for {cycles:,} cycles without an "
                    f"end; {limit:,} is the limit.",
                    hint="Make the loop's condition false at some time; "
                    "WSC_CSL_TASK_CYCLES sets another limit.",
                )
        return None

    def unready(self, name: str) -> str:
        """Return the first PE that has not let the next command start, as the end of a sentence."""
        grid = self._program.grid
        for number in range(grid.width * grid.height):
            x, y = self._place(number)
            index = grid.code_class(x, y)
            if index >= len(self._program.classes) or self._read(number, 1, 0) & _COMMAND_READY:
                continue
            source = self._program.classes[index]
            for export in source.exports:
                if export.name == name and export.function is not None:
                    where = self._written(source.functions[export.function].position)
                    return f" PE ({x}, {y}) has not; {name} is at {where}."
        return ""

    def left(self) -> str:
        """Return where the first wavelet left the program's rectangle, as a sentence."""
        first = self._kernel.value(self._loaded.handle, 17)
        if first == _NEVER:
            return ""
        side = ("west", "east", "south", "north")[first >> 8 & 255]
        return (
            " Wavelets left the program's rectangle, where nothing takes them: the first from PE "
            f"{self._place(first >> 16)} to the {side} on color {first & 255}."
        )

    def waiting(self) -> Iterator[Waiting]:
        """Yield what cannot go on, PE by PE."""
        self._paths = Paths(self._program, self._read)
        for number in range(self._program.grid.width * self._program.grid.height):
            if self._read(number, 0, 0) != _NEVER:
                yield from self._waiting_threads(number)
                yield from self._waiting_tasks(number)
                yield from self._waiting_wavelets(number)

    def idle(self) -> Iterator[Waiting]:
        """Yield what PEs did last that have not let the next command start, and what they never do.

        One PE of each code tells it, since the others have the same.
        """
        told: set[int] = set()
        grid = self._program.grid
        for number in range(grid.width * grid.height):
            index = grid.code_class(*self._place(number))
            is_ready = self._read(number, 1, 0) & _COMMAND_READY
            if index < len(self._program.classes) and index not in told and not is_ready:
                told.add(index)
                yield from self._idle(number, self._program.classes[index])

    def _idle(self, number: int, source: CodeClass) -> Iterator[Waiting]:
        last, has_run = self._read(number, 24, 0), self._read(number, 16, 0) not in {0, _NEVER}
        if has_run and last < len(source.functions):
            function, since = source.functions[last], self._read(number, 25, 0)
            text = f"{function.name} ran last, from cycle {since:,} on, and has ended"
            yield self._entry(number, text, self._written(function.position), since)
        for text, position in idle_code(source):
            where = "" if position is None else self._written(position)
            yield self._entry(number, text, where, 0)
        for task in source.tasks:
            if task.kind is TaskKind.DATA:
                yield self._idle_data_task(number, source, task)

    def _idle_data_task(self, number: int, source: CodeClass, task: TaskBinding) -> Waiting:
        is_wse3 = self._program.architecture == "wse3"
        color = self._read(number, 11, task.id) if is_wse3 else task.id
        if color >= NUM_COLORS:
            return self._entry(number, f"no color is bound to input queue {task.id}", "", 0)
        name = source.functions[task.function].name
        text = f"data task {task.id} ({name}) waits for a wavelet of color {color}"
        need = self._from_sender(number, color, text)
        where = self._written(task.position)
        return self._entry(number, text + need.remedy, where, 0, color=color, on=need.on)

    def _waiting_threads(self, number: int) -> Iterator[Waiting]:
        for thread in range(_MAIN_THREAD + 1):
            if not self._read(number, 5, thread) or self._read(number, 7, thread) == _ENDLESS:
                continue
            who = "the main thread" if thread == _MAIN_THREAD else f"microthread {thread}"
            remaining = self._read(number, 7, thread)
            need = self._need(number, Cursors.of(self._read(number, 9, thread)))
            text = f"{who} waits {need.text}, {remaining:,} elements to go{need.remedy}"
            where = self.position(number, self._read(number, 6, thread))
            since = self._read(number, 8, thread)
            yield self._entry(number, text, where, since, color=need.color, on=need.on)

    def _need(self, number: int, cursors: "Cursors") -> "_Need":
        """Return the condition for which an operation waits."""
        for queue in cursors.inputs:
            if not self._read(number, 10, queue):
                color = self._read(number, 11, queue)
                text = f"for a wavelet in input queue {queue} (color {color})"
                return self._from_sender(number, color, text)
        if cursors.output is not None:
            color = self._read(number, 13, cursors.output)
            text = f"for room in output queue {cursors.output} (color {color})"
            return self._from_taker(number, color, text)
        return _Need("for an element of a FIFO")

    def _from_sender(self, number: int, color: int, text: str) -> "_Need":
        if color in self._streams("h2d"):
            return _Need(text, "; the host would have to send it", color)
        if not self._paths.can_follow(color):
            return _Need(text, "", color)
        senders = self._paths.senders(number, color)
        if not senders:
            return _Need(text, f"; {self._no_way(number, color)}", color)
        silent = silent_files(self._program, map(self._place, senders), color)
        if silent:
            never = f"but nothing in {silent} sends color {color}"
            remedy = f"; {self._names(senders)} would have to send it, {never}"
            return _Need(text, remedy, color)
        remedy = f"; {self._names(senders)} would have to send it{self._state_of(senders)}"
        return _Need(text, remedy, color, tuple(map(self._place, senders)))

    def _no_way(self, number: int, color: int) -> str:
        switches = self._paths.switches(number, color)
        if not switches:
            return f"no PE has a route of color {color} that leads here"
        one_would = f"in another position of the switch of {self._names(switches)} one would"
        return f"no route of color {color} leads here as the switches are; {one_would}"

    def _from_taker(self, number: int, color: int, text: str) -> "_Need":
        if color in self._streams("d2h"):
            return _Need(text, "; the host would have to take it", color)
        if not self._paths.can_follow(color):
            return _Need(text, "", color)
        found = self._paths.destination(number, color)
        if found.dead_ends:
            return _Need(text, f"; {self._dead_end(found, color)}", color)
        stuck = tuple(pe for pe in found.pes if self._holds(pe, color)) or found.pes
        if not stuck:
            return _Need(text, f"; color {color} has no route from its ramp", color)
        remedy = f"; {self._names(stuck)} would have to take it{self._state_of(stuck)}"
        return _Need(text, remedy, color, tuple(map(self._place, stuck)))

    def _holds(self, number: int, color: int) -> bool:
        """Whether wavelets of a color wait in an input queue of a PE."""
        queues = range(NUM_QUEUES)
        return self._read(number, 0, 0) != _NEVER and any(
            self._read(number, 10, queue) and self._read(number, 11, queue) == color
            for queue in queues
        )

    def _dead_end(self, found: Destination, color: int) -> str:
        number, reason = found.dead_ends[0]
        return f"the route of color {color} ends at PE {self._place(number)}, which {reason}"

    def _names(self, numbers: tuple[int, ...]) -> str:
        named = " or ".join(f"PE {self._place(number)}" for number in numbers[:_MOST_NAMED])
        rest = len(numbers) - _MOST_NAMED
        return f"{named} or one of {rest:,} others" if rest > 0 else named

    def _state_of(self, numbers: tuple[int, ...]) -> str:
        """Return the state of a PE for which others wait, if it is one."""
        if len(numbers) != 1:
            return ""
        (number,) = numbers
        if self._class_of(number) is None:
            return ", which has no program"
        if self._read(number, 0, 0) == _NEVER:
            return ", which has done nothing yet"
        if any(self._read(number, 5, thread) for thread in range(_MAIN_THREAD + 1)):
            return ", which waits itself"
        return ", where nothing runs"

    def _streams(self, kind: str) -> set[int]:
        return {stream.color for stream in self._program.streams if stream.kind == kind}

    def _waiting_tasks(self, number: int) -> Iterator[Waiting]:
        state = self._read(number, 1, 0)
        if state & 1 and not state & 2:
            where = self.position(number, self._read(number, 0, 0))
            yield self._entry(number, "the main thread waits for a wavelet in @map", where, 0)
        blocked = self._read(number, 2, 0) & self._read(number, 3, 0)
        for task in range(64):
            if blocked >> task & 1:
                name, where = self._task(number, TaskKind.LOCAL, task)
                text = f"local task {task}{name} is active but blocked"
                yield self._entry(number, text, where, 0)

    def _task(self, number: int, kind: TaskKind, identifier: int) -> tuple[str, str]:
        """Return a task's name in brackets and its position; empty if there is none."""
        x, y = self._place(number)
        index = self._program.grid.code_class(x, y)
        if index >= len(self._program.classes):
            return "", ""
        source = self._program.classes[index]
        for task in source.tasks:
            if task.kind is kind and task.id == identifier:
                function = source.functions[task.function]
                return f" ({function.name})", self._written(function.position)
        return "", ""

    def _written(self, position: Position) -> str:
        return f"{self._program.files[position.file]}:{position.line}:{position.column}"

    def _waiting_wavelets(self, number: int) -> Iterator[Waiting]:
        for queue in range(NUM_QUEUES):
            count, color = self._read(number, 10, queue), self._read(number, 11, queue)
            if count:
                text = f"{count} wavelets of color {color} wait in input queue {queue}; "
                reason, where = self._untaken(number, queue, color)
                yield self._entry(number, text + reason, where, 0, color=color)
            sent = self._read(number, 12, queue)
            if sent:
                color = self._read(number, 13, queue)
                text = f"{sent} wavelets wait in output queue {queue}; the router does not take "
                where = self._sent_at(number, color)
                yield self._entry(
                    number, f"{text}color {color} from the ramp", where, 0, color=color
                )
        for color in range(NUM_COLORS):
            count = self._read(number, 14, color)
            if count and count != _NEVER:
                yield self._entry(number, self._stuck(number, color, count), "", 0, color=color)

    def _untaken(self, number: int, queue: int, color: int) -> tuple[str, str]:
        """Return why an input queue is not read, and the source line responsible."""
        identifier = queue if self._program.architecture == "wse3" else color
        name, where = self._task(number, TaskKind.DATA, identifier)
        if name and self._read(number, 4, 0) >> identifier & 1:
            return f"data task {identifier}{name} is blocked", where
        if name:
            return f"data task {identifier}{name} waits for the main thread", where
        for thread in range(_MAIN_THREAD + 1):
            cursors = Cursors.of(self._read(number, 9, thread))
            if self._read(number, 5, thread) and queue in cursors.inputs:
                return "the operation that takes them waits", ""
        senders = self._paths.senders(number, color) if self._paths.can_follow(color) else ()
        where = next((at for at in (self._sent_at(pe, color) for pe in senders) if at), "")
        told = "; they are sent" if where else ""
        return f"no operation and no task on this PE takes them{told}", where

    def _sent_at(self, number: int, color: int) -> str:
        """Return where a PE sends a color, by the latest operations of its threads."""
        if self._read(number, 0, 0) == _NEVER:
            return ""
        for thread in range(_MAIN_THREAD + 1):
            cursors = Cursors.of(self._read(number, 9, thread))
            if cursors.output is None:
                continue
            own = self._read(number, 13, cursors.output)
            if color in (cursors.output_color, own):
                return self.position(number, self._read(number, 6, thread))
        return ""

    def _stuck(self, number: int, color: int, count: int) -> str:
        packed = self._read(number, 15, color)
        text = f"{count} wavelets of color {color} wait in the router; "
        if packed >> 16 & 1:
            return f"{text}the color is in teardown"
        if self._paths.can_follow(color):
            found = self._paths.destination(number, color)
            if found.dead_ends:
                return text + self._dead_end(found, color)
        tx = [name for port, name in enumerate(_PORTS[:5]) if packed >> (8 + port) & 1]
        return f"{text}next: {' and '.join(tx) or 'nowhere'}"

    def _entry(
        self,
        number: int,
        what: str,
        where: str,
        since: int,
        *,
        color: int | None = None,
        on: tuple[Place, ...] = (),
    ) -> Waiting:
        x, y = self._place(number)
        return Waiting(x=x, y=y, what=what, where=where, since=since, color=color, on=on)

    def _place(self, number: int) -> tuple[int, int]:
        return number % self._program.grid.width, number // self._program.grid.width

    def _class_of(self, number: int) -> LoweredClass | None:
        x, y = self._place(number)
        index = self._program.grid.code_class(x, y)
        return self._loaded.classes[index] if index < len(self._loaded.classes) else None

    def _read(self, number: int, what: int, index: int) -> int:
        return self._kernel.inspect(self._loaded.handle, number, what, index)
