"""Evaluates an expression to a value, and converts a value to the type that its place wants."""

import math
from collections.abc import Callable
from typing import Any

from appliance.csl.program.operands import (
    Constant,
    DescriptorConstant,
    FunctionAddress,
    Operand,
)
from appliance.csl.program.types import Scalar
from appliance.csl.semantics.context.frames import Frame, FunctionValue
from appliance.csl.semantics.context.texts import text_of
from appliance.csl.semantics.values import numbers
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.unions import has_plain_bits, union_of
from appliance.csl.semantics.values.values import (
    POISON,
    Const,
    InMemory,
    Mixed,
    Runtime,
    Value,
    fields_of,
    is_poison,
    raw_element,
    struct_value,
)
from appliance.csl.semantics.values.variables import Pointer
from appliance.csl.syntax import tree

# Each handler takes its own kind of node, which a common signature cannot say.
Handler = Callable[[Any, Frame, Type | None], Value]
HANDLERS: dict[type, Handler] = {}


def handles(kind: type) -> Callable[[Handler], Handler]:
    """Registers the function that evaluates a kind of expression."""

    def register(handler: Handler) -> Handler:
        HANDLERS[kind] = handler
        return handler

    return register


def evaluate(node: tree.Expression, frame: Frame, expected: Type | None = None) -> Value:
    """The value of an expression; `expected` is what its place wants, if that is known.

    The result need not have the expected type: `coerce` decides whether it fits.
    """
    return HANDLERS[node.__class__](node, frame, expected)


def evaluate_as(node: tree.Expression, frame: Frame, type_: Type, what: str) -> Value:
    """The value of an expression in a given type."""
    return coerce(evaluate(node, frame, type_), type_, node, frame, what)


def known(node: tree.Expression, frame: Frame, what: str, expected: Type | None = None) -> Const:
    """The value of an expression that must be known at compile time."""
    where = frame if frame.builder is None else where_known(node, frame)
    value = evaluate(node, where, expected)
    if value.__class__ is not Const:
        frame.fail(node, f"{what} must be known at compile time")
    if is_poison(value):
        frame.silent()
    return value


def where_known(node: tree.Expression, frame: Frame) -> Frame:
    """Where an expression that must be known is evaluated: what it calls runs at compile time."""
    if frame.builder is None:
        return frame
    return frame.comptime() if tree.has_function_call(node) else frame


def is_integer(type_: Type) -> bool:
    """Whether a type is `comptime_int` or an integer of fixed width."""
    return type_ is t.COMPTIME_INT or isinstance(type_, t.IntType)


def is_number(type_: Type) -> bool:
    """Whether a type is an integer or float."""
    return (
        type_ is t.COMPTIME_INT
        or type_ is t.COMPTIME_FLOAT
        or isinstance(type_, t.IntType | t.FloatType)
    )


def type_of_node(node: tree.Expression, frame: Frame) -> Type:
    """The type that an expression names."""
    value = evaluate(node, frame.comptime())
    if value.type is not t.TYPE:
        if is_poison(value):
            frame.silent()
        frame.fail(node, f"expected a type, got a value of type '{value.type}'")
    found: Type = value.value  # type: ignore[union-attr] # types are always known
    return found


def coerce(value: Value, to: Type, node: tree.Node, frame: Frame, what: str) -> Value:
    """A value in the type that its place wants, or an error.

    Changes of type that need no `@as`: numbers known at compile time that fit, wider numbers,
    pointers to arrays, anonymous structs, functions to pointers.
    """
    type_ = value.type
    if type_ is to:
        return value
    if type_ is t.POISON or to is t.POISON:
        return POISON
    result = _coerced(value, to, node, frame)
    if result is None:
        frame.fail(node, f"{what}: expected type '{to}', got: '{type_}'")
    return result


def _coerced(value: Value, to: Type, node: tree.Node, frame: Frame) -> Value | None:
    type_ = value.type
    if type_ is t.COMPTIME_INT or type_ is t.COMPTIME_FLOAT:
        assert isinstance(value, Const)
        return _adapted(value, to, node, frame)
    rule = RULES.get(to.__class__)
    if rule is not None:
        return rule(value, to, node, frame)
    if to is t.COMPTIME_STRUCT and isinstance(type_, t.StructType):
        return value
    if to is t.COMPTIME_STRUCT and type_ is t.VOID:
        return value
    return None


