"""Routes, switches and filters of colors."""

from collections.abc import Callable

from appliance.csl.builtins.fabric.reserved import check_free_color
from appliance.csl.builtins.registry import (
    Settings,
    builtin,
    known_argument,
    tile_world,
)
from appliance.csl.program.code import Handler
from appliance.csl.program.placement import NOWHERE, ColorConfiguration, Filter, SwitchPosition
from appliance.csl.semantics.context.frames import Frame, FunctionValue
from appliance.csl.semantics.expressions.evaluate import is_integer
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import DIRECTIONS, VOID, Const, Value, field_of
from appliance.csl.syntax import tree

NUM_COLORS = 24
SWITCHED_WSE3 = frozenset((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 20, 21))
"""Colors that have switches on WSE-3."""
_RX_SHIFT = 5
_SIDE_BITS = 0b11111
_POSITIONS = ("pos1", "pos2", "pos3")
_SWITCH_FIELDS = (*_POSITIONS, "current_switch_pos", "ring_mode", "pop_mode")
_CONFIGURATION = ("routes", "switches", "filter", "teardown", "rx", "tx", *_SWITCH_FIELDS)
_POP_MODES = ("no_pop", "always_pop", "pop_on_advance", "pop_on_advance_nop")
_FILTER_OPTIONS = (
    *("init_counter", "max_counter", "limit1", "limit2", "count_data", "count_control"),
    *("filter_control", "min_idx", "max_idx"),
)
_COUNTS = ("init_counter", "max_counter", "limit1", "count_data", "count_control", "fast_mode")
_FILTER_KINDS: dict[str, tuple[str, ...]] = {
    "counter": (*_COUNTS, "filter_control"),
    "sparse_counter": (*_COUNTS, "limit2"),
    "range": ("min_idx", "max_idx", "fast_mode"),
}
"""What the filters of a kind have beside `.kind`."""


def check_color(value: Const, node: tree.Node, frame: Frame) -> int:
    """The number of a routable color."""
    if value.type is not t.COLOR:
        frame.fail(node, f"expected a color, got '{value.type}'")
    number: int = value.value
    if number >= NUM_COLORS:
        frame.fail(node, f"color {number} cannot be routed; routable colors are 0 to 23")
    return number


