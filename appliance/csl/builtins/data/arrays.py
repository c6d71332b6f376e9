"""Arrays of one value, and questions about array types."""

from appliance.csl.builtins.registry import argument, builtin, type_argument
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.expressions.access import store
from appliance.csl.semantics.expressions.evaluate import coerce
from appliance.csl.semantics.statements.statements import zero_value
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.place_kinds import Memory
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import (
    Const,
    InMemory,
    Runtime,
    Value,
    anonymous,
    fields_of,
    raw_element,
    type_value,
)
from appliance.csl.syntax import tree


def _array_type(node: tree.BuiltinCall, frame: Frame) -> t.ArrayType:
    type_ = type_argument(node, 0, frame)
    if not isinstance(type_, t.ArrayType):
        frame.fail(node.arguments[0], f"expected an array type, got '{type_}'")
    return type_


@builtin("zeros", 1)
def _zeros(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    type_ = type_argument(node, 0, frame)
    if not isinstance(type_, t.ArrayType):
        frame.fail(node.arguments[0], f"expected an array type, got '{type_}'")
    if type_.element is t.BOOL:
        frame.fail(node, "'@zeros' makes no bools; write '@constants(TYPE, false)'")
    frame.spend_value(node, type_)
    return Const(type_, zero_value(type_))


@builtin("constants", 2)
def _constants(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    type_ = _array_type(node, frame)
    value = argument(node, 1, frame, type_.element)
    value = coerce(value, type_.element, node.arguments[1], frame, "@constants")
    frame.spend_value(node, type_)
    if isinstance(value, Const):
        return Const(type_, [raw_element(value, type_.element)] * type_.count)
    assert isinstance(value, Runtime)
    assert frame.builder is not None
    position = frame.position(node)
    variable = frame.world.local_variable(frame.builder, "constants", type_, position)
    place = Memory(type_, variable, None, 0, is_const=False)
    for at in range(type_.count):
        target = place.part(type_.element, at * t.stride_of(type_.element))
        store(target, value, node, frame)
    return InMemory(type_, place.base, 0)


@builtin("dimensions", 1)
def _dimensions(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    dimensions = _array_type(node, frame).dimensions
    return Const(t.array_type((len(dimensions),), t.U32), list(dimensions))


@builtin("element_count", 1)
def _element_count(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    return Const(t.U32, _array_type(node, frame).count)


@builtin("element_type", 1)
def _element_type(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    return type_value(_array_type(node, frame).element)


@builtin("rank", 1)
def _rank(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    return Const(t.U16, len(_array_type(node, frame).dimensions))


@builtin("concat_structs", 2)
def _concat_structs(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    names: list[str] = []
    values: list[Value] = []
    kinds: set[bool] = set()
    for at in (0, 1):
        value = argument(node, at, frame)
        if value.type is t.VOID:
            continue
        type_ = value.type
        if not isinstance(type_, t.StructType) or not isinstance(value, Const):
            frame.fail(node.arguments[at], f"expected a known struct, got '{type_}'")
        if type_.field_types:
            kinds.add(type_.is_tuple)
        for name in type_.field_names:
            if name in names:
                frame.fail(node.arguments[at], f"field '{name}' is in both structs")
        names += type_.field_names
        values += fields_of(value)
    if len(kinds) > 1:
        frame.fail(node, "a struct with names and a tuple cannot be joined")
    return anonymous(tuple(names), tuple(values))
