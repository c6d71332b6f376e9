"""Random small programs for the fabric: streams over random routes, and who takes them.

Every stream has a color of its own, a sender, and a tree of PEs that it passes; where it ends, and
at some places before, somebody takes it: an operation, a data task, an `@map`, or nobody. Routes
may have switches and filters, control wavelets may turn them, and a router on the way may swap the
color for its partner. Operands are DSDs or come from DSRs; queues may be flushed (WSE-3); the host
sends to PEs and collects from them. PEs take some time for other work before, between and behind.
Nothing makes sure that a program comes to an end: most do, some stall, some are at fault, and both
machines have to agree on which.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import numpy as np
from hypothesis import strategies as st

from appliance.csl.program import (
    Activate,
    Address,
    Binary,
    Call,
    CodeClass,
    ColorConfiguration,
    Completion,
    DescriptorConstant,
    DsdOperation,
    Dsr,
    DsrKind,
    FabricInDescriptor,
    FabricOutDescriptor,
    Fifo,
    FifoReference,
    Handler,
    Instruction,
    Intrinsic,
    Load,
    LoadDsr,
    Map,
    MapInput,
    MemoryDescriptor,
    OnControl,
    OperationSettings,
    Place,
    Program,
    Register,
    SetBlocked,
    Store,
    Target,
    TargetKind,
    TaskKind,
)
from tests.support.fabric_pair import Drain, Feed
from tests.support.fabric_programs import (
    AT,
    F32,
    I16,
    U16,
    U32,
    ClassBuilder,
    adder,
    local_task,
    number,
    program,
    scalar_loop,
    straight,
)
from tests.support.fabric_streams import RAMP, Grid, PePlan, Stream

_VECTOR = 24
"""Elements of the array that PEs send from and receive into."""
_SINKS = ("operation", "sum", "task", "map", "sink", "forward", "fifo", "nobody")
_COMMANDS = (0, 1, 1, 2, 3)


@dataclass
class Drawing(Grid):
    """A program while it is drawn."""

    # --- programs

    def plan(self) -> PePlan:
        """Return a PE without work."""
        builder = ClassBuilder()
        values = np.arange(1, _VECTOR + 1, dtype=np.float32) * (len(self.pes) + 1)
        vector = builder.array("v", F32, _VECTOR, values.tobytes())
        log = builder.array("log", U16, 4 * 24)
        work = builder.function(scalar_loop(vector + 4 * (_VECTOR - 1)))
        return PePlan(builder, work, vector, log)

    def busy(self, pe: PePlan) -> list[Instruction]:
        """Draw some scalar work, or none."""
        if self.often():
            return []
        return [Call(None, pe.work, (number(U16, self.integer(1, 12)),), AT)]

    def stamp(self, pe: PePlan) -> list[Instruction]:
        """Write the clock down, and count how often that happened."""
        at = pe.log + 8 * pe.next_slot
        pe.next_slot += 1
        count = Address(at + 6, "log")
        return [
            Intrinsic(None, "timestamp_read", (Address(at, "log"),), AT),
            Load(Register(0), count, 0, AT),
            Binary(Register(0), "add", U16, Register(0), number(U16, 1), AT),
            Store(count, 0, Register(0), U16, AT),
        ]

    def task(self, pe: PePlan, body: list[Instruction]) -> Target:
        """Bind a new local task."""
        function = pe.builder.function(straight("done", (U16,), tuple(body)))
        pe.builder.task(TaskKind.LOCAL, pe.next_task, function)
        pe.next_task += 1
        return local_task(pe.next_task - 1)

    def settings(self, pe: PePlan, behind: list[Instruction]) -> OperationSettings:
        """Draw how an operation runs; what comes behind it runs when it is done."""
        if self.often(4):
            return OperationSettings(index=pe.index)
        target = self.task(pe, [*self.busy(pe), *behind, *self.stamp(pe)])
        priorities = ("default", "default", "high", "low", "medium")
        control = None
        if self.often(4):
            action = Completion.ACTIVATE if self.often() else None
            control = OnControl(self.often(), action, target if action else None)
        return OperationSettings(
            asynchronous=True,
            completion=Completion.ACTIVATE,
            target=target,
            on_control=control,
            index=pe.index,
            microthread=self._microthread(),
            priority=priorities[self.integer(0, 4)],
        )

    def _microthread(self) -> int | None:
        """Say which microthread runs an operation, at times, where programs may choose."""
        chooses = self.architecture == "wse3" and self.often(4)
        return self.integer(0, 7) if chooses else None

    def memory(self, pe: PePlan, count: int, *, width: int = 4) -> DescriptorConstant:
        """Return a DSD over the first elements of the PE's array."""
        extent = min(count, _VECTOR)
        return DescriptorConstant(MemoryDescriptor(pe.vector, width, 0, (extent,), (1,)))

    def operation(
        self, pe: PePlan, op: str, operands: tuple[object, ...], behind: list[Instruction]
    ) -> list[Instruction]:
        """Return an operation, with what follows it."""
        settings = self.settings(pe, behind)
        loads: list[Instruction] = []
        if self.often(3):
            loads, operands = self._from_dsrs(pe, operands, settings)
        start: Instruction = DsdOperation(None, op, operands, settings, AT)  # type: ignore[arg-type]
        rest = [] if settings.asynchronous else [*behind, *self.stamp(pe)]
        again = [start] if loads and not settings.asynchronous and self.often(3) else []
        return [*loads, start, *again, *rest]

    def _from_dsrs(
        self, pe: PePlan, operands: tuple[object, ...], settings: OperationSettings
    ) -> tuple[list[Instruction], tuple[object, ...]]:
        """Load some operands into DSRs, which say how the operation runs."""
        loads: list[Instruction] = []
        named = list(operands)
        for place, operand in enumerate(operands):
            if not isinstance(operand, DescriptorConstant) or self.often(4):
                continue
            dsr = Dsr((DsrKind.DEST, DsrKind.SRC0, DsrKind.SRC1)[place], pe.next_dsr)
            pe.next_dsr = (pe.next_dsr + 1) % 16
            saves = self.often(3)
            loads.append(LoadDsr(dsr, operand, settings, saves, False, None, None, AT))
            named[place] = dsr
        return loads, tuple(named)

    def out(self, pe: PePlan, color: int) -> int | None:
        """Return an output queue for a color, None if the PE has none left."""
        if not pe.outputs:
            return None
        queue = pe.outputs.pop(0)
        pe.builder.queue(queue, color if self.architecture == "wse3" else None, output=True)
        return queue

    def send(self, stream: Stream) -> None:
        """Draw what the sender does."""
        pe = self.pes[stream.sender]
        queue = self.out(pe, stream.color)
        if queue is None:
            return
        color = None if self.architecture == "wse3" else stream.color
        behind: list[Instruction] = []
        if self.often(3):
            behind = self._control(pe, queue, color)
        count = self.integer(1, 20)
        out = FabricOutDescriptor(queue, color, count, advance_switch=self.often(5))
        op = ("fmovs", "mov32", "mov16")[self.integer(0, 2)]
        pe.index = number(U16, self.integer(0, 0x7FFF)) if self.often(4) else None
        source = self.memory(pe, count, width=2 if op == "mov16" else 4)
        begin = self.operation(pe, op, (DescriptorConstant(out), source), behind)
        pe.index = None
        pe.start += [*self.busy(pe), *begin, *self.flush(pe, queue, output=True)]

    def _control(self, pe: PePlan, queue: int, color: int | None) -> list[Instruction]:
        payload = self.one_of((31, 31, 40)) << 16
        payload |= self.one_of(_COMMANDS) << 22 | int(self.often(3)) << 24
        payload |= self.one_of(_COMMANDS) << 25
        out = FabricOutDescriptor(queue, color, self.integer(1, 2), control=True)
        operands = (DescriptorConstant(out), number(U32, payload))
        return [DsdOperation(None, "mov32", operands, OperationSettings(), AT)]

    def drain(self, color: int) -> Drain:
        """Have the host collect words from a PE that sends about as many."""
        number_ = self.integer(0, self.width * self.height - 1)
        pe = self.pes[number_]
        queue = self.out(pe, color)
        count = self.integer(1, 20)
        if queue is not None:
            named = None if self.architecture == "wse3" else color
            out = DescriptorConstant(FabricOutDescriptor(queue, named, count))
            begin = self.operation(pe, "mov32", (out, self.memory(pe, count)), [])
            pe.start += [*self.busy(pe), *begin]
        return Drain(number_, color, max(1, count + self.integer(-3, 1)))

    def flush(self, pe: PePlan, queue: int, *, output: bool) -> list[Instruction]:
        """Have a queue flushed, at times: its handler may bind it to a color, and leaves."""
        if self.architecture == "wse2" or not self.often(3):
            return []
        kind = number(U16, int(output))
        exit_ = Intrinsic(None, "queue_flush_exit", (kind, number(U16, queue)), AT)
        body: list[Instruction] = [*self.busy(pe), *self.stamp(pe), exit_]
        if output and self.often():
            new = number(U16, self.integer(0, 15))
            body.append(Intrinsic(None, "queue_bind_output", (number(U16, queue), new), AT))
        handler = pe.builder.function(straight("flushed", (U16,), tuple(body)))
        name = "empty_output_queue" if output else "empty_input_queue"
        pe.handlers.append(Handler(name, queue, handler, AT))
        flush = Intrinsic(None, "queue_flush", (kind, number(U16, queue)), AT)
        return [*self.busy(pe), flush]

    def turn(self, stream: Stream) -> None:
        """Have a PE on the way change the stream's route or switch by its registers, at times."""
        if not self.often(3) or self.architecture == "wse3":
            return
        at_pe = [*stream.nodes][self.integer(0, len(stream.nodes) - 1)]
        pe = self.pes[at_pe]
        first = self.one_of((0x7F20, 0x7F40, 0x7F40))
        at = Address(2 * (first + stream.color_in(at_pe)), "register")
        flipped = self.one_of((0x1000, 0x2000, 0x4, 0x1008, 0x10, 0x400, 0x800))
        pe.start += [
            *self.busy(pe),
            Load(Register(0), at, 0, AT),
            Binary(Register(0), "xor", U16, Register(0), number(U16, flipped), AT),
            Store(at, 0, Register(0), U16, AT),
        ]

    def receive(self, pe_number: int, stream: Stream, free: list[int]) -> None:
        """Draw who takes a stream at a PE."""
        pe = self.pes[pe_number]
        if not pe.inputs:
            return
        queue = pe.inputs.pop(0)
        pe.builder.queue(queue, stream.color_in(pe_number))
        kind = _SINKS[self.integer(0, len(_SINKS) - 1)]
        if kind == "task":
            self._take_by_task(pe, stream.color_in(pe_number), queue)
        elif kind != "nobody":
            pe.start += [*self.busy(pe), *self._take(pe, queue, kind, free)]
        pe.start += self.flush(pe, queue, output=False)

    def _take(self, pe: PePlan, queue: int, kind: str, free: list[int]) -> list[Instruction]:
        count = self.integer(1, 20)
        given = DescriptorConstant(FabricInDescriptor(queue, None, count))
        if kind == "map":
            return [*self._map(pe, given, count), *self.stamp(pe)]
        if kind == "sink":
            place = Place(Address(pe.log, "log"))
            return self.operation(pe, "fmovs", (place, given), [])
        if kind == "fifo":
            return self._through_fifo(pe, given, count)
        if kind == "forward" and free:
            return self._forward(pe, given, count, free)
        if kind == "sum":
            memory = self.memory(pe, count)
            return self.operation(pe, "fadds", (memory, memory, given), [])
        width, op = (2, "mov16") if self.often() else (4, "mov32")
        return self.operation(pe, op, (self.memory(pe, count, width=width), given), [])

    def _through_fifo(self, pe: PePlan, given: DescriptorConstant, count: int) -> list[Instruction]:
        """Push what comes into a FIFO; another operation pops it."""
        size = self.integer(1, 6)
        address = pe.builder.array(f"fifo{len(pe.fifos)}", U32, size)
        woken = self.task(pe, self.stamp(pe)) if self.often() else None
        pop, push = (woken, None) if self.often() else (None, woken)
        fifo = FifoReference(len(pe.fifos))
        action = "terminate" if self.often(6) else "test_or_suspend"
        pe.fifos.append(
            Fifo("fifo", address, size, 4, pop, push, action, "test_or_suspend", "default", AT)
        )
        filling = self.operation(pe, "mov32", (fifo, given), [])
        return [*filling, *self.operation(pe, "mov32", (self.memory(pe, count), fifo), [])]

    def feed(self, color: int) -> Feed:
        """Have the host send words to a PE, and somebody take them."""
        pe = self.integer(0, self.width * self.height - 1)
        words = tuple(self.integer(0, 0xFFFF) for _ in range(self.integer(1, 20)))
        self.receive(pe, Stream(color, pe, {}), [])
        return Feed(pe, color, words, self.integer(0, 5))

    def _forward(
        self, pe: PePlan, given: DescriptorConstant, count: int, free: list[int]
    ) -> list[Instruction]:
        """Pass a stream on, on a color that comes back to this PE and runs a data task."""
        color = free.pop()
        queue = self.out(pe, color)
        if queue is None or not pe.inputs:
            return []
        pe.routes.append(ColorConfiguration(color, RAMP, RAMP))
        sent = None if self.architecture == "wse3" else color
        taker = pe.inputs.pop(0)
        pe.builder.queue(taker, color)
        self._take_by_task(pe, color, taker)
        out = DescriptorConstant(FabricOutDescriptor(queue, sent, count))
        return self.operation(pe, "mov32", (out, given), [])

    def _map(self, pe: PePlan, given: DescriptorConstant, count: int) -> list[Instruction]:
        function = pe.builder.function(adder())
        output = self.memory(pe, count, width=2)
        inputs = (MapInput(given, I16, True), MapInput(number(I16, 3), I16, False))
        return [Map(function, inputs, output, I16, False, OperationSettings(), AT)]

    def _take_by_task(self, pe: PePlan, color: int, queue: int) -> None:
        identifier = queue if self.architecture == "wse3" else color
        at = Address(pe.log + 8 * pe.next_slot + 4, "log")
        body: list[Instruction] = [
            Load(Register(1), at, 0, AT),
            Binary(Register(1), "add", U16, Register(1), Register(0), AT),
            Store(at, 0, Register(1), U16, AT),
            Intrinsic(None, "timestamp_read", (Address(pe.log + 8 * pe.next_slot, "log"),), AT),
            Store(at, 2, Register(1), U16, AT),
            *self.busy(pe),
        ]
        pe.next_slot += 1
        function = pe.builder.function(straight("data", (U16, U16), tuple(body), parameters=1))
        pe.builder.task(TaskKind.DATA, identifier, function)
        if not self.often(3):
            return
        target = Target(TargetKind.DATA_TASK, number(U16, identifier))
        free = self.task(pe, [*self.busy(pe), SetBlocked(target, False, AT), *self.stamp(pe)])
        pe.start.insert(0, SetBlocked(target, True, AT))
        delay = DsdOperation(
            None,
            "fmovs",
            (self.memory(pe, 8), self.memory(pe, 8)),
            OperationSettings(),
            AT,
        )
        pe.start += [delay, *_activate(free)]

    def finish(self, pe: PePlan) -> CodeClass:
        """Return the PE's class; function `f` starts everything."""
        enable = Intrinsic(None, "timestamp_enable", (), AT)
        control = pe.builder.function(
            straight("control", (U16, U16), tuple(self.stamp(pe)[0:1]), parameters=1)
        )
        pe.builder.task(TaskKind.CONTROL, 40, control)
        body = (enable, *pe.start, *self.stamp(pe))
        pe.builder.function(straight("f", (U16,), body), exported=True)
        pe.builder.extra["fifos"] = tuple(pe.fifos)
        pe.builder.extra["handlers"] = tuple(pe.handlers)
        return pe.builder.build()


