"""Where wavelets of a color come from and go to, by the routes as they are now."""

from collections.abc import Callable
from dataclasses import dataclass

from appliance.csl.program import ColorConfiguration, Program
from appliance.fabric.bytecode import NUM_COLORS

_NEVER = (1 << 64) - 1
_STEPS = ((-1, 0), (1, 0), (0, 1), (0, -1))
_PORTS = ("West", "East", "South", "North")
_RAMP = 4
_PORT_BITS = 0x1F
_ROUTE = 15
"""Number by which the kernel tells of a route: rx, tx."""
_MOST_STEPS = 200_000
"""Routers that are asked on behalf of one report."""

Read = Callable[[int, int, int], int]
"""One number of a PE: its number, what, and an index; all ones where it was never touched."""

_Route = Callable[[int, int], tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a route leads.

    Attributes:
        pes: PEs whose ramp it leads to.
        dead_ends: PEs that do not accept what a neighbour sends them, with the side it comes from.
    """

    pes: tuple[int, ...]
    dead_ends: tuple[tuple[int, str], ...]


class Paths:
    """Follows routes, by their state in the kernel or, where no wavelet was yet, as compiled.

    Args:
        program: What runs.
        read: Asks the kernel.
    """

    def __init__(self, program: Program, read: Read) -> None:
        self._grid, self._read = program.grid, read
        self._compiled = [
            {entry.color: (entry.rx, entry.tx) for entry in routing.colors}
            for routing in program.routings
        ]
        self._ever = [
            {entry.color: _ever(entry) for entry in routing.colors if entry.positions}
            for routing in program.routings
        ]
        self._swapped = {
            color
            for routing in program.routings
            for entry in routing.colors
            if entry.swap_x or entry.swap_y
            for color in (entry.color, entry.color ^ 1)
        }
        self._steps = 0

    def can_follow(self, color: int) -> bool:
        """Whether a color stays one color on its way; what swaps is not followed."""
        return color < NUM_COLORS and color not in self._swapped and self._steps < _MOST_STEPS

    def senders(self, number: int, color: int) -> tuple[int, ...]:
        """Return the PEs that would have to send, for a wavelet to come to a PE's ramp."""
        if not self._route(number, color)[1] >> _RAMP & 1:
            return ()
        return self.sources(number, color)

    def sources(self, number: int, color: int) -> tuple[int, ...]:
        """Return the PEs whose wavelets of a color come through a PE's router."""
        return self._upstream(number, color, self._route)[0]

    def switches(self, number: int, color: int) -> tuple[int, ...]:
        """Return the PEs one of whose switches, in another position, would lead a color to a ramp.

        Empty if there is no way for it in any position.
        """
        if not self._any_route(number, color)[1] >> _RAMP & 1:
            return ()
        senders, through = self._upstream(number, color, self._any_route)
        turned = (at for at in through if self._any_route(at, color) != self._route(at, color))
        return tuple(sorted(turned)) if senders else ()

    def _upstream(self, number: int, color: int, route: _Route) -> tuple[tuple[int, ...], set[int]]:
        """Return the PEs that a color comes from, and all whose routers it comes through."""
        found: list[int] = []
        seen, todo = {number}, [number]
        while todo and self._steps < _MOST_STEPS:
            at = todo.pop()
            rx, _ = route(at, color)
            if rx >> _RAMP & 1:
                found.append(at)
            for port in range(4):
                other = self._neighbour(at, port)
                if not rx >> port & 1 or other is None or other in seen:
                    continue
                if route(other, color)[1] >> (port ^ 1) & 1:
                    seen.add(other)
                    todo.append(other)
        return tuple(sorted(found)), seen

    def destination(self, number: int, color: int) -> Destination:
        """Return where a wavelet leads that is in a PE's router."""
        found: list[int] = []
        dead: list[tuple[int, str]] = []
        seen, todo = {number}, [number]
        while todo and self._steps < _MOST_STEPS:
            at = todo.pop()
            _, tx = self._route(at, color)
            if tx >> _RAMP & 1:
                found.append(at)
            for port in range(4):
                if not tx >> port & 1:
                    continue
                other = self._neighbour(at, port)
                if other is None:
                    dead.append((at, f"sends it {_PORTS[port]}, off the grid"))
                elif not self._route(other, color)[0] >> (port ^ 1) & 1:
                    dead.append((other, f"does not receive it from the {_PORTS[port ^ 1]}"))
                elif other not in seen:
                    seen.add(other)
                    todo.append(other)
        return Destination(tuple(sorted(found)), tuple(sorted(dead)))

    def _route(self, number: int, color: int) -> tuple[int, int]:
        """Return the ports that a router receives a color from and sends it to."""
        self._steps += 1
        width = self._grid.width
        packed = self._read(number, _ROUTE, color)
        if packed != _NEVER:
            return packed & 0xFF, packed >> 8 & 0xFF
        if self._read(number, 0, 0) != _NEVER:
            return 0, 0
        routing = self._grid.routing_class(number % width, number // width)
        compiled = self._compiled[routing] if routing < len(self._compiled) else {}
        return compiled.get(color, (0, 0))

    def _any_route(self, number: int, color: int) -> tuple[int, int]:
        """Return the ports of a router's route now and in the other positions of its switch."""
        rx, tx = self._route(number, color)
        width = self._grid.width
        routing = self._grid.routing_class(number % width, number // width)
        ever = self._ever[routing] if routing < len(self._ever) else {}
        more = ever.get(color, (0, 0))
        return rx | more[0], tx | more[1]

    def _neighbour(self, number: int, port: int) -> int | None:
        width, height = self._grid.width, self._grid.height
        x, y = number % width + _STEPS[port][0], number // width + _STEPS[port][1]
        return y * width + x if 0 <= x < width and 0 <= y < height else None


def _ever(entry: ColorConfiguration) -> tuple[int, int]:
    """Return the ports of a route in any position of its switch."""
    rx, tx = entry.rx, entry.tx
    for position in entry.positions:
        if position.valid:
            rx |= position.rx & _PORT_BITS
            tx |= position.tx & _PORT_BITS
    return rx, tx
