"""Random small programs for the fabric: streams over random routes, and who takes them.

Every stream has a color of its own, a sender, and a tree of PEs that it passes; where it ends, and
at some places before, somebody takes it: an operation, a data task, an `@map`, or nobody. Routes
may have switches and filters, and control wavelets may turn them. PEs take some time for
other work before, between and behind. Nothing makes sure that a program comes to an end: most do,
some stall, some are at fault, and both machines have to agree on which.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
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
    Constant,
    DescriptorConstant,
    DsdOperation,
    FabricInDescriptor,
    FabricOutDescriptor,
    Fifo,
    FifoReference,
    Filter,
    Instruction,
    Intrinsic,
    Load,
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
    SwitchPosition,
    Target,
    TargetKind,
    TaskKind,
)
from tests.support.fabric_pair import Feed
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

WEST, EAST, SOUTH, NORTH, RAMP = 1, 2, 4, 8, 16
_STEPS = {WEST: (-1, 0), EAST: (1, 0), SOUTH: (0, 1), NORTH: (0, -1)}
_OPPOSITE = {WEST: EAST, EAST: WEST, SOUTH: NORTH, NORTH: SOUTH}
_VECTOR = 24
"""Elements of the array that PEs send from and receive into."""
_SINKS = ("operation", "sum", "task", "map", "sink", "forward", "fifo", "nobody")
_COMMANDS = (0, 1, 1, 2, 3)


@dataclass
class Node:
    """A PE of a stream's tree: where the stream comes in and goes out."""

    rx: int
    tx: int


@dataclass
class Stream:
    """One color: who sends, where it passes, what is sent."""

    color: int
    sender: int
    nodes: dict[int, Node]


@dataclass
class PePlan:
    """One PE while its program is drawn."""

    builder: ClassBuilder
    work: int
    vector: int
    log: int
    start: list[Instruction] = field(default_factory=list)
    routes: list[ColorConfiguration] = field(default_factory=list)
    next_task: int = 8
    most_tasks: int = 28
    next_slot: int = 0
    inputs: list[int] = field(default_factory=lambda: [2, 4, 5, 6, 7])
    outputs: list[int] = field(default_factory=lambda: [3, 1, 0])
    fifos: list[Fifo] = field(default_factory=list)
    index: Constant | None = None


