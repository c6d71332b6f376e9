"""The whole program: grid, routes, exports."""

from dataclasses import dataclass
from enum import StrEnum

from appliance.csl.program.code import CodeClass
from appliance.csl.program.types import Position


class Direction(StrEnum):
    """A port of a router. As bits of a set: bit 0 west to bit 4 ramp."""

    WEST = "WEST"
    EAST = "EAST"
    SOUTH = "SOUTH"
    NORTH = "NORTH"
    RAMP = "RAMP"

    @property
    def bit(self) -> int:
        """This direction as a set."""
        return 1 << _ORDER.index(self.value)


_ORDER = ("WEST", "EAST", "SOUTH", "NORTH", "RAMP")


NOWHERE = 1 << len(_ORDER)
"""Bits of a side of a switch position that is given, and empty."""


@dataclass(frozen=True, slots=True)
class SwitchPosition:
    """Position 1, 2 or 3 of a switch: bits of a side that it changes, 0 for unchanged.

    `NOWHERE` changes a side to no direction at all.
    """

    rx: int
    tx: int
    valid: bool


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter between router and ramp; `kind` is `counter`, `sparse_counter` or `range`."""

    kind: str
    init_counter: int = 0
    max_counter: int = 0
    limit1: int = 0
    limit2: int | None = None
    count_data: bool = True
    count_control: bool = True
    filter_control: bool = False
    min_index: int = 0
    max_index: int = 0


@dataclass(frozen=True, slots=True)
class ColorConfiguration:
    """How one router treats one color: `@set_color_config` or `@set_local_color_config`."""

    color: int
    rx: int
    tx: int
    """Direction bits of position 0."""
    positions: tuple[SwitchPosition, ...] = ()
    """Positions 1 to 3 as far as given."""
    current_position: int = 0
    ring_mode: bool = False
    pop_mode: str = "no_pop"
    """`no_pop`, `always_pop`, `pop_on_advance`, `pop_on_advance_nop`."""
    swap_x: bool = False
    swap_y: bool = False
    filter: Filter | None = None
    teardown: bool = False


@dataclass(frozen=True, slots=True)
class RoutingClass:
    """The color configurations of one PE; PEs with equal ones share it. Colors ascend."""

    colors: tuple[ColorConfiguration, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Which classes each PE has, row by row (`y * width + x`), as 32-bit little-endian words.

    A PE whose `@set_tile_code` names no file has code class `NO_CODE`.
    """

    width: int
    height: int
    code: bytes
    routing: bytes

    def code_class(self, x: int, y: int) -> int:
        """Index in `Program.classes`, or `NO_CODE`."""
        at = 4 * (y * self.width + x)
        return int.from_bytes(self.code[at : at + 4], "little")

    def routing_class(self, x: int, y: int) -> int:
        """Index in `Program.routings`."""
        at = 4 * (y * self.width + x)
        return int.from_bytes(self.routing[at : at + 4], "little")


NO_CODE = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class RpcSymbol:
    """An entry of out_rpc.json."""

    id: int
    kind: str
    """`Var`, `Func` or `Stream`."""
    name: str
    type: str
    immutable: bool
    inputs: tuple[tuple[str, str], ...]
    color: int | None
    position: Position


@dataclass(frozen=True, slots=True)
class HostStream:
    """A color that memcpy's streaming mode feeds (`h2d`) or drains (`d2h`)."""

    kind: str
    number: int
    """1 to 4 as in `MEMCPYH2D_1`."""
    color: int


@dataclass(frozen=True, slots=True)
class Program:
    """Everything that a simulator needs."""

    architecture: str
    """`wse2` or `wse3`."""
    dialect: str
    """`1.4` or `2.10`."""
    fabric: tuple[int, int]
    """Width and height of the fabric."""
    offsets: tuple[int, int]
    """Where the rectangle begins on it."""
    memcpy: bool
    channels: int
    width_west_buf: int
    width_east_buf: int
    fp16_format: str
    parameters: tuple[tuple[str, int], ...]
    """Every `--params` value, for out.json."""
    colors: tuple[tuple[str, int], ...]
    """Every `--colors` value, for out.json."""
    files: tuple[str, ...]
    """Source names, as `Position.file` counts them."""
    grid: Grid
    classes: tuple[CodeClass, ...]
    routings: tuple[RoutingClass, ...]
    symbols: tuple[RpcSymbol, ...]
    streams: tuple[HostStream, ...]
