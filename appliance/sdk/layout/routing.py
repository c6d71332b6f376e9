"""Directions, routing positions and colors, as programs name them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from appliance.sdk.symbols import HostCallError


class Route(Enum):
    """Where a wavelet comes from or goes to at a router."""

    EAST = "EAST"
    WEST = "WEST"
    NORTH = "NORTH"
    SOUTH = "SOUTH"
    RAMP = "RAMP"


class Edge(Enum):
    """A side of a region."""

    LEFT = "LEFT"
    RIGHT = "RIGHT"
    TOP = "TOP"
    BOTTOM = "BOTTOM"

    @property
    def route(self) -> Route:
        """The direction in which the side lies."""
        return _ROUTES[self]


_ROUTES = {
    Edge.LEFT: Route.WEST,
    Edge.RIGHT: Route.EAST,
    Edge.TOP: Route.NORTH,
    Edge.BOTTOM: Route.SOUTH,
}
OPPOSITE = {
    Route.EAST: Route.WEST,
    Route.WEST: Route.EAST,
    Route.NORTH: Route.SOUTH,
    Route.SOUTH: Route.NORTH,
}
STEPS = {Route.EAST: (1, 0), Route.WEST: (-1, 0), Route.NORTH: (0, -1), Route.SOUTH: (0, 1)}
"""How column and row change in a direction."""


class RoutingPosition:
    """A switch position of a color: where wavelets come from and where they go."""

    def __init__(self) -> None:
        self._input: list[Route] = []
        self._output: list[Route] = []

    def set_input(self, routes: Sequence[Route]) -> "RoutingPosition":
        """Replace where wavelets come from."""
        self._input = _checked(routes)
        return self

    def set_output(self, routes: Sequence[Route]) -> "RoutingPosition":
        """Replace where wavelets go."""
        self._output = _checked(routes)
        return self

    def add_input(self, route: Route) -> "RoutingPosition":
        """Add a direction from which wavelets come."""
        self._input = _checked([*self._input, route])
        return self

    def add_output(self, route: Route) -> "RoutingPosition":
        """Add a direction in which wavelets go."""
        self._output = _checked([*self._output, route])
        return self

    def get_input(self) -> list[Route]:
        """Return where wavelets come from."""
        return list(self._input)

    def get_output(self) -> list[Route]:
        """Return where wavelets go."""
        return list(self._output)

    def copy(self) -> "RoutingPosition":
        """Return another position with the same directions."""
        return RoutingPosition().set_input(self._input).set_output(self._output)


def _checked(routes: Sequence[Route]) -> list[Route]:
    for route in routes:
        if not isinstance(route, Route):
            raise HostCallError(f"A routing position consists of Routes; {route!r} is none.")
    return list(dict.fromkeys(routes))


@dataclass(frozen=True, slots=True)
class EdgeRouteInfo:
    """What PEs of one side of a region have instead of the others' positions."""

    edge: Edge
    positions: tuple[RoutingPosition, ...]


def get_edge_routing(edge: Edge, positions: Sequence[RoutingPosition]) -> EdgeRouteInfo:
    """Return positions for the PEs of one side, as `paint_all` takes them."""
    return EdgeRouteInfo(edge, tuple(positions))


class Color:
    """A color of a program; without a value the layout chooses one.

    Args:
        name: Name of the param that gets its value.
        value: Its number; None lets the layout choose.
    """

    def __init__(self, name: str, value: int | None = None) -> None:
        self.name = name
        self.value = value

    def __repr__(self) -> str:
        return f"Color({self.name!r})"