@dataclass
class Drawing:
    """A program while it is drawn."""

    choose: Callable[[int, int], int]
    width: int
    height: int
    architecture: str
    pes: list[PePlan] = field(default_factory=list)

    # --- numbers

    def integer(self, low: int, high: int) -> int:
        """Draw a number."""
        return self.choose(low, high)

    def often(self, parts: int = 2) -> bool:
        """Draw true, once in so many."""
        return self.integer(0, parts - 1) == 0

    def one_of(self, choices: tuple[int, ...]) -> int:
        """Draw one of some numbers."""
        return choices[self.integer(0, len(choices) - 1)]

    # --- routes

    def neighbour(self, pe: int, port: int) -> int | None:
        """Return the PE behind a port."""
        x, y = pe % self.width + _STEPS[port][0], pe // self.width + _STEPS[port][1]
        inside = 0 <= x < self.width and 0 <= y < self.height
        return y * self.width + x if inside else None

    def stream(self, color: int) -> Stream:
        """Draw a tree of PEs."""
        sender = self.integer(0, self.width * self.height - 1)
        nodes = {sender: Node(RAMP, 0)}
        for _ in range(self.integer(1, 3)):
            self._grow(nodes, [*nodes][self.integer(0, len(nodes) - 1)])
        for node in nodes.values():
            if not node.tx or self.often(4):
                node.tx |= RAMP
        return Stream(color, sender, nodes)

    def _grow(self, nodes: dict[int, Node], at: int) -> None:
        for _ in range(self.integer(1, 4)):
            port = self.one_of((WEST, EAST, SOUTH, NORTH))
            other = self.neighbour(at, port)
            if other is None or other in nodes:
                return
            nodes[at].tx |= port
            nodes[other] = Node(_OPPOSITE[port], 0)
            at = other

    def configure(self, stream: Stream) -> None:
        """Draw the stream's routes, with a switch or a filter here and there."""
        for pe, node in stream.nodes.items():
            entry = ColorConfiguration(stream.color, node.rx, node.tx)
            if self.often(3):
                entry = self._with_switch(entry, node)
            if node.tx & RAMP and self.often(6):
                entry = replace(entry, filter=self._filter())
            self.pes[pe].routes.append(entry)

    def _with_switch(self, entry: ColorConfiguration, node: Node) -> ColorConfiguration:
        positions = tuple(
            SwitchPosition(
                rx=self.one_of((0, 0, node.rx)),
                tx=self.one_of((0, node.tx, RAMP, node.tx | RAMP)),
                valid=not self.often(5),
            )
            for _ in range(self.integer(1, 3))
        )
        modes = ("no_pop", "always_pop", "pop_on_advance", "pop_on_advance_nop")
        return replace(
            entry,
            positions=positions,
            ring_mode=self.often(),
            pop_mode=modes[self.integer(0, 3)],
            current_position=self.integer(0, 1),
        )

    def _filter(self) -> Filter:
        kind = ("counter", "sparse_counter", "range")[self.integer(0, 2)]
        return Filter(
            kind=kind,
            init_counter=self.integer(0, 3),
            max_counter=self.integer(0, 3),
            limit1=self.integer(1, 5),
            limit2=self.integer(1, 5) if kind == "sparse_counter" and self.often() else None,
            count_data=not self.often(4),
            count_control=self.often(),
            filter_control=self.often(4),
            min_index=0,
            max_index=self.integer(0, 0x5000),
        )

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
        start: Instruction = DsdOperation(None, op, operands, settings, AT)  # type: ignore[arg-type]
        return [start] if settings.asynchronous else [start, *behind, *self.stamp(pe)]

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
        pe.start += [*self.busy(pe), *begin]

    def _control(self, pe: PePlan, queue: int, color: int | None) -> list[Instruction]:
        payload = self.one_of((31, 31, 40)) << 16
        payload |= self.one_of(_COMMANDS) << 22 | int(self.often(3)) << 24
        payload |= self.one_of(_COMMANDS) << 25
        out = FabricOutDescriptor(queue, color, self.integer(1, 2), control=True)
        operands = (DescriptorConstant(out), number(U32, payload))
        return [DsdOperation(None, "mov32", operands, OperationSettings(), AT)]

    def turn(self, stream: Stream) -> None:
        """Have a PE on the way change the stream's route or switch by its registers, at times."""
        if not self.often(3) or self.architecture == "wse3":
            return
        pe = self.pes[[*stream.nodes][self.integer(0, len(stream.nodes) - 1)]]
        first = self.one_of((0x7F20, 0x7F40, 0x7F40))
        at = Address(2 * (first + stream.color), "register")
        flipped = self.one_of((0x1000, 0x2000, 0x4, 0x1008, 0x10))
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
        pe.builder.queue(queue, stream.color)
        kind = _SINKS[self.integer(0, len(_SINKS) - 1)]
        if kind == "task":
            self._take_by_task(pe, stream, queue)
        elif kind != "nobody":
            pe.start += [*self.busy(pe), *self._take(pe, queue, kind, free)]

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
        self._take_by_task(pe, Stream(color, 0, {}), taker)
        out = DescriptorConstant(FabricOutDescriptor(queue, sent, count))
        return self.operation(pe, "mov32", (out, given), [])

    def _map(self, pe: PePlan, given: DescriptorConstant, count: int) -> list[Instruction]:
        function = pe.builder.function(adder())
        output = self.memory(pe, count, width=2)
        inputs = (MapInput(given, I16, True), MapInput(number(I16, 3), I16, False))
        return [Map(function, inputs, output, I16, False, OperationSettings(), AT)]

    def _take_by_task(self, pe: PePlan, stream: Stream, queue: int) -> None:
        identifier = queue if self.architecture == "wse3" else stream.color
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
    streams = [drawing.stream(color) for color in range(choose(1, most))]
    free = [23, 22, 21, 20, 19, 18]
    for stream in streams:
        drawing.configure(stream)
        drawing.send(stream)
        drawing.turn(stream)
        for pe, node in stream.nodes.items():
            if node.tx & RAMP:
                drawing.receive(pe, stream, free)
    feeds = tuple({f.pe: f for f in map(drawing.feed, range(14, 14 + choose(0, 2)))}.values())
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
    return Drawn(drawn, functions, feeds)
