"""Regions: rectangles of PEs with the same code, with params, routes, symbols and ports."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from appliance.sdk.geometry import IntRectangle, IntVector
from appliance.sdk.layout.routing import Color, Edge, EdgeRouteInfo, RoutingPosition
from appliance.sdk.symbols import HostCallError

Pe = tuple[int, int]
"""Column and row."""
_SYMBOL_TYPES = ("int32", "uint32", "float32", "int16", "uint16", "float16")
"""What the data of symbols are made of."""


@dataclass(frozen=True, slots=True, eq=False)
class PortHandle:
    """A port: the PEs of one side of a region, where a color enters or leaves it.

    Attributes:
        region: Whose side it is.
        color: What enters or leaves.
        edge: The side.
        size: Wavelets that pass it.
        name: What messages call it.
        is_input: Whether wavelets enter.
    """

    region: "CodeRegion"
    color: Color
    edge: Edge
    size: int
    name: str
    is_input: bool


class CodeRegion:
    """A rectangle of PEs that run one file."""

    def __init__(self, file: str, name: str, width: int, height: int) -> None:
        if width < 1 or height < 1:
            raise HostCallError(f"Region {name!r} of {width} x {height} PEs is empty.")
        self.file, self.name, self.width, self.height = file, name, width, height
        self.origin: Pe | None = None
        self.params: dict[Pe, dict[str, int | Color]] = {pe: {} for pe in self.pes()}
        self.routes: dict[Pe, dict[Color, tuple[RoutingPosition, ...]]] = {
            pe: {} for pe in self.pes()
        }
        self.symbols: dict[str, NDArray[Any]] = {}
        self._colors: dict[str, Color] = {}

    def pes(self) -> Iterable[Pe]:
        """Return all PEs, row by row, counted from the region's corner."""
        return [(x, y) for y in range(self.height) for x in range(self.width)]

    def place(self, x: int, y: int) -> None:
        """Say where the region's corner lies."""
        self.origin = (int(x), int(y))

    def color(self, name: str, value: int | None = None) -> Color:
        """Return the region's color of a name; the first call makes it."""
        return self._colors.setdefault(name, Color(name, value))

    # Params: `(name, value)`, or a Color, which has a name.

    def set_param(
        self, pe: IntVector, param: str | Color, value: int | Color | None = None
    ) -> None:
        """Set a param of one PE."""
        self._set([self._inside(pe)], param, value)

    def set_param_all(self, param: str | Color, value: int | Color | None = None) -> None:
        """Set a param of all PEs."""
        self._set(self.pes(), param, value)

    def set_param_range(
        self, pes: IntRectangle, param: str | Color, value: int | Color | None = None
    ) -> None:
        """Set a param of a rectangle of PEs, given by its corner and the one behind its last PE."""
        self._set(self._range(pes), param, value)

    def _set(self, pes: Iterable[Pe], param: str | Color, value: int | Color | None) -> None:
        name = param.name if isinstance(param, Color) else param
        given = param if value is None else value
        if isinstance(given, str):
            raise HostCallError(f"Param {name!r} of region {self.name!r} is given no value.")
        for pe in pes:
            self.params[pe][name] = given if isinstance(given, Color) else int(given)

    def set_symbol_all(self, symbol: str, data: NDArray[Any], width: int, height: int) -> None:
        """Set an exported array of every PE to its block of a matrix of `width` x `height`."""
        matrix = np.asarray(data)
        if matrix.dtype.name not in _SYMBOL_TYPES:
            raise HostCallError(
                f"Symbol {symbol!r} of region {self.name!r}: data of {matrix.dtype.name} must be "
                f"of {', '.join(_SYMBOL_TYPES)}; convert it with astype."
            )
        if matrix.size != width * height or width % self.width or height % self.height:
            raise HostCallError(
                f"Symbol {symbol!r} of region {self.name!r}: {matrix.size} elements as {width} x "
                f"{height} are no equal blocks for {self.width} x {self.height} PEs."
            )
        self.symbols[symbol] = matrix.reshape(height, width)

    def blocks(self) -> Iterable[tuple[Pe, str, bytes]]:
        """Return the bytes that symbols of PEs hold from the start."""
        for symbol, matrix in self.symbols.items():
            rows, columns = matrix.shape[0] // self.height, matrix.shape[1] // self.width
            for x, y in self.pes():
                block = matrix[y * rows : (y + 1) * rows, x * columns : (x + 1) * columns]
                yield (x, y), symbol, np.ascontiguousarray(block).tobytes()

    # Routes: a later call replaces what an earlier one said of a color of a PE.

    def paint(self, pe: IntVector, color: Color, positions: Sequence[RoutingPosition]) -> None:
        """Set the routes of a color in one PE."""
        self._paint([self._inside(pe)], color, positions)

    def paint_range(
        self, pes: IntRectangle, color: Color, positions: Sequence[RoutingPosition]
    ) -> None:
        """Set the routes of a color in a rectangle of PEs."""
        self._paint(self._range(pes), color, positions)

    def paint_all(
        self,
        color: Color,
        positions: Sequence[RoutingPosition],
        edges: Sequence[EdgeRouteInfo] = (),
    ) -> None:
        """Set the routes of a color in all PEs, and others on some sides."""
        self._paint(self.pes(), color, positions)
        for info in edges:
            self._paint(self.side(info.edge), color, info.positions)

    def _paint(self, pes: Iterable[Pe], color: Color, positions: Sequence[RoutingPosition]) -> None:
        if not 1 <= len(positions) <= 4:
            raise HostCallError(
                f"{color} has 1 to 4 routing positions; region {self.name!r} gives it "
                f"{len(positions)}."
            )
        for pe in pes:
            self.routes[pe][color] = tuple(position.copy() for position in positions)

    # Ports.

    def create_input_port(
        self,
        color: Color,
        edge: Edge,
        positions: Sequence[RoutingPosition],
        size: int,
        prefix: str = "",
    ) -> PortHandle:
        """Let a color enter through a side; its positions say where it goes from there."""
        for position in positions:
            if position.get_input():
                raise self._given_twice(color, edge, "input")
        entering = [position.copy().set_input([edge.route]) for position in positions]
        self._paint(self.side(edge), color, entering)
        return PortHandle(self, color, edge, size, self._port_name(color, prefix), is_input=True)

    def create_output_port(
        self,
        color: Color,
        edge: Edge,
        positions: Sequence[RoutingPosition],
        size: int,
        prefix: str = "",
    ) -> PortHandle:
        """Let a color leave through a side; its positions say where it comes from."""
        for position in positions:
            if position.get_output():
                raise self._given_twice(color, edge, "output")
        leaving = [position.copy().set_output([edge.route]) for position in positions]
        self._paint(self.side(edge), color, leaving)
        return PortHandle(self, color, edge, size, self._port_name(color, prefix), is_input=False)

    def _given_twice(self, color: Color, edge: Edge, side: str) -> HostCallError:
        return HostCallError(
            f"The {side} port of {color} on the {edge.value} side of region {self.name!r} gives "
            f"the positions their {side}; leave it out."
        )

    def _port_name(self, color: Color, prefix: str) -> str:
        return f"{self.name}{prefix}_{color.name}"

    def side(self, edge: Edge) -> list[Pe]:
        """Return the PEs of a side, from left to right or from top to bottom."""
        match edge:
            case Edge.LEFT:
                return [(0, y) for y in range(self.height)]
            case Edge.RIGHT:
                return [(self.width - 1, y) for y in range(self.height)]
            case Edge.TOP:
                return [(x, 0) for x in range(self.width)]
            case Edge.BOTTOM:
                return [(x, self.height - 1) for x in range(self.width)]

    def _inside(self, pe: IntVector) -> Pe:
        if not (0 <= pe.x < self.width and 0 <= pe.y < self.height):
            raise HostCallError(
                f"PE ({pe.x}, {pe.y}) is outside region {self.name!r} of {self.width} x "
                f"{self.height} PEs."
            )
        return (pe.x, pe.y)

    def _range(self, pes: IntRectangle) -> list[Pe]:
        first, end = pes.origin, pes.dims
        found = [(x, y) for y in range(first.y, end.y) for x in range(first.x, end.x)]
        if not found:
            raise HostCallError(
                f"The range from {first} to {end} of region {self.name!r} is empty."
            )
        return [self._inside(IntVector(x, y)) for x, y in found]
