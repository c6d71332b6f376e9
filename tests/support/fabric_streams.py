"""Random grids with random routes: the trees that streams pass, switches, filters, swaps."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from appliance.csl.program import (
    ColorConfiguration,
    Constant,
    Fifo,
    Filter,
    Handler,
    Instruction,
    SwitchPosition,
)
from tests.support.fabric_programs import ClassBuilder

WEST, EAST, SOUTH, NORTH, RAMP = 1, 2, 4, 8, 16
_STEPS = {WEST: (-1, 0), EAST: (1, 0), SOUTH: (0, 1), NORTH: (0, -1)}
_OPPOSITE = {WEST: EAST, EAST: WEST, SOUTH: NORTH, NORTH: SOUTH}


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
    swapped: set[int] = field(default_factory=set)
    """PEs in which it has its partner's color, behind a swap."""

    def color_in(self, pe: int) -> int:
        """Return the color that it has in a PE."""
        return self.color ^ 1 if pe in self.swapped else self.color


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
    next_dsr: int = 0
    handlers: list[Handler] = field(default_factory=list)


@dataclass
class Grid:
    """A grid while its routes are drawn."""

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
        """Draw the stream's routes, with a switch, a filter or a swap here and there."""
        swap = self._swap(stream)
        for pe, node in stream.nodes.items():
            entry = ColorConfiguration(stream.color_in(pe), node.rx, node.tx)
            if pe == swap:
                in_x = node.rx in (WEST, EAST)
                entry = replace(entry, swap_x=in_x or self.often(4), swap_y=not in_x)
            if self.often(3):
                entry = self._with_switch(entry, node)
            if node.tx & RAMP and self.often(6):
                entry = replace(entry, filter=self._filter())
            self.pes[pe].routes.append(entry)

    def _swap(self, stream: Stream) -> int | None:
        """Draw a PE that swaps the color of what comes in from a link; from there on it stays."""
        others = [pe for pe in stream.nodes if pe != stream.sender]
        if self.architecture == "wse3" or not others or not self.often(3):
            return None
        first = others[self.integer(0, len(others) - 1)]
        behind = [first]
        for pe in behind:
            for port in _STEPS:
                other = self.neighbour(pe, port) if stream.nodes[pe].tx & port else None
                if other is not None:
                    behind.append(other)
        stream.swapped = set(behind)
        return first

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
