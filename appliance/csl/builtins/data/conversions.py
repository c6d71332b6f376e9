"""`@as`, `@bitcast`, `@ptrcast`, and questions about types."""

from appliance.csl.builtins.registry import (
    argument,
    builtin,
    string_argument,
    type_argument,
)
from appliance.csl.program.types import POINTER, Scalar
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.expressions.access import load
from appliance.csl.semantics.expressions.evaluate import (
    coerce,
    converted,
    evaluate,
    is_integer,
    is_number,
    operand_of,
    rounded,
)
from appliance.csl.semantics.expressions.places import FIELD_PLACE, accessed_part, place_of
from appliance.csl.semantics.values import numbers
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.place_kinds import Place, as_place
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import (
    Const,
    Mixed,
    Runtime,
    Value,
    boolean,
    is_poison,
    type_value,
)
from appliance.csl.semantics.values.variables import Pointer
from appliance.csl.syntax import tree


@builtin("as", 2)
def _as(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    to = type_argument(node, 0, frame)
    value = argument(node, 1, frame, to)
    source = value.type
    if source is to:
        return value
    if isinstance(source, t.EnumType) and isinstance(to, t.EnumType):
        text = f"'@as' does not make a '{to}' of a '{source}'"
        frame.fail(node, f"{text}; convert it to an integer first")
    plain = is_number(source) or source is t.BOOL or isinstance(source, t.EnumType)
    wanted = is_number(to) or to is t.BOOL or isinstance(to, t.EnumType)
    if not (plain and wanted):
        return coerce(value, to, node.arguments[1], frame, "@as")
    if isinstance(value, Const):
        return _known_as(value, to, node, frame)
    if not isinstance(to.machine, Scalar):
        frame.fail(node, f"'@as' to '{to}' is not possible at run time{t.remedy_of(to)}")
    assert isinstance(value, Runtime)
    return converted(value, to, node, frame)


def _known_as(value: Const, to: Type, node: tree.BuiltinCall, frame: Frame) -> Value:
    base = to.base if isinstance(to, t.EnumType) else to
    is_literal = value.type in (t.COMPTIME_FLOAT, t.COMPTIME_INT)
    if is_literal and isinstance(base, t.FloatType):
        return Const(to, rounded(value.value, base, node, frame))
    try:
        return Const(to, numbers.convert(value.value, base))
    except numbers.ArithmeticProblemError as problem:
        frame.fail(node, str(problem))


@builtin("bitcast", 2)
def _bitcast(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    to = type_argument(node, 0, frame)
    value = argument(node, 1, frame)
    if value.type is to:
        return value
    if value.type is t.COMPTIME_INT:
        target = t.int_type(_bits(to, node, frame), False)
        raw = value.value if isinstance(value, Const) else 0
        value = coerce(Const(t.COMPTIME_INT, raw), target, node.arguments[1], frame, "@bitcast")
    source, target_bits = _bits(value.type, node, frame), _bits(to, node, frame)
    if source != target_bits:
        frame.fail(
            node,
            f"'@bitcast' from '{value.type}' ({source} bits) to '{to}' ({target_bits} bits)",
        )
    if isinstance(value, Const):
        return _known_bitcast(value, to)
    operand = operand_of(value, node, frame)
    from_, to_ = value.type.machine, to.machine
    if not isinstance(from_, Scalar) or not isinstance(to_, Scalar):
        frame.fail(node, f"'@bitcast' to '{to}' is not possible at run time{t.remedy_of(to)}")
    if from_ == to_:
        return Runtime(to, operand)
    assert frame.builder is not None
    position = frame.position(node)
    return Runtime(to, frame.builder.convert(operand, from_, to_, position, bitwise=True))


def _known_bitcast(value: Const, to: Type) -> Const:
    raw = value.value
    if isinstance(raw, Pointer):
        if isinstance(to, t.PointerType):
            return Const(to, raw)
        raw = raw.address.address
    bits = numbers.bits_of(raw, value.type)
    if isinstance(to, t.PointerType):
        return Const(to, Pointer(None, bits))
    return Const(to, numbers.of_bits(bits, to))


def _bits(type_: Type, node: tree.BuiltinCall, frame: Frame) -> int:
    if isinstance(type_, t.IntType | t.FloatType):
        return type_.bits
    width = t.bit_width(type_)
    if width is not None:
        return width
    if type_.machine == POINTER:
        return 16
    frame.fail(node, f"'@bitcast' does not apply to '{type_}'")


@builtin("ptrcast", 2)
def _ptrcast(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    to = type_argument(node, 0, frame)
    value = argument(node, 1, frame)
    if not isinstance(to, t.PointerType):
        frame.fail(node.arguments[0], f"'@ptrcast' gives a pointer, not '{to}'")
    if not isinstance(value.type, t.PointerType):
        frame.fail(node.arguments[1], f"'@ptrcast' needs a pointer, got '{value.type}'")
    if isinstance(value, Const):
        return Const(to, value.value)
    assert isinstance(value, Runtime)
    return Runtime(to, value.operand)


@builtin("type_of", 1)
def _type_of(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    with frame.only_typed(node) as aside:
        value = place_of(node.arguments[0], aside)
    if value.type is t.POISON:
        frame.silent()
    return type_value(value.type)


@builtin("is_same_type", 2)
def _is_same_type(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    frame.deprecated(node, "'@is_same_type'; compare types with '=='")
    return boolean(type_argument(node, 0, frame) is type_argument(node, 1, frame))


@builtin("get_int", 1)
@builtin("get_color_id", 1)
def _get_int(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    value = argument(node, 0, frame)
    type_ = value.type
    if is_integer(type_):
        return value
    to: Type
    if isinstance(type_, t.EnumType):
        to = type_.base
    elif isinstance(type_, t.HandleType):
        to = t.U16
    elif isinstance(type_, t.DsrType):
        assert isinstance(value, Const)
        return Const(t.U16, value.value.number)
    else:
        frame.fail(node, f"'@get_int' does not apply to '{type_}'")
    if isinstance(value, Const):
        return Const(to, value.value)
    assert isinstance(value, Runtime)
    return Runtime(to, value.operand)


@builtin("has_field", 2)
def _has_field(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    type_ = place_of(node.arguments[0], frame).type
    name = string_argument(node, 1, frame).decode("utf-8", "replace")
    return boolean(isinstance(type_, t.StructType | t.PackedType) and name in type_.index)


@builtin("field", 2)
def _field(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    return load(_field_place(node, frame), node, frame)


def _field_place(node: tree.BuiltinCall, frame: Frame) -> Place:
    if len(node.arguments) != 2:
        frame.fail(node, f"'@field' takes 2 arguments, got {len(node.arguments)}")
    operand = place_of(node.arguments[0], frame)
    name = string_argument(node, 1, frame).decode("utf-8", "replace")
    type_ = operand.type
    if type_ is t.MODULE:
        value = evaluate(node.arguments[0], frame)
        assert isinstance(value, Const)
        return as_place(value.value.member(name, frame, node.arguments[1].start))
    if not isinstance(type_, t.StructType | t.PackedType) or name not in type_.index:
        frame.fail(node, f"type '{type_}' has no field '{name}'")
    return accessed_part(operand, type_.index[name], node, frame)


FIELD_PLACE.append(_field_place)


@builtin("is_comptime", 0)
def _is_comptime(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    return boolean(frame.builder is None)


@builtin("fp16", 0)
def _fp16(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    return type_value(frame.world.session.half)


@builtin("range", 2, 4)
def _range(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    element = type_argument(node, 0, frame)
    if not is_integer(element):
        frame.fail(node.arguments[0], f"a range is of integers, not '{element}'")
    bounds = [_bound(item, element, frame) for item in node.arguments[1:]]
    if len(bounds) == 1:
        bounds.insert(0, Const(element, 0))
    if len(bounds) == 2:
        bounds.append(Const(element, 1))
    step = bounds[2]
    if isinstance(step, Const) and step.value == 0:
        frame.fail(node.arguments[-1], "the step of a range is zero")
    type_ = t.range_type(element)
    if all(isinstance(bound, Const) for bound in bounds):
        return Const(type_, tuple([bound.value for bound in bounds if isinstance(bound, Const)]))
    return Mixed(type_, tuple(bounds))


def _bound(item: tree.Expression, element: Type, frame: Frame) -> Value:
    """A bound, converted as `@as` does."""
    value = evaluate(item, frame, element)
    if is_poison(value):
        frame.silent()
    if not is_integer(value.type) and not isinstance(value.type, t.EnumType):
        frame.fail(item, f"a bound of a range must be an integer, got '{value.type}'")
    if isinstance(value, Const):
        known: Value = Const(t.COMPTIME_INT, value.value)
        return coerce(known, element, item, frame, "bound") if element is not known.type else known
    if value.type is element:
        return value
    if not isinstance(element.machine, Scalar):
        frame.fail(item, f"a bound of type '{element}' must be known at compile time")
    assert isinstance(value, Runtime)
    return converted(value, element, item, frame)


@builtin("range_start", 1)
@builtin("range_stop", 1)
@builtin("range_step", 1)
def _range_part(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    value = argument(node, 0, frame)
    if not isinstance(value.type, t.RangeType):
        frame.fail(node, f"'@{node.name}' needs a range, got '{value.type}'")
    at = ("range_start", "range_stop", "range_step").index(node.name)
    if isinstance(value, Const):
        return Const(value.type.element, value.value[at])
    assert isinstance(value, Mixed)
    return value.fields[at]


# Questions that `<types>` answers.


@builtin("type_kind", 1)
def _type_kind(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    """`@type_kind(T)`, for libraries: what kind of type, as a string."""
    type_ = _asked_type(node, frame)
    if isinstance(type_, t.IntType):
        name = "int" if type_.signed else "uint"
    elif isinstance(type_, t.StructType | t.PackedType):
        name = "union" if type_.is_union else "struct"
    elif type_ is t.FIFO:
        name = "fifo"
    else:
        name = _KINDS.get(type(type_), type_.name)
    return Const(t.STRING, name.encode())


_KINDS: dict[type, str] = {
    t.FloatType: "float",
    t.EnumType: "enum",
    t.ArrayType: "array",
    t.PointerType: "pointer",
    t.FunctionType: "function",
    t.DsdType: "dsd",
    t.DsrType: "dsr",
    t.HandleType: "handle",
}


@builtin("type_bytes", 1)
def _type_bytes(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    """`@type_bytes(T)`, for libraries: what a value takes in memory."""
    type_ = _asked_type(node, frame)
    if t.is_comptime_only(type_):
        frame.fail(node.arguments[0], f"a value of type '{type_}' is not in memory")
    return Const(t.COMPTIME_INT, t.size_of(type_))


@builtin("type_bits", 1)
def _type_bits(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    """`@type_bits(T)`, for libraries: the width of a number, or of what it takes in memory."""
    type_ = _asked_type(node, frame)
    base = type_.base if isinstance(type_, t.EnumType) else type_
    if isinstance(base, t.IntType | t.FloatType | t.PackedType):
        return Const(t.COMPTIME_INT, base.bits)
    if type_ is t.BOOL:
        return Const(t.COMPTIME_INT, 1)
    if t.is_comptime_only(type_):
        frame.fail(node.arguments[0], f"a value of type '{type_}' has no width")
    return Const(t.COMPTIME_INT, 8 * t.size_of(type_))


def _asked_type(node: tree.BuiltinCall, frame: Frame) -> Type:
    if not frame.module.unit.is_library:
        frame.fail(node, f"there is no builtin '@{node.name}'; import <types>")
    return type_argument(node, 0, frame)
