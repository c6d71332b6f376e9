"""A router: where wavelets of each color go, and when.

* Each color has a buffer of two wavelets, fed by the links and the ramp that its route names as
  `rx`. One leaves for all of `tx` at once, when each of them takes it: a neighbour whose buffer has
  room, the core whose queue has room. A link carries one wavelet a cycle; colors take turns.
* What is decided in a cycle rests on what buffers held when the cycle began.
* A control wavelet leaves by the route that it found; then its first command takes effect here. A
  wavelet that may change the route lets nothing of its color in behind it until it has left.
* A color in teardown neither takes nor sends. A route to nowhere drops what it takes; one from
  nowhere to nowhere keeps what it has.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from appliance.csl.program import NOWHERE, ColorConfiguration, Direction, SwitchPosition
from tests.support.fabric_reference.filters import FilterState
from tests.support.fabric_reference.wavelets import (
    Command,
    Queue,
    Wavelet,
    command_of,
    passes_core,
    without_first_command,
)

DEPTH = 2
NUM_COLORS = 24
PORTS = (Direction.WEST, Direction.EAST, Direction.SOUTH, Direction.NORTH)
RAMP = Direction.RAMP
_INVALID = 5
_POP_MODES = ("no_pop", "always_pop", "pop_on_advance", "pop_on_advance_nop")


class Fault(Exception):
    """The machine stops: what `bytecode.Fault` calls it, on which PE."""

    def __init__(self, kind: str, pe: int) -> None:
        super().__init__(kind)
        self.kind = kind
        self.pe = pe


@dataclass
class Route:
    """One color in one router."""

    color: int
    rx_at: dict[int, int] = field(default_factory=lambda: {0: 0})
    tx_at: dict[int, int] = field(default_factory=lambda: {0: 0})
    valid: set[int] = field(default_factory=set)
    position: int = 0
    is_ring: bool = False
    pop_mode: str = "no_pop"
    has_switch: bool = False
    is_used: bool = False
    is_torn_down: bool = False
    swaps_x: bool = False
    swaps_y: bool = False
    filter: FilterState | None = None
    buffer: list[Wavelet] = field(default_factory=list)
    came_from: Direction | None = None
    came_at: int = 0

    @classmethod
    def of(cls, source: ColorConfiguration) -> "Route":
        """Return a route as the program configures it."""
        route = cls(source.color, {0: source.rx}, {0: source.tx}, is_used=True)
        for number, position in enumerate(source.positions, start=1):
            route.set_position(number, position)
        route.position = source.current_position
        route.is_ring, route.pop_mode = source.ring_mode, source.pop_mode
        route.has_switch = bool(source.positions) or source.pop_mode != "no_pop"
        route.is_torn_down = source.teardown
        route.swaps_x, route.swaps_y = source.swap_x, source.swap_y
        route.filter = FilterState.of(source.filter) if source.filter else None
        return route

    def set_position(self, number: int, position: SwitchPosition) -> None:
        """Set a switch position."""
        self.rx_at[number], self.tx_at[number] = position.rx, position.tx
        if position.valid:
            self.valid.add(number)

    def _side(self, sides: dict[int, int]) -> int:
        """A position changes what it names; the rest stays as the positions before left it."""
        bits = sides[0]
        for number in range(1, self.position + 1):
            if number in self.valid and sides.get(number):
                bits = sides[number] & ~NOWHERE
        return bits

    @property
    def rx(self) -> int:
        """Where wavelets come from now."""
        return self._side(self.rx_at)

    @property
    def tx(self) -> int:
        """Where they go now."""
        return self._side(self.tx_at)

    def advance(self) -> bool:
        """Go to the next valid position; past the last one to 0 in a ring. Say whether it did."""
        later = [number for number in range(self.position + 1, 4) if number in self.valid]
        if later:
            self.position = later[0]
            return True
        if self.is_ring and self.position:
            self.position = 0
            return True
        return False

    def route_word(self) -> int:
        """Return the register of the route: where to and from, swaps, pop mode, teardown."""
        modes = int(self.swaps_y) | int(self.swaps_x) << 1 | _POP_MODES.index(self.pop_mode) << 2
        return self.tx_at[0] | self.rx_at[0] << 5 | (modes | int(self.is_torn_down) << 4) << 10

    def write_route(self, word: int) -> None:
        """Set what the register of the route holds, but for teardown, which is left by a call."""
        self.tx_at[0], self.rx_at[0] = word & 31, word >> 5 & 31
        self.swaps_y, self.swaps_x = bool(word >> 10 & 1), bool(word >> 11 & 1)
        self.pop_mode, self.is_used = _POP_MODES[word >> 12 & 3], True

    def switch_word(self) -> int:
        """Return the register of the switch: position, ring mode, and four bits a position."""
        word = self.position << 13 | int(self.is_ring) << 12
        for number in (1, 2, 3):
            rx, tx = self.rx_at.get(number, 0), self.tx_at.get(number, 0)
            side = rx or tx
            direction = (side & -side).bit_length() - 1
            is_valid = number in self.valid and side
            word |= (8 * bool(rx) | (direction if is_valid else _INVALID)) << (4 * (number - 1))
        return word

    def write_switch(self, word: int) -> None:
        """Set what the register of the switch holds; an invalid position keeps its side."""
        self.position, self.is_ring = word >> 13 & 3, bool(word >> 12 & 1)
        for number in (1, 2, 3):
            bits = word >> (4 * (number - 1)) & 15
            is_valid = bits & 7 < _INVALID
            side = 1 << (bits & 7) if is_valid else RAMP.bit
            self.rx_at[number] = side if bits & 8 else 0
            self.tx_at[number] = side if is_valid and not bits & 8 else 0
            (self.valid.add if is_valid else self.valid.discard)(number)
            self.has_switch |= is_valid

    def may_change(self, wavelet: Wavelet) -> bool:
        """Say whether the passing of a wavelet may change this route."""
        if wavelet.is_control:
            command = command_of(wavelet.data)
            if command is Command.TEARDOWN or (command is not Command.NOP and self.has_switch):
                return True
        return wavelet.advances and self.has_switch

    def takes_from(self, port: Direction) -> bool:
        """Say whether a wavelet may come in from a side."""
        is_closed = any(self.may_change(wavelet) for wavelet in self.buffer)
        has_room = len(self.buffer) < DEPTH and not is_closed
        return self.is_used and not self.is_torn_down and has_room and bool(self.rx & port.bit)


@dataclass(frozen=True, slots=True)
class FromBuffer:
    """The oldest wavelet of a color leaves a router."""

    pe: int
    color: int


@dataclass(frozen=True, slots=True)
class FromQueue:
    """The head of an output queue enters the router, or reaches the host."""

    pe: int
    queue: int
    to_host: bool


@dataclass(frozen=True, slots=True)
class FromHost:
    """The host's next word enters an input queue."""

    pe: int
    queue: int


