"""Packed structs and unions: one number, whose fields are read and written by shifts and masks."""

from appliance.csl.program.operands import Constant, Operand
from appliance.csl.program.types import Scalar
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.expressions.evaluate import RULES, coerce, needs_code, operand_of
from appliance.csl.semantics.values import numbers
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import (
    Const,
    Mixed,
    Runtime,
    Value,
    fields_of,
)
from appliance.csl.semantics.values.variables import Pointer
from appliance.csl.syntax import tree


def field_value(whole: Value, at: int, node: tree.Node, frame: Frame) -> Value:
    """A field, by its number, of a packed value."""
    type_ = whole.type
    assert isinstance(type_, t.PackedType)
    field = type_.field_types[at]
    if isinstance(whole, Const):
        if isinstance(field, t.PointerType):
            return Const(field, Pointer(None, whole.value >> type_.shifts[at] & 0xFFFF))
        return Const(field, numbers.known_field(type_, at, whole.value))
    operand, machine = operand_of(whole, node, frame), _machine(type_)
    assert frame.builder is not None
    position = frame.position(node)
    if type_.shifts[at]:
        shift = Constant(machine, type_.shifts[at])
        operand = frame.builder.binary("shr", machine, operand, shift, position)
    wanted, bits = _machine(field), Scalar("uint", t.bit_width(field) or 0)
    if machine != bits:
        operand = frame.builder.convert(operand, machine, bits, position)
    if bits == wanted:
        return Runtime(field, operand)
    return Runtime(field, frame.builder.convert(operand, bits, wanted, position, bitwise=True))


def with_field(whole: Value, at: int, value: Value, node: tree.Node, frame: Frame) -> Value:
    """A packed value with one field, by its number, exchanged."""
    type_ = whole.type
    assert isinstance(type_, t.PackedType)
    width, shift = t.bit_width(type_.field_types[at]) or 0, type_.shifts[at]
    kept = ((1 << type_.bits) - 1) & ~(((1 << width) - 1) << shift)
    if isinstance(whole, Const) and isinstance(value, Const):
        bits = _known_bits(value)
        return Const(type_, whole.value & kept | bits << shift)
    needs_code(node, frame, "an assignment to a run-time variable")
    assert frame.builder is not None
    machine, position = _machine(type_), frame.position(node)
    operand, mask = operand_of(whole, node, frame), Constant(machine, kept)
    rest = frame.builder.binary("and", machine, operand, mask, position)
    field = _placed(value, width, shift, machine, node, frame)
    return Runtime(type_, frame.builder.binary("or", machine, rest, field, position))


def _known_bits(value: Const) -> int:
    """The bits of a known number or pointer."""
    raw = value.value
    if isinstance(raw, Pointer):
        return raw.address.address
    return numbers.bits_of(raw, value.type)


def _placed(
    value: Value, width: int, shift: int, machine: Scalar, node: tree.Node, frame: Frame
) -> Operand:
    """The bits of a field where they belong in the number of type `machine`."""
    if isinstance(value, Const):
        return Constant(machine, _known_bits(value) << shift)
    builder, position = frame.builder, frame.position(node)
    assert builder is not None
    operand, bits = operand_of(value, node, frame), Scalar("uint", width)
    if _machine(value.type) != bits:
        operand = builder.convert(operand, _machine(value.type), bits, position, bitwise=True)
    wide = builder.convert(operand, bits, machine, position) if bits != machine else operand
    if not shift:
        return wide
    return builder.binary("shl", machine, wide, Constant(machine, shift), position)


def packed_value(
    type_: t.PackedType, given: dict[str, Value], node: tree.Node, frame: Frame
) -> Value:
    """A packed struct of all its fields, or a packed union of one; bits beyond it are 0.

    Args:
        given: Fields of the right types by name.
        node: Where it is made.
        frame: The frame there.
    """
    missing = [f"'{name}'" for name in type_.field_names if name not in given]
    if type_.is_union and len(given) != 1:
        frame.fail(node, f"'{type_}' takes one of its fields, got {len(given)}")
    if missing and not type_.is_union:
        frame.fail(node, f"no value for field {', '.join(missing)} of '{type_}'")
    whole: Value = Const(type_, 0)
    for name, value in given.items():
        whole = with_field(whole, type_.index[name], value, node, frame)
    return whole


def _to_packed(value: Value, to: Type, node: tree.Node, frame: Frame) -> Value | None:
    """An anonymous struct in the packed type that is expected."""
    assert isinstance(to, t.PackedType)
    type_ = value.type
    if not isinstance(type_, t.StructType) or type_.identity is not None or type_.is_tuple:
        return None
    if not isinstance(value, Const | Mixed):
        return None
    unknown = [f"'{name}'" for name in type_.field_names if name not in to.index]
    if unknown:
        frame.fail(node, f"type '{to}' has no field {', '.join(unknown)}")
    given = {
        name: coerce(item, to.field_types[to.index[name]], node, frame, f"field '{name}'")
        for name, item in zip(type_.field_names, fields_of(value), strict=True)
    }
    return packed_value(to, given, node, frame)


RULES[t.PackedType] = _to_packed


def _machine(type_: Type) -> Scalar:
    assert isinstance(type_.machine, Scalar), "a packed type and its fields are numbers"
    return type_.machine
