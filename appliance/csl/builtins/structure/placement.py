"""Builtins of layout blocks: rectangle, code and routes of PEs."""

from appliance.csl.builtins.fabric.colors import check_color, configuration_of
from appliance.csl.builtins.fabric.reserved import check_free_color
from appliance.csl.builtins.registry import (
    argument,
    builtin,
    int_argument,
    known_argument,
    layout_world,
    string_argument,
)
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import VOID, Const, Value
from appliance.csl.syntax import tree

_STEPS_OF_A_PE, _STEPS_OF_A_ROUTE = 2_000, 500
"""Steps at compile time that a layout may take for each, beside those that every program has."""


@builtin("set_rectangle", 2)
def _set_rectangle(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    world = layout_world(node, frame)
    width = int_argument(node, 0, frame, "the width")
    height = int_argument(node, 1, frame, "the height")
    world.set_rectangle(width, height, node, frame)
    return VOID


@builtin("set_tile_code", 2, 4)
def _set_tile_code(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    world = layout_world(node, frame)
    x = int_argument(node, 0, frame, "the column")
    y = int_argument(node, 1, frame, "the row")
    path = None
    if len(node.arguments) > 2:
        text = string_argument(node, 2, frame).decode("utf-8", "replace")
        path = _resolved(text, node, frame)
    parameters = None
    if len(node.arguments) > 3:
        parameters = known_argument(node, 3, frame, "the parameters of a PE")
        type_ = parameters.type
        is_struct = isinstance(type_, t.StructType) and not (type_.is_tuple and type_.field_types)
        if not is_struct and type_ is not t.VOID:
            frame.fail(node.arguments[3], f"the parameters of a PE are a struct, not '{type_}'")
    if parameters is not None:
        frame.spend_value(node, parameters.type)  # its key is made
    world.set_code(x, y, path, parameters, node, frame)
    frame.earn(_STEPS_OF_A_PE)
    return VOID


def _resolved(path: str, node: tree.BuiltinCall, frame: Frame) -> str:
    session = frame.world.session
    key = (path, frame.module.unit.source.path)
    full = session.resolved.get(key)
    if full is None:
        full = session.resolve(path, key[1])
        if full is None:
            frame.fail(node.arguments[2], session.not_found(path, key[1]))
        session.resolved[key] = full
    return full


@builtin("set_color_config", 4)
def _set_color_config(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    world = layout_world(node, frame)
    x = int_argument(node, 0, frame, "the column")
    y = int_argument(node, 1, frame, "the row")
    at = world.tile_index(x, y, node, frame)
    color = argument(node, 2, frame)
    settings = known_argument(node, 3, frame, "the configuration of a color")
    assert isinstance(color, Const)
    key = (color.key, settings.key)
    configuration = world.parsed.get(key)
    if configuration is None:
        number = check_color(color, node.arguments[2], frame)
        check_free_color(number, node.arguments[2], frame)
        configuration = configuration_of(number, settings, node.arguments[3], frame)
        world.parsed[key] = configuration
    world.set_route(at, configuration, node, frame)
    frame.earn(_STEPS_OF_A_ROUTE)
    return VOID