Move = FromBuffer | FromQueue | FromHost


@dataclass
class HostPort:
    """A stream between the host and one PE: `first` words of the stream are of others."""

    color: int
    words: list[int]
    total: int
    start: int
    first: int = 0

    @property
    def is_open(self) -> bool:
        """Whether words are missing."""
        return len(self.words) < self.total


@dataclass
class Router:
    """The router of a PE, with the queues that it shares with the core."""

    number: int
    neighbour: Callable[[int, Direction], "Router | None"]
    inputs: list[Queue]
    outputs: list[Queue]
    ramp_cycles: int
    channel_words: int
    routes: dict[int, Route] = field(default_factory=dict)
    queue_of: dict[int, int] = field(default_factory=dict)
    torn_down: set[int] = field(default_factory=set)
    next_color: int = 0
    next_output: int = 0
    host_in: HostPort | None = None
    host_sent: int = 0
    host_out: HostPort | None = None

    def route(self, color: int) -> Route:
        """Return the route of a color, unused if nothing configured it."""
        return self.routes.setdefault(color, Route(color))

    def bind(self, queue: int, color: int) -> None:
        """Have an input queue receive a color; what waits in a queue lent to it comes along."""
        new, before = self.inputs[queue], self.queue_of.get(color)
        for other in [c for c, number in self.queue_of.items() if new.is_bound and number == queue]:
            del self.queue_of[other]
        new.color, new.is_bound, new.is_lent = color, True, False
        self.queue_of[color] = queue
        if before is not None and before != queue and self.inputs[before].is_lent:
            lent = self.inputs[before]
            lent.is_bound = lent.is_lent = False
            new.wavelets += lent.wavelets
            lent.wavelets = []

    # --- the first half of a cycle: it only reads

    def decide(self, now: int) -> Iterator[Move]:
        """Yield what moves out of this router and its queues in this cycle."""
        used = 0
        waiting = [route for route in self.routes.values() if route.buffer]
        for route in sorted(waiting, key=self._turn):
            if not route.tx & used and self._can_leave(route):
                used |= route.tx
                yield FromBuffer(self.number, route.color)
        yield from self._decide_output(now)
        if self.host_in and not used & RAMP.bit:
            yield from self._decide_host(self.host_in, now)

    def _turn(self, route: Route) -> int:
        return (route.color - self.next_color) % NUM_COLORS

    def _can_leave(self, route: Route) -> bool:
        if route.is_torn_down or not (route.rx or route.tx):
            return False
        links = all(
            self._neighbour_takes(route.color, port) for port in PORTS if route.tx & port.bit
        )
        return links and (not route.tx & RAMP.bit or self._core_takes(route))

    def _neighbour_takes(self, color: int, port: Direction) -> bool:
        """Say whether a wavelet can go to a side; beyond the program's rectangle it leaves."""
        other = self.neighbour(self.number, port)
        return other is None or other.takes(color, opposite(port))

    def takes(self, color: int, port: Direction) -> bool:
        """Say whether this router takes a wavelet from a side."""
        route = self.routes.get(self.taken_as(color, port))
        return route is not None and route.takes_from(port)

    def taken_as(self, color: int, port: Direction) -> int:
        """Return the color that a wavelet has here: with color swap, its partner's."""
        partner = self.routes.get(color ^ 1)
        if partner is None or not partner.is_used:
            return color
        in_x, in_y = port in PORTS[:2], port in PORTS[2:]
        swaps = partner.swaps_x if in_x else partner.swaps_y
        if not in_x and not in_y:
            swaps = partner.swaps_x and partner.swaps_y
        return color ^ 1 if swaps else color

    def _core_takes(self, route: Route) -> bool:
        wavelet = route.buffer[0]
        if wavelet.is_control and passes_core(wavelet.data):
            return True
        if route.color not in self.queue_of:
            return False
        return self._is_dropped(route, wavelet) or self.inputs[self.queue_of[route.color]].has_room

    def _filter_of(self, route: Route) -> FilterState | None:
        filters = route.filter is not None and route.filter.is_active
        queue = self.queue_of.get(route.color)
        return (
            route.filter
            if filters and queue is not None and self.inputs[queue].is_filtered
            else None
        )

    def _is_dropped(self, route: Route, wavelet: Wavelet) -> bool:
        active = self._filter_of(route)
        return active is not None and not active.passes(wavelet.data, is_control=wavelet.is_control)

    def _decide_output(self, now: int) -> Iterator[Move]:
        count = len(self.outputs)
        for queue in ((self.next_output + step) % count for step in range(count)):
            wavelet = self.outputs[queue].head(now)
            if wavelet is None:
                continue
            to_host = self._host_takes(wavelet.color)
            if to_host or self.takes(wavelet.color, RAMP):
                yield FromQueue(self.number, queue, to_host)
                return

    def _host_takes(self, color: int) -> bool:
        return self.host_out is not None and self.host_out.is_open and self.host_out.color == color

    def _decide_host(self, port: HostPort, now: int) -> Iterator[Move]:
        if self.host_sent == port.total:
            return
        due = port.start + (port.first + self.host_sent) // self.channel_words
        queue = self.queue_of.get(port.color)
        if due <= now and queue is not None and self.inputs[queue].has_room:
            yield FromHost(self.number, queue)

    # --- the second half

    def commit(self, move: Move, now: int) -> Iterator[tuple["Router", Wavelet, Direction]]:
        """Take a wavelet away; yield the routers that it comes to, and from where."""
        match move:
            case FromBuffer(color=color):
                yield from self._leave(self.routes[color], now)
                self.next_color = (color + 1) % NUM_COLORS
            case FromQueue(queue=queue, to_host=to_host):
                wavelet = self.outputs[queue].wavelets.pop(0)
                self.next_output = (queue + 1) % len(self.outputs)
                if not to_host:
                    yield self, wavelet, RAMP
                elif self.host_out is not None:
                    self.host_out.words.append(wavelet.data)
            case FromHost(queue=queue):
                assert self.host_in is not None
                data = self.host_in.words[self.host_sent]
                self.host_sent += 1
                self._deliver(queue, Wavelet(data, self.host_in.color), now)

    def _leave(self, route: Route, now: int) -> Iterator[tuple["Router", Wavelet, Direction]]:
        wavelet, ports = route.buffer.pop(0), route.tx
        if ports & RAMP.bit and not (wavelet.is_control and passes_core(wavelet.data)):
            is_dropped, active = self._is_dropped(route, wavelet), self._filter_of(route)
            if active is not None:
                active.count(is_control=wavelet.is_control)
            if not is_dropped:
                self._deliver(self.queue_of[route.color], wavelet, now)
        data = self._obey(route, wavelet.data) if wavelet.is_control else wavelet.data
        if wavelet.advances and route.has_switch:
            route.advance()
        for port in PORTS:
            other = self.neighbour(self.number, port) if ports & port.bit else None
            if other is not None:
                yield other, replace(wavelet, data=data, advances=False), opposite(port)

    def _obey(self, route: Route, data: int) -> int:
        """Do what a command says; return the payload that the next router sees."""
        command = command_of(data)
        if command is Command.TEARDOWN:
            route.is_torn_down = True
            self.torn_down.add(route.color)
        if not route.has_switch:
            return data
        advanced = command is Command.ADVANCE and route.advance()
        if command is Command.RESET:
            route.position = 0
        mode = _POP_MODES.index(route.pop_mode)
        pops = mode == 1 or (mode >= 2 and advanced) or (mode == 3 and command is Command.NOP)
        return without_first_command(data) if pops else data

    def _deliver(self, queue: int, wavelet: Wavelet, now: int) -> None:
        seen = replace(wavelet, ready=now + self.ramp_cycles)
        self.inputs[queue].wavelets.append(seen)

    def arrive(self, wavelet: Wavelet, port: Direction, now: int) -> None:
        """Take a wavelet in; it can leave in the next cycle."""
        color = self.taken_as(wavelet.color, port)
        route = self.routes[color]
        if route.came_at == now and route.came_from is not None:
            raise Fault("TWO_ARRIVALS", self.number)
        route.came_at, route.came_from = now, port
        route.buffer.append(replace(wavelet, color=color))


def opposite(port: Direction) -> Direction:
    """Return the side on which a neighbour sees a link."""
    return PORTS[PORTS.index(port) ^ 1]
