"""`@import_module`, and what a program may ask about its rectangle and machine."""

import json
import re
from typing import Any

from appliance.csl.builtins.fabric.colors import NUM_COLORS
from appliance.csl.builtins.registry import (
    argument,
    builtin,
    string_argument,
    type_argument,
)
from appliance.csl.semantics.context.frames import Frame, Scope
from appliance.csl.semantics.expressions.evaluate import coerce
from appliance.csl.semantics.expressions.modules import Module
from appliance.csl.semantics.results.layout import LayoutWorld
from appliance.csl.semantics.results.tile import TileWorld
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import (
    Const,
    Value,
    anonymous,
    boolean,
    fields_of,
    raw_element,
)
from appliance.csl.syntax import tree

MAX_IMPORT_DEPTH = 64


MEMCPY = "<memcpy/memcpy>"
"""The library of PEs that the host reaches."""

STEPS_OF_IMPORT = 1000
"""What an instance of a module costs, in steps: it is kept."""


@builtin("import_module", 1, 2)
def _import_module(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    path = string_argument(node, 0, frame).decode("utf-8", "replace")
    session = frame.world.session
    importer = frame.module.unit.source.path
    full = session.resolve(path, importer)
    if full is None:
        frame.fail(node.arguments[0], session.not_found(path, importer))
    frame.check_release(node.arguments[0], full)
    unit = session.unit(full)
    assert unit is not None
    if unit.has_errors:
        frame.silent()
    _check_depth(node, frame)
    frame.spend(node, STEPS_OF_IMPORT)
    arguments = _parameters(node, frame)
    frame.world.effects += 1
    stem = full.strip("<>").rsplit("/", 1)[-1].removesuffix(".csl")
    name = f"{frame.module.name}.{stem}" if frame.module.name else stem
    module = Module(frame.world, unit, arguments, name=name, importer=(frame, node))
    for given in arguments:
        declared = unit.declarations.get(given)
        if not isinstance(declared, tree.Declaration) or declared.kind != "param":
            frame.warn(node, f"module '{full}' has no param '{given}'")
    frame.world.pending.append(module)
    if full == MEMCPY and isinstance(frame.world, TileWorld):
        frame.world.has_memcpy = True
    return Const(t.MODULE, module)


def _check_depth(node: tree.BuiltinCall, frame: Frame) -> None:
    depth = 0
    module: Scope | None = frame.module
    while module is not None:
        depth += 1
        module = module.importer[0].module if module.importer else None
    if depth > MAX_IMPORT_DEPTH:
        frame.fail(node, f"imports nest more than {MAX_IMPORT_DEPTH} levels deep")


def _parameters(node: tree.BuiltinCall, frame: Frame) -> dict[str, Const]:
    if len(node.arguments) == 1:
        return {}
    value = argument(node, 1, frame)
    if value.type is t.VOID:
        return {}
    type_ = value.type
    if not isinstance(type_, t.StructType):
        frame.fail(node.arguments[1], f"the parameters of a module are a struct, not '{type_}'")
    if not isinstance(value, Const):
        frame.fail(node.arguments[1], "the parameters of a module must be known at compile time")
    if type_.is_tuple and type_.field_types:
        frame.fail(node.arguments[1], "the parameters of a module need '.name = value'")
    fields = dict(zip(type_.field_names, fields_of(value), strict=True))
    return {name: item for name, item in fields.items() if isinstance(item, Const)}


@builtin("is_arch", 1)
def _is_arch(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    name = string_argument(node, 0, frame).decode("utf-8", "replace")
    if name not in ("wse1", "wse2", "wse3"):
        frame.fail(node.arguments[0], f"there is no architecture '{name}'; 'wse2' or 'wse3'")
    return boolean(name == frame.world.session.options.architecture)


@builtin("get_rectangle", 0)
def _get_rectangle(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    world = frame.world
    options = world.session.options
    if isinstance(world, LayoutWorld):
        if world.rectangle is None:
            frame.fail(node, "call @set_rectangle first")
        size = (world.width, world.height)
    else:
        assert isinstance(world, TileWorld)
        if world.is_alone:
            frame.silent()
        size = world.rectangle
    return _struct(
        {
            "width": size[0],
            "height": size[1],
            "fabric": _pair(options.fabric_dims or size),
            "offsets": _pair(options.fabric_offsets),
        }
    )


def _pair(size: tuple[int, int]) -> Const:
    return _struct({"width": size[0], "height": size[1]})


def _struct(fields: dict[str, Any]) -> Const:
    values = tuple(
        [value if isinstance(value, Const) else Const(t.U16, value) for value in fields.values()]
    )
    made = anonymous(tuple(fields), values)
    assert isinstance(made, Const)
    return made


@builtin("import_comptime_value", 2)
def _import_comptime_value(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    type_ = type_argument(node, 0, frame)
    path = string_argument(node, 1, frame).decode("utf-8", "replace")
    session = frame.world.session
    importer = frame.module.unit.source.path
    texts = (session.loader.read(found) for found in session.candidates(path, importer))
    text = next((found for found in texts if found is not None), None)
    if text is None:
        frame.fail(node.arguments[1], session.not_found(path, importer))
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        frame.fail(node.arguments[1], f"'{path}' is no JSON: {error}")
    return _fitted(_from_json(value, node, frame), type_, node, frame, path)


def _fitted(value: Const, type_: Type, node: tree.BuiltinCall, frame: Frame, what: str) -> Const:
    """A JSON value in the type that it is to have: a number as a color, a list as an array."""
    if type_ is t.COLOR and value.type is t.COMPTIME_INT:
        if not 0 <= value.value < NUM_COLORS:
            last = NUM_COLORS - 1
            frame.fail(node, f"{what}: color {value.value} is outside 0 to {last}")
        return Const(t.COLOR, value.value)
    if isinstance(type_, t.ArrayType) and isinstance(value.type, t.StructType):
        items = [_fitted(item, type_.element, node, frame, what) for item in value.value]
        if len(items) != type_.count:
            frame.fail(node, f"{what}: '{type_}' takes {type_.count} elements, got {len(items)}")
        return Const(type_, [raw_element(item, type_.element) for item in items])
    fitted = coerce(value, type_, node, frame, what)
    assert isinstance(fitted, Const), "what is evaluated at compile time is known"
    return fitted


_LABEL = re.compile(r"(?:\[([0-9 ,]+)\])?([A-Za-z_][A-Za-z0-9_]*)")
"""The type of a field: perhaps a shape, and a name."""


def _labelled_type(label: str, key: str, node: tree.BuiltinCall, frame: Frame) -> Type:
    found = _LABEL.fullmatch(label.strip())
    half = frame.world.session.options.fp16_format
    type_ = t.named_type(found[2], half) if found else None
    if found is None or type_ is None:
        frame.fail(node, f"field '{key}' has no type that is known here")
    if found[1] is None:
        return type_
    return t.array_type(tuple(int(size) for size in found[1].split(",")), type_)


def _from_json(value: Any, node: tree.BuiltinCall, frame: Frame) -> Const:  # noqa: ANN401 - JSON
    """A JSON value; `name:type` keys give fields a type."""
    if isinstance(value, bool):
        return boolean(value)
    if isinstance(value, int):
        return Const(t.COMPTIME_INT, value)
    if isinstance(value, float):
        return Const(t.COMPTIME_FLOAT, value)
    if isinstance(value, str):
        return Const(t.STRING, value.encode())
    if isinstance(value, list):
        made = anonymous((), tuple([_from_json(item, node, frame) for item in value]))
        assert isinstance(made, Const)
        return made
    if isinstance(value, dict):
        fields: dict[str, Const] = {}
        for key, item in value.items():
            name, _, kind = key.partition(":")
            fields[name] = _from_json(item, node, frame)
            if kind:
                wanted = _labelled_type(kind, key, node, frame)
                fields[name] = _fitted(fields[name], wanted, node, frame, key)
        return _struct(fields)
    frame.fail(node, "'null' has no value here")
