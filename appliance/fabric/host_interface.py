"""The host's side of a program at work; clock cycles are executed in `native/cycle.h`.

The host submits commands, which are executed one after another in the order of issue, as memcpy's
command stream does on the machine: none starts before every PE has called `unblock_cmd_stream`
since the last launch. Time passes only while the host waits or asks: everything runs in the thread
that calls. Clock cycles are simulated.
"""

import ctypes
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from appliance.csl.program import NO_CODE, MachineType, Program, Scalar
from appliance.fabric.bytecode import MAX_ARGUMENTS
from appliance.fabric.commands import (
    Command,
    CopyIn,
    CopyOut,
    Launch,
    PortIn,
    PortOut,
    StreamIn,
    StreamOut,
    check_region,
)
from appliance.fabric.debugging.parts import Parts, Runner, StopReason
from appliance.fabric.errors import FabricError, StallError, StallReport, UnknownSymbolError
from appliance.fabric.host_ports import HostPorts
from appliance.fabric.loading import load_program
from appliance.fabric.memories import Memories
from appliance.fabric.native.loader import load_kernel
from appliance.fabric.options import Counters, SimulatorOptions
from appliance.fabric.reports import Inspector
from appliance.fabric.symbols import SymbolTable
from appliance.fabric.tracing.recording import make_trace, ring_events
from appliance.fabric.tracing.trace import Trace

_FOREVER = (1 << 64) - 1
_NO_STOP, _UNTIL_UNBLOCKED, _UNTIL_STREAMED = range(3)
_NOW, _STEPS, _MOVES, _TOUCHED, _NUM_UNBLOCKED, _CONSOLE_SIZE, _CONSOLE, _LAST_MOVE = (
    *(0, 6, 7, 8, 9, 11, 12, 13),
)
_TRACE, _NUM_TRACED, _NUM_BANDS = 14, 15, 16


@dataclass
class _Issued:
    ticket: int
    command: Command
    result: NDArray[np.uint32] | None = None
    has_begun: bool = False
    owners: list[object] = field(default_factory=list)