def _adapted(value: Const, to: Type, node: tree.Node, frame: Frame) -> Value | None:
    """A `comptime_int` or `comptime_float` in another type."""
    number = value.value
    if isinstance(to, t.IntType):
        if value.type is t.COMPTIME_FLOAT:
            return None
        if not to.low <= number <= to.high:
            frame.fail(node, f"value {number} does not fit type '{to}' ({to.low} to {to.high})")
        return Const(to, number)
    if isinstance(to, t.FloatType) or to is t.COMPTIME_FLOAT:
        if value.type is t.COMPTIME_INT and to is not t.COMPTIME_FLOAT:
            frame.warn(node, f"an integer becomes '{to}' here; write @as({to}, {number})")
        return Const(to, rounded(number, to, node, frame))
    return None


def rounded(number: float, to: Type, node: tree.Node, frame: Frame) -> float:
    """A known number as the nearest one of a float type; an error where that is infinite."""
    found: float = numbers.convert(number, to)
    if math.isinf(found) and not (isinstance(number, float) and math.isinf(number)):
        frame.fail(node, f"operand overflowed precision of {to}: {number:g}")
    return found


def _to_int(value: Value, to: Type, node: tree.Node, frame: Frame) -> Value | None:
    assert isinstance(to, t.IntType)
    type_ = value.type
    if not isinstance(type_, t.IntType):
        return None
    if isinstance(value, Const) and to.low <= value.value <= to.high:
        return Const(to, value.value)
    if to.low <= type_.low and type_.high <= to.high:
        return _widened(value, to, node, frame)
    return None


def _to_float(value: Value, to: Type, node: tree.Node, frame: Frame) -> Value | None:
    assert isinstance(to, t.FloatType)
    type_ = value.type
    if isinstance(type_, t.FloatType) and to is t.F32:
        return _widened(value, to, node, frame)
    return None


def _widened(value: Value, to: Type, node: tree.Node, frame: Frame) -> Value:
    if isinstance(value, Const):
        return Const(to, numbers.convert(value.value, to))
    assert isinstance(value, Runtime)
    return converted(value, to, node, frame)


def converted(value: Runtime, to: Type, node: tree.Node, frame: Frame) -> Runtime:
    """`@as(to, value)` of a run-time number."""
    builder = frame.builder
    assert builder is not None
    source, target = value.type.machine, to.machine
    assert isinstance(source, Scalar)
    assert isinstance(target, Scalar)
    if source == target:
        return Runtime(to, value.operand)
    return Runtime(to, builder.convert(value.operand, source, target, frame.position(node)))


def _to_pointer(value: Value, to: Type, node: tree.Node, frame: Frame) -> Value | None:
    assert isinstance(to, t.PointerType)
    type_ = value.type
    if isinstance(to.target, t.FunctionType) and not to.many:
        inner = _to_function(value, to.target, node, frame)
        if inner is not None and not to.const:
            frame.fail(node, f"a pointer to a function is constant; write '*const {to.target}'")
        return None if inner is None else _retyped(inner, to)
    if not isinstance(type_, t.PointerType) or (type_.const and not to.const):
        return None
    source, target = type_.target, to.target
    same = type_.many == to.many and source is target
    decays = (
        not type_.many and to.many and isinstance(source, t.ArrayType) and source.element is target
    )
    wraps = (
        not (type_.many or to.many)
        and isinstance(target, t.ArrayType)
        and target.dimensions == (1,)
        and target.element is source
    )
    opaque = target is t.ANYOPAQUE
    return _retyped(value, to) if same or decays or wraps or opaque else None


def _retyped(value: Value, to: Type) -> Value:
    if isinstance(value, Const):
        return Const(to, value.value)
    assert isinstance(value, Runtime)
    return Runtime(to, value.operand)


def _to_function(value: Value, to: Type, node: tree.Node, frame: Frame) -> Value | None:
    assert isinstance(to, t.FunctionType)
    type_ = value.type
    if isinstance(type_, t.PointerType) and isinstance(type_.target, t.FunctionType):
        type_ = type_.target
    if type_ is to:
        return _retyped(value, to)
    return None


def _to_struct(value: Value, to: Type, node: tree.Node, frame: Frame) -> Value | None:
    """An anonymous struct in the named type that is expected."""
    assert isinstance(to, t.StructType)
    type_ = value.type
    if type_ is t.VOID and not to.field_types:
        return struct_value(to, ())
    if not isinstance(type_, t.StructType) or type_.identity is not None:
        return None
    if not isinstance(value, Const | Mixed) or type_.is_tuple != to.is_tuple:
        return None
    given = fields_of(value)
    if to.is_union:
        return _to_union(type_, given, to, node, frame)
    if type_.is_tuple:
        if len(given) != len(to.field_types):
            return None
        pairs = zip(given, to.field_types, strict=True)
        return struct_value(to, tuple([coerce(v, f, node, frame, "element") for v, f in pairs]))
    unknown = [name for name in type_.field_names if name not in to.index]
    missing = [name for name in to.field_names if name not in type_.index]
    if unknown or missing:
        word, names = ("has no", unknown) if unknown else ("needs", missing)
        fields = ", ".join(f"'{name}'" for name in names)
        frame.fail(node, f"type '{to}' {word} field {fields}")
    ordered = [
        coerce(given[type_.index[name]], wanted, node, frame, f"field '{name}'")
        for name, wanted in zip(to.field_names, to.field_types, strict=True)
    ]
    return struct_value(to, tuple(ordered))