def _activate(target: Target) -> list[Instruction]:
    return [Activate(target, AT)]


@dataclass(frozen=True)
class Drawn:
    """A program and how the host starts it."""

    program: Program
    functions: dict[int, int]
    """What every PE calls first, by PE."""
    feeds: tuple[Feed, ...]
    drains: tuple[Drain, ...]


@st.composite
def programs(draw: st.DrawFn, largest: int = 4) -> Drawn:
    """Draw a program for a grid of up to so many columns and rows; it shrinks."""
    return _drawn(lambda low, high: draw(st.integers(low, high)), largest, 4)


def program_of(seed: int, *, largest: int = 4, streams: int = 8) -> Drawn:
    """Return the program of a seed: mostly larger than what is drawn."""
    return _drawn(Random(seed).randint, largest, streams)


def _drawn(choose: Callable[[int, int], int], largest: int, most: int) -> Drawn:
    width, height = choose(1, largest), choose(1, largest)
    architecture = ("wse2", "wse3")[choose(0, 1)]
    drawing = Drawing(choose, width, height, architecture)
    for _ in range(width * height):
        drawing.pes.append(drawing.plan())
    streams = [drawing.stream(2 * number_) for number_ in range(choose(1, most))]
    free = [23, 22, 21, 20, 19, 18]
    for stream in streams:
        drawing.configure(stream)
        drawing.send(stream)
        drawing.turn(stream)
        for pe, node in stream.nodes.items():
            if node.tx & RAMP:
                drawing.receive(pe, stream, free)
    feeds = tuple({f.pe: f for f in map(drawing.feed, range(16, 16 + choose(0, 2)))}.values())
    drains = (drawing.drain(1),) if choose(0, 1) else ()
    classes = tuple(drawing.finish(pe) for pe in drawing.pes)
    routes = tuple(tuple(sorted(pe.routes, key=lambda r: r.color)) for pe in drawing.pes)
    drawn = program(
        classes,
        width=width,
        height=height,
        code=tuple(range(width * height)),
        routes=routes,
        architecture=architecture,
    )
    functions = {n: len(c.functions) - 1 for n, c in enumerate(classes)}
    return Drawn(drawn, functions, feeds, drains)