class Simulator:
    """A program on the simulated fabric."""

    def __init__(self, program: Program, *, options: SimulatorOptions | None = None) -> None:
        self._options = options or SimulatorOptions()
        self._program = program
        self._kernel = load_kernel(self._options.machine_code_directory)
        self._loaded = load_program(
            program,
            self._kernel,
            order=int(self._options.reverse_tasks),
            is_checked=self._options.is_checked,
            num_threads=1 if self._options.trace_events else self._options.num_threads,
        )
        self._handle = self._loaded.handle
        self._inspector = Inspector(program, self._loaded, self._kernel)
        self._symbols = SymbolTable(program)
        self._memories = Memories(program, self._kernel, self._handle, self._symbols)
        self._pending: deque[_Issued] = deque()
        self._done: dict[int, NDArray[np.uint32] | None] = {}
        self._next_ticket = 1
        self._ports = HostPorts(self._kernel, self._handle, program.grid.width)
        self._port_tickets: set[int] = set()
        self._ports_move = True
        self._launched = 0
        self._launch_name = ""
        self._look_at = self._options.task_cycles
        self._failure: FabricError | None = None
        self._runner: Runner | None = None
        self._console: list[str] = []
        num_bands = self._kernel.value(self._loaded.handle, _NUM_BANDS)
        self._console_read = [0] * num_bands
        if self._options.trace_events:
            self._begin_trace()
        self._kernel.start(self._handle)

    def __del__(self) -> None:
        """Give the kernel's memory back."""
        handle = self.__dict__.pop("_handle", None)
        if handle is not None:
            self._kernel.free(handle)

    # --- commands

    def submit(self, command: Command) -> int:
        """Append a command to the stream and return its ticket.

        Raises:
            UserError: The command names something that is not there.
        """
        self._check(command)
        ticket = self._next_ticket
        self._next_ticket += 1
        if isinstance(command, PortIn | PortOut):
            self._ports.add(ticket, command)
            self._port_tickets.add(ticket)
        else:
            self._pending.append(_Issued(ticket, command))
        return ticket

    def is_done(self, ticket: int) -> bool:
        """Simulate a slice and say whether a command is done.

        Raises:
            FabricError: The program failed, or nothing can move any more.
        """
        if ticket not in self._done and not self._is_known(ticket):
            raise UnknownSymbolError(f"No command has the ticket {ticket}.")
        if ticket in self._port_tickets and ticket not in self._done:
            self._serve_ports()
        elif ticket not in self._done:
            self._advance()
        return ticket in self._done

    def has_ended(self, ticket: int) -> bool:
        """Say whether a command is done so far; no time passes."""
        return ticket in self._done

    def wait(self, ticket: int) -> NDArray[np.uint32] | None:
        """Simulate until a command is done; return what it copied out, once.

        Raises:
            FabricError: The program failed, or nothing can move any more.
        """
        while not self.is_done(ticket):
            if ticket in self._port_tickets and not self._ports_move:
                self._stall(self._ports.waiting())
        result = self._done[ticket]
        self._done[ticket] = None
        return result

    def drain(self) -> None:
        """Finish all commands, then let what still runs come to rest, for a limited time."""
        while self._pending:
            self._advance()
        while self._ports:
            self._serve_ports()
            if not self._ports_move:
                self._stall(self._ports.waiting())
        limit = self.cycle() + self._options.drain_cycles
        while self.cycle() < limit:
            if self._run(limit, _NO_STOP, 0) == StopReason.QUIET or self.cycle() + 1 >= limit:
                return

    # --- inspection

    def parts(self) -> Parts:
        """Return what this is made of."""
        return Parts(
            program=self._program,
            loaded=self._loaded,
            kernel=self._kernel,
            inspector=self._inspector,
            memories=self._memories,
        )

    def debug(self, runner: Runner) -> None:
        """Have somebody else run the kernel from now on."""
        self._runner = runner

    def cycle(self) -> int:
        """Return the current clock cycle."""
        return self._kernel.value(self._handle, _NOW)

    def counters(self) -> Counters:
        """Return what has been simulated so far."""
        values = [self._kernel.value(self._handle, which) for which in (_NOW, _STEPS, _MOVES)]
        touched = self._kernel.value(self._handle, _TOUCHED)
        return Counters(cycles=values[0], pe_cycles=values[1], wavelets=values[2], pes=touched)

    def read_symbol(self, x: int, y: int, name: str) -> bytes:
        """Return the memory of a variable of one PE."""
        return self._memories.read_symbol(x, y, name)

    def read_memory(self, x: int, y: int, address: int, num_bytes: int) -> bytes:
        """Return bytes of a PE's memory."""
        return self._memories.read(x, y, address, num_bytes)

    def write_memory(self, x: int, y: int, address: int, data: bytes) -> None:
        """Write bytes to a PE's memory."""
        self._memories.write(x, y, address, data)

    def pe_memories(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield column, row and whole memory of every PE that has a program."""
        for y, x in np.ndindex(self._program.grid.height, self._program.grid.width):
            if (code := self._program.grid.code_class(x, y)) != NO_CODE:
                yield x, y, self._memory_of(y * self._program.grid.width + x, code)

    def write_symbol(self, x: int, y: int, name: str, data: bytes) -> None:
        """Replace the memory of a variable of one PE."""
        self._memories.write_symbol(x, y, name, data)

    def console(self) -> list[str]:
        """Return the lines that the program has printed so far; later calls only add to them."""
        found: list[tuple[int, int, str]] = []
        for band, read in enumerate(self._console_read):
            size = self._kernel.value(self._handle, _CONSOLE_SIZE | band << 16)
            start = self._kernel.value(self._handle, _CONSOLE | band << 16) + read
            found += _printed(ctypes.string_at(start, size - read)) if size > read else []
            self._console_read[band] = size
        found.sort(key=lambda record: record[:2])
        self._console += [text for _, _, text in found]
        return self._console

    def doubts(self) -> list[str]:
        """Return what a checked program did that is likely not what was meant, as sentences.

        It is the first operation that went beyond its array, and the first whose operands differ
        in length.
        """
        return self._inspector.doubts()

    def stall_report(self, reason: str = "") -> StallReport:
        """Return a report of everything that waits now, and where."""
        waiting = tuple(self._inspector.waiting()) or tuple(self._inspector.idle())
        moved = self._kernel.value(self._handle, _LAST_MOVE)
        return StallReport(
            reason=reason + self._inspector.left(),
            cycle=max([moved, *(entry.since for entry in waiting)]),
            waiting=waiting,
        )

    def trace(self, *, sources: Mapping[str, Sequence[str]]) -> Trace | None:
        """Return the trace so far; None if tracing is off.

        Args:
            sources: Lines of source files by name, as far as they are known.
        """
        capacity = self._options.trace_events
        if not capacity:
            return None
        count = self._kernel.value(self._handle, _NUM_TRACED)
        address = self._kernel.value(self._handle, _TRACE)
        return make_trace(
            self._program,
            self._loaded,
            ring_events(address, count, capacity),
            num_lost=max(0, count - capacity),
            end="" if self._failure is None else str(self._failure),
            waiting=() if self._failure is None else tuple(self._inspector.waiting()),
            memory=self._memory_of,
            sources=sources,
        )

    def _memory_of(self, number: int, code: int) -> bytes:
        """Return the memory of a PE, also of one that nothing has touched yet."""
        image = self._loaded.classes[code].tables["memory"]
        if self._kernel.inspect(self._handle, number, 0, 0) == _FOREVER:
            return image.tobytes()
        address = self._kernel.memory(self._handle, number)
        assert address is not None
        return ctypes.string_at(address, image.nbytes)

    # --- the command stream

    def _advance(self) -> None:
        """Simulate one slice on behalf of the oldest command."""
        if self._failure is not None:
            raise self._failure
        if not self._pending:
            return
        try:
            self._serve(self._pending[0])
        except FabricError as error:
            self._failure = error
            raise

    def _serve_ports(self) -> None:
        """Simulate one slice on behalf of the ports."""
        if self._failure is not None:
            raise self._failure
        try:
            self._ports_move = self._ports.serve(
                lambda: self._run(_FOREVER, _UNTIL_STREAMED, 0) != StopReason.QUIET, self._done
            )
        except FabricError as error:
            self._failure = error
            raise

    def _serve(self, issued: _Issued) -> None:
        if not issued.has_begun and not self._may_begin():
            return
        match issued.command:
            case Launch():
                if not self._has_returned(issued):
                    return
            case CopyIn() | CopyOut():
                if not self._has_settled(issued):
                    return
                self._copy(issued)
            case StreamIn() | StreamOut():
                if not self._stream(issued):
                    return
            case PortIn() | PortOut():
                raise AssertionError("ports have a queue of their own")
        self._pending.popleft()
        self._done[issued.ticket] = issued.result

    def _may_begin(self) -> bool:
        """Simulate until every PE has let the next command start."""
        if self._kernel.value(self._handle, _NUM_UNBLOCKED) >= self._launched:
            return True
        reason = self._run(_FOREVER, _UNTIL_UNBLOCKED, self._launched)
        if reason == StopReason.QUIET:
            count = self._kernel.value(self._handle, _NUM_UNBLOCKED)
            self._stall(
                f"the next command waits until {self._launched:,} PEs have called "
                f"unblock_cmd_stream since {self._launch_name!r} was launched; {count:,} have."
                + self._inspector.unready(self._launch_name)
            )
        return reason == StopReason.UNBLOCKED

    def _has_settled(self, issued: _Issued) -> bool:
        """Simulate until nothing moves; commands may take longer than wavelets."""
        if not issued.has_begun:
            issued.has_begun = True
            issued.owners.append(self.cycle() + self._options.settle_cycles)
        limit = issued.owners[0]
        assert isinstance(limit, int)
        return self._run(limit, _NO_STOP, 0) == StopReason.QUIET or self.cycle() + 1 >= limit

    def _has_returned(self, issued: _Issued) -> bool:
        """Simulate until every PE has done what was launched, as far as it says so, or is at rest.

        A function that loops without end never returns, to whoever waits for it.
        """
        if not issued.has_begun:
            issued.has_begun = True
            assert isinstance(issued.command, Launch)
            self._launch(issued.command)
        if self._kernel.value(self._handle, _NUM_UNBLOCKED) >= self._launched:
            return True
        return self._run(_FOREVER, _UNTIL_UNBLOCKED, self._launched) in (
            StopReason.UNBLOCKED,
            StopReason.QUIET,
        )

    def _launch(self, command: Launch) -> None:
        symbol = self._symbols.rpc(command.function, "Func")
        grid = self._program.grid
        self._kernel.reset_streams(self._handle)
        self._launched, self._launch_name = 0, symbol.name
        functions: dict[int, int | None] = {}
        for number, code in enumerate(np.frombuffer(grid.code, dtype="<u4").tolist()):
            if code == NO_CODE:
                continue
            if code not in functions:
                functions[code] = self._symbols.export(code, symbol.name).function
            function = functions[code]
            if function is None:
                raise UnknownSymbolError(f"{symbol.name!r} is exported as data, not a function.")
            words = np.array(self._arguments(code, function, command), dtype=np.uint64)
            address = ctypes.c_void_p(words.ctypes.data)
            # The command reaches a PE a cycle after its western neighbour, as a wavelet would.
            delay = number % grid.width
            self._kernel.call(self._handle, number, function, address, len(words), delay)
            self._launched += 1

    def _arguments(self, code: int, function: int, command: Launch) -> list[int]:
        """Return what a function's parameters hold: words of the host, extended by their types."""
        callee = self._program.classes[code].functions[function]
        kinds = callee.registers[: callee.num_parameters]
        words = command.arguments
        if len(words) != len(kinds) or len(words) > MAX_ARGUMENTS:
            raise UnknownSymbolError(
                f"{callee.name!r} takes {len(kinds)} argument(s), of which the host can pass "
                f"{MAX_ARGUMENTS}; {len(words)} given."
            )
        return [_as_register(word, kind) for word, kind in zip(words, kinds, strict=True)]

    def _copy(self, issued: _Issued) -> None:
        command = issued.command
        assert isinstance(command, CopyIn | CopyOut)
        issued.result = self._memories.copy(command)
        copied = command.data if isinstance(command, CopyIn) else issued.result
        assert copied is not None
        region, channels = command.region, max(1, self._program.channels)
        cycles = copied.size // channels + region.x + region.width + region.height
        self._kernel.let_pass(self._handle, cycles)

    def _stream(self, issued: _Issued) -> bool:
        command = issued.command
        assert isinstance(command, StreamIn | StreamOut)
        if not issued.has_begun:
            issued.has_begun = True
            self._open_stream(issued, command)
        reason = self._run(_FOREVER, _UNTIL_STREAMED, 0)
        if reason == StopReason.QUIET:
            way = "accept" if isinstance(command, StreamIn) else "send"
            self._stall(f"the host waits for PEs to {way} wavelets of color {command.color}.")
        return reason == StopReason.STREAMED

    def _open_stream(self, issued: _Issued, command: StreamIn | StreamOut) -> None:
        region, is_in = command.region, isinstance(command, StreamIn)
        if isinstance(command, StreamIn):
            shape = (region.height, region.width, command.data.shape[2])
            data = np.ascontiguousarray(np.broadcast_to(command.data, shape), dtype=np.uint32)
        else:
            shape = (region.height, region.width, command.num_elements)
            data = issued.result = np.zeros(shape, np.uint32)
        issued.owners.append(data)
        for order, (y, x) in enumerate(np.ndindex(region.height, region.width)):
            number = (region.y + y) * self._program.grid.width + region.x + x
            address = ctypes.c_void_p(data[y, x].ctypes.data)
            total, first = shape[2], order * shape[2]
            self._kernel.stream(
                self._handle, number, command.color, int(is_in), address, total, first
            )

    def _run(self, limit: int, stop: int, target: int) -> int:
        work = self._options.slice_work
        if self._runner is not None:
            reason = self._runner.run(limit, stop, target, work)
        else:
            reason = self._kernel.run(self._handle, limit, stop, target, work)
        if reason == StopReason.FAULT:
            raise self._inspector.fault()
        if self.cycle() >= self._look_at:
            self._find_endless()
        return reason

    def _find_endless(self) -> None:
        """Fail if a task computes for longer than any should; look again when the next one may."""
        limit = self._options.task_cycles
        self._look_at = self.cycle() + limit // 4
        failure = self._inspector.endless(self.cycle(), limit)
        if failure is not None:
            raise failure

    def _begin_trace(self) -> None:
        if not self._kernel.trace(self._handle, self._options.trace_events):
            raise FabricError(
                f"There is no memory for a trace of {self._options.trace_events:,} events.",
                hint="Ask for fewer; each takes 24 bytes.",
            )

    def _stall(self, reason: str) -> None:
        report = self.stall_report(reason)
        if self._runner is not None:
            self._runner.fail(str(report))
        raise StallError(report)

    # --- places

    def _check(self, command: Command) -> None:
        grid = self._program.grid
        if isinstance(command, PortIn | PortOut):
            self._memories.class_at(command.x, command.y)
            return
        if isinstance(command, Launch):
            self._symbols.rpc(command.function, "Func")
            return
        check_region(command.region, grid.width, grid.height)
        if isinstance(command, CopyIn | CopyOut):
            self._memories.check_width(command)

    def _is_known(self, ticket: int) -> bool:
        known = {issued.ticket for issued in self._pending} | self._port_tickets
        return ticket in known


def _as_register(word: int, kind: MachineType) -> int:
    """Return the 64 bits that a register holds of a word whose low bits have a type."""
    bits = kind.bits if isinstance(kind, Scalar) else 16
    low = word & ((1 << bits) - 1)
    is_negative = isinstance(kind, Scalar) and kind.is_signed and low >> (bits - 1)
    return (low - (1 << bits)) & _FOREVER if is_negative else low


def _printed(records: bytes) -> list[tuple[int, int, str]]:
    """Parse the kernel's console records into cycle, PE and text."""
    found, at = [], 0
    while at < len(records):
        cycle = int.from_bytes(records[at : at + 8], "little")
        number, length = (int.from_bytes(records[at + k : at + k + 4], "little") for k in (8, 12))
        at += 16
        found.append((cycle, number, records[at : at + length].decode("latin-1")))
        at += length
    return found