def _to_union(
    type_: t.StructType, given: tuple[Value, ...], to: t.StructType, node: tree.Node, frame: Frame
) -> Value:
    """`.{ .field = value }` as a union."""
    if len(given) != 1 or type_.is_tuple:
        frame.fail(node, f"a union is made of one field, got {len(given)}")
    at = to.index.get(type_.field_names[0])
    if at is None:
        frame.fail(node, f"type '{to}' has no field '{type_.field_names[0]}'")
    return union_value(to, at, given[0], node, frame)


def union_value(to: t.StructType, at: int, value: Value, node: tree.Node, frame: Frame) -> Value:
    """A union of which a field is given: known, or in memory."""
    name = to.field_names[at]
    value = coerce(value, to.field_types[at], node, frame, f"field '{name}'")
    if isinstance(value, Const) and has_plain_bits(to):
        return union_of(to, at, value)
    if frame.builder is None:
        frame.fail(node, f"'{to}' has fields whose bits are not known at compile time")
    return IN_MEMORY[0](to, [(at, value)], node, frame)


IN_MEMORY: list[Callable[[t.StructType, list[tuple[int, Value]], tree.Node, Frame], Value]] = []
"""Writes the given fields of a struct or union to a variable; `initializers` puts it here."""


def _to_array(value: Value, to: Type, node: tree.Node, frame: Frame) -> Value | None:
    """A tuple as an array."""
    assert isinstance(to, t.ArrayType)
    type_ = value.type
    is_tuple = isinstance(type_, t.StructType) and type_.is_tuple
    if not is_tuple or not isinstance(value, Const) or len(to.dimensions) != 1:
        return None
    if len(value.value) != to.count:
        return None
    items = [coerce(item, to.element, node, frame, "element") for item in value.value]
    if any(not isinstance(item, Const) for item in items):
        return None
    return Const(to, [raw_element(item, to.element) for item in items if isinstance(item, Const)])


RULES: dict[type, Callable[[Value, Type, tree.Node, Frame], Value | None]] = {
    t.IntType: _to_int,
    t.FloatType: _to_float,
    t.PointerType: _to_pointer,
    t.FunctionType: _to_function,
    t.StructType: _to_struct,
    t.ArrayType: _to_array,
}
"""How a value becomes one of a kind of types; None where it does not without `@as`."""


def operand_of(value: Value, node: tree.Node, frame: Frame) -> Operand:
    """A scalar, pointer or DSD value as an operand of an instruction."""
    if isinstance(value, Runtime):
        return value.operand
    assert isinstance(value, Const), f"a value of type {value.type} is taken apart before"
    return _constant_operand(value, node, frame)


def _constant_operand(value: Const, node: tree.Node, frame: Frame) -> Operand:
    type_, raw = value.type, value.value
    if type_ is t.POISON:
        frame.silent()
    if isinstance(raw, Pointer):
        return raw.address
    if isinstance(raw, FunctionValue):
        return FunctionAddress(frame.world.function_index(raw, frame, node))
    if isinstance(type_, t.DsdType):
        return DescriptorConstant(raw)
    machine = type_.machine
    if type_ is t.COMPTIME_INT or type_ is t.COMPTIME_FLOAT:
        frame.fail(node, f"'{text_of(value)}' needs a type at run time; write @as(TYPE, ...)")
    assert isinstance(machine, Scalar), f"a value of type {type_} is refused before"
    return Constant(machine, raw)


def materialized(value: Value, node: tree.Node, frame: Frame) -> Value:
    """A known array or struct as one in memory, where code can reach it."""
    if isinstance(value, Const) and isinstance(value.type, t.ArrayType | t.StructType):
        variable = frame.world.pooled(value, frame, node)
        return InMemory(value.type, Pointer(variable, 0).address, 0)
    return value


def needs_code(node: tree.Node, frame: Frame, what: str) -> None:
    """Fails where something that runs is evaluated at compile time."""
    if frame.builder is None:
        frame.fail(node, f"{what} is not allowed at compile time")