@builtin("set_local_color_config", 2)
def _set_local_color_config(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    world = tile_world(node, frame)
    color = known_argument(node, 0, frame, "a color")
    number = check_color(color, node.arguments[0], frame)
    check_free_color(number, node.arguments[0], frame)
    settings = known_argument(node, 1, frame, "the configuration of a color")
    if number in world.colors:
        frame.fail(node, f"color {number} of this PE is configured twice")
    configuration = configuration_of(number, settings, node.arguments[1], frame)
    world.colors[number] = (configuration, frame.span(node))
    return VOID


def configuration_of(color: int, value: Const, node: tree.Node, frame: Frame) -> ColorConfiguration:
    """A color's configuration from its struct."""
    settings = Settings(value, node, frame, "a color configuration")
    routes = settings.take_known("routes")
    rx, tx, swap_x, swap_y = 0, 0, False, False
    inner = settings
    if routes is not None and is_integer(routes.type):
        tx, rx = routes.value & _SIDE_BITS, (routes.value >> _RX_SHIFT) & _SIDE_BITS
    else:
        if routes is not None:
            inner = Settings(routes, node, frame, "'.routes'")
        if routes is None or routes.value:
            rx, tx = _side(inner, "rx", node, frame), _side(inner, "tx", node, frame)
        swap_x, swap_y = inner.take_bool("color_swap_x"), inner.take_bool("color_swap_y")
    switches = _switches(color, settings, inner, node, frame)
    filter_ = settings.take_known("filter")
    teardown = settings.take_bool("teardown")
    if inner is not settings:
        inner.finish(("rx", "tx", "color_swap_x", "color_swap_y", *_SWITCH_FIELDS))
    settings.finish(_CONFIGURATION)
    positions, current, ring, pop = switches
    return ColorConfiguration(
        color=color, rx=rx, tx=tx, positions=positions, current_position=current, ring_mode=ring,
        pop_mode=pop, swap_x=swap_x, swap_y=swap_y, teardown=teardown,
        filter=None if filter_ is None else _filter(filter_, node, frame),
    )  # fmt: skip


def _side(settings: Settings, name: str, node: tree.Node, frame: Frame) -> int:
    value = settings.take_known(name)
    if value is None:
        frame.fail(node, f"the routes of a color need '.{name}'")
    return directions(value, node, frame, name)


def directions(value: Const, node: tree.Node, frame: Frame, name: str) -> int:
    """A direction, or a tuple or array of directions, as bits."""
    if value.type is t.DIRECTION:
        return int(1 << value.value)
    if value.type is t.VOID:
        return 0
    type_ = value.type
    if isinstance(type_, t.ArrayType) and type_.element is t.DIRECTION:
        return _side_bits(value.value, node, frame, name)
    if isinstance(type_, t.StructType) and (type_.is_tuple or not type_.field_types):
        for item in value.value:
            if item.type is not t.DIRECTION:
                frame.fail(node, f"'.{name}' needs directions, got '{item.type}'")
        return _side_bits([item.value for item in value.value], node, frame, name)
    frame.fail(node, f"'.{name}' needs a direction or several, got '{type_}'")


def _side_bits(sides: list[int], node: tree.Node, frame: Frame, name: str) -> int:
    bits = 0
    for side in sides:
        if bits >> side & 1:
            frame.fail(node, f"'.{name}' names {DIRECTIONS[side]} twice")
        bits |= 1 << side
    return bits


_Switches = tuple[tuple[SwitchPosition, ...], int, bool, str]


def _switches(
    color: int, settings: Settings, routes: Settings, node: tree.Node, frame: Frame
) -> _Switches:
    """The switch, from `.switches` or from fields that stand beside `.rx` and `.tx`."""
    given = settings.take_known("switches")
    source = routes if given is None else Settings(given, node, frame, "'.switches'")
    positions = tuple([_position(source.take_known(name), node, frame) for name in _POSITIONS])
    while positions and not positions[-1].valid:
        positions = positions[:-1]
    current = source.take_int("current_switch_pos") or 0
    ring = source.take_bool("ring_mode")
    pop = _pop_mode(_pop_mode_value(source, routes, node, frame), node, frame)
    if given is not None:
        source.finish(_SWITCH_FIELDS)
    if positions and frame.world.session.is_wse3 and color not in SWITCHED_WSE3:
        colors = ", ".join(map(str, sorted(SWITCHED_WSE3)))
        frame.fail(node, f"color {color} has no switches on wse3; colors {colors} have")
    if not 0 <= current <= 3:
        frame.fail(node, f"'.current_switch_pos' is 0 to 3, got {current}")
    return positions, current, ring, pop


def _pop_mode_value(
    source: Settings, routes: Settings, node: tree.Node, frame: Frame
) -> Const | None:
    value = routes.take_known("pop_mode")
    if value is not None:
        frame.deprecated(node, "'.pop_mode' beside '.rx' and '.tx'; write it in '.switches'")
    return source.take_known("pop_mode") or value


def _position(value: Const | None, node: tree.Node, frame: Frame) -> SwitchPosition:
    """One switch position: the sides that it changes."""
    if value is None:
        return SwitchPosition(rx=0, tx=0, valid=False)
    if is_integer(value.type):
        tx, rx = value.value & _SIDE_BITS, (value.value >> _RX_SHIFT) & _SIDE_BITS
        return _changed(rx, tx, node, frame)
    settings = Settings(value, node, frame, "a switch position")
    invalid = settings.take_known("invalid")
    if invalid is not None:
        if invalid.value is not True:
            frame.fail(node, "'.invalid' of a switch position is true; leave it out otherwise")
        return SwitchPosition(rx=0, tx=0, valid=False)
    rx_value, tx_value = settings.take_known("rx"), settings.take_known("tx")
    settings.finish(("rx", "tx", "invalid"))
    if rx_value is not None and directions(rx_value, node, frame, "rx").bit_count() > 1:
        frame.fail(node, "'.rx' of a switch position is one direction")
    rx = 0 if rx_value is None else directions(rx_value, node, frame, "rx") or NOWHERE
    tx = 0 if tx_value is None else directions(tx_value, node, frame, "tx") or NOWHERE
    return _changed(rx, tx, node, frame)


def _changed(rx: int, tx: int, node: tree.Node, frame: Frame) -> SwitchPosition:
    if rx and tx and not frame.world.session.is_wse3:
        frame.fail(node, "a switch position of wse2 changes '.rx' or '.tx', not both")
    return SwitchPosition(rx=rx, tx=tx, valid=bool(rx or tx))


def _pop_mode(value: Const | None, node: tree.Node, frame: Frame) -> str:
    if value is None:
        return "no_pop"
    settings = Settings(value, node, frame, "'.pop_mode'")
    chosen = [name for name in _POP_MODES if settings.take_bool(name)]
    settings.finish(_POP_MODES)
    if len(chosen) != 1:
        text = f"'.pop_mode' is one of {', '.join(_POP_MODES)}, got {len(chosen)} that are true"
        frame.fail(node, text)
    return chosen[0]


def _filter(value: Const, node: tree.Node, frame: Frame) -> Filter:
    settings = Settings(value, node, frame, "'.filter'")
    kind_value = settings.take_known("kind")
    if kind_value is None:
        frame.fail(node, f"a filter needs '.kind', one of {', '.join(_FILTER_KINDS)}")
    kind = _filter_kind(kind_value, node, frame)
    for name in _FILTER_OPTIONS:
        if settings.has(name) and name not in _FILTER_KINDS[kind]:
            frame.fail(node, f"a filter of kind '{kind}' has no '.{name}'")
    settings.take_known("fast_mode")
    limit2 = settings.take_int("limit2")
    found = Filter(
        kind=kind,
        init_counter=settings.take_int("init_counter") or 0,
        max_counter=settings.take_int("max_counter") or 0,
        limit1=settings.take_int("limit1") or 0,
        limit2=limit2,
        count_data=settings.take_bool("count_data"),
        count_control=settings.take_bool("count_control"),
        filter_control=settings.take_bool("filter_control"),
        min_index=settings.take_int("min_idx") or 0,
        max_index=settings.take_int("max_idx") or 0,
    )
    settings.finish(("kind", *_FILTER_KINDS[kind]))
    numbers = (
        *(found.init_counter, found.max_counter, found.limit1, found.limit2 or 0),
        *(found.min_index, found.max_index),
    )
    if min(numbers) < 0:
        frame.fail(node, f"the numbers of a filter are not negative, got {min(numbers)}")
    return found


def _filter_kind(value: Const, node: tree.Node, frame: Frame) -> str:
    chosen = [
        kind
        for kind in _FILTER_KINDS
        if isinstance(found := field_of(value, kind), Const) and found.value is True
    ]
    if len(chosen) != 1:
        frame.fail(node, f"'.kind' of a filter is one of {', '.join(_FILTER_KINDS)}")
    return chosen[0]


@builtin("set_teardown_handler", 2)
def _set_teardown_handler(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    world = tile_world(node, frame)
    function = known_argument(node, 0, frame, "a handler")
    color = check_color(known_argument(node, 1, frame, "a color"), node.arguments[1], frame)
    index = handler_function(function, node.arguments[0], frame, world.function_index)
    if ("teardown", color) in world.handlers:
        frame.fail(node, f"color {color} already has a teardown handler")
    world.handlers["teardown", color] = Handler("teardown", color, index, frame.position(node))
    return VOID


def handler_function(
    value: Const,
    node: tree.Node,
    frame: Frame,
    function_index: Callable[[FunctionValue, Frame, tree.Node], int],
) -> int:
    """The number of a function without arguments and result."""
    type_ = value.type
    if isinstance(type_, t.PointerType):
        type_ = type_.target
    is_plain = isinstance(type_, t.FunctionType) and not type_.parameters
    if not is_plain or not isinstance(value.value, FunctionValue):
        frame.fail(node, f"a handler is a function without arguments, not '{value.type}'")
    return function_index(value.value, frame, node)
