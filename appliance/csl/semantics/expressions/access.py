"""Loads values from places (variables, fields, elements), and stores values in them."""

from typing import Any

from appliance.csl.program.instructions import Copy
from appliance.csl.program.operands import Register
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.expressions.evaluate import materialized, needs_code, operand_of
from appliance.csl.semantics.expressions.packed import field_value, with_field
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.place_kinds import (
    Bits,
    Cell,
    Fields,
    Fixed,
    InRegister,
    Memory,
    Place,
    as_place,
    part_of,
)
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.unions import union_of
from appliance.csl.semantics.values.values import (
    Const,
    InMemory,
    Mixed,
    Runtime,
    Value,
    element_value,
    raw_element,
    struct_value,
)
from appliance.csl.syntax import tree


def load(operand: Place, node: tree.Node, frame: Frame) -> Value:
    """The value that a place holds."""
    match operand:
        case Fixed(value=value):
            return value
        case Cell():
            if operand.type.machine is None:
                frame.spend_value(node, operand.type)
            return _load_cell(operand)
        case InRegister(type=type_, register=register):
            return _in_register(type_, register, node, frame)
        case Fields(places=places):
            assert isinstance(operand.type, t.StructType)
            return struct_value(operand.type, tuple([load(p, node, frame) for p in places]))
        case Memory():
            return _load_memory(operand, node, frame)
        case Bits(container=container, at=at):
            return field_value(load(container, node, frame), at, node, frame)


def _in_register(type_: Type, register: Register, node: tree.Node, frame: Frame) -> Value:
    if frame.builder is None:
        frame.fail(node, "the value of a run-time variable is not known at compile time")
    return Runtime(type_, register)


def stable(value: Value, node: tree.Node, frame: Frame) -> Value:
    """A value that later assignments to variables do not change: what they hold is copied."""
    if isinstance(value, Mixed):
        assert isinstance(value.type, t.StructType)
        parts = [stable(field, node, frame) for field in value.fields]
        return struct_value(value.type, tuple(parts))
    builder = frame.builder
    if builder is not None and isinstance(value, InMemory) and value.is_shared:
        place = Memory(value.type, None, value.base, value.offset, is_const=True)
        return taken_out(place, "copy", node, frame)
    if builder is None or not isinstance(value, Runtime):
        return value
    operand = value.operand
    if not isinstance(operand, Register) or not builder.names[operand.index]:
        return value
    copy = builder.register(builder.registers[operand.index])
    builder.move(copy, operand, frame.position(node))
    return Runtime(value.type, copy)


def taken_out(place: Memory, name: str, node: tree.Node, frame: Frame) -> Value:
    """What lies in memory, copied before something overwrites it."""
    type_ = place.type
    if isinstance(type_, t.StructType) and not type_.is_union:
        parts = []
        for at in range(len(type_.field_types)):
            part = part_of(place, at)
            assert isinstance(part, Memory)
            is_plain = part.type.machine is not None
            parts.append(
                load(part, node, frame) if is_plain else taken_out(part, name, node, frame)
            )
        return struct_value(type_, tuple(parts))
    builder, position = frame.builder, frame.position(node)
    assert builder is not None
    variable = frame.world.local_variable(builder, name, type_, position)
    target = Memory(type_, variable, None, 0, is_const=False)
    store(target, InMemory(type_, place.base, place.offset), node, frame)
    return InMemory(type_, target.base, 0)


def _load_cell(cell: Cell) -> Const:
    raw = cell.content()
    return Const(cell.type, copied(cell.type, raw.value if raw.__class__ is Const else raw))


def copied(type_: Type, raw: Any) -> Any:  # noqa: ANN401 - raw values, see Const
    """A raw value that shares no array with another."""
    if isinstance(type_, t.ArrayType):
        element = type_.element
        if isinstance(element, t.StructType):
            return [copied(element, item) for item in raw]
        if element is t.COMPTIME_STRUCT:
            return [Const(item.type, copied(item.type, item.value)) for item in raw]
        return list(raw)
    if isinstance(type_, t.StructType):
        return tuple([item.__class__(item.type, copied(item.type, item.value)) for item in raw])
    return raw


def _load_memory(place: Memory, node: tree.Node, frame: Frame) -> Value:
    if frame.builder is None:
        constant = _constant_content(place)
        if constant is not None:
            return constant
        name = place.variable.name if place.variable else "memory"
        frame.fail(node, f"the value of run-time variable '{name}' is not known at compile time")
    machine = place.type.machine
    if machine is None:
        is_shared = place.variable is None or not place.variable.is_const
        return InMemory(place.type, place.base, place.offset, is_shared=is_shared)
    register = frame.builder.load(machine, place.base, place.offset, frame.position(node))
    return Runtime(place.type, register)


def _constant_content(place: Memory) -> Const | None:
    """The content of a constant, read at compile time through a pointer."""
    variable = place.variable
    if variable is None or not variable.is_const or variable.initial is None:
        return None
    if place.offset == 0 and place.type is variable.type:
        return variable.initial
    type_ = variable.type
    if isinstance(type_, t.ArrayType) and type_.element is place.type:
        at, rest = divmod(place.offset, t.stride_of(type_.element))
        if rest == 0 and 0 <= at < type_.count:
            return element_value(place.type, variable.initial.value[at])
    return None


def store(place: Place, value: Value, node: tree.Node, frame: Frame) -> None:
    """Writes a value, which has the place's type, to a place."""
    match place:
        case Fixed():
            frame.fail(node, "cannot assign to a constant")
        case Cell():
            _store_cell(place, value, node, frame)
        case InRegister(register=register):
            needs_code(node, frame, "an assignment to a run-time variable")
            assert frame.builder is not None
            frame.builder.move(register, operand_of(value, node, frame), frame.position(node))
        case Fields(places=places):
            source = as_place(value)
            parts = [load(part_of(source, at), node, frame) for at in range(len(places))]
            for part, item in zip(places, [stable(v, node, frame) for v in parts], strict=True):
                store(part, item, node, frame)
        case Memory():
            _store_memory(place, value, node, frame)
        case Bits(container=container, at=at):
            whole = load(container, node, frame)
            store(container, with_field(whole, at, value, node, frame), node, frame)


def _store_cell(cell: Cell, value: Value, node: tree.Node, frame: Frame) -> None:
    if not isinstance(value, Const):
        frame.fail(node, "a compile-time variable needs a value known at compile time")
    if frame.nesting > cell.nesting:
        text = "a compile-time variable does not change where a run-time condition or loop decides"
        frame.fail(node, text)
    if value.type.machine is None:
        frame.spend_value(node, value.type)
    whole = cell.box[0]
    new = Const(value.type, copied(value.type, value.value))
    cell.box[0] = _replaced(whole, cell.path, new)


def _replaced(value: Const, path: tuple[int, ...], new: Const) -> Const:
    """A value with one part exchanged; arrays are changed in place."""
    if not path:
        return new
    at, rest = path[0], path[1:]
    type_ = value.type
    if isinstance(type_, t.ArrayType):
        element = element_value(type_.element, value.value[at])
        value.value[at] = raw_element(_replaced(element, rest, new), type_.element)
        return value
    assert isinstance(type_, t.StructType)
    changed = _replaced(value.value[at], rest, new)
    if type_.is_union:
        return union_of(type_, at, changed)
    return Const(type_, (*value.value[:at], changed, *value.value[at + 1 :]))


def _store_memory(place: Memory, value: Value, node: tree.Node, frame: Frame) -> None:
    if place.is_const:
        frame.fail(node, "cannot assign to a constant")
    needs_code(node, frame, "an assignment to a run-time variable")
    builder, position = frame.builder, frame.position(node)
    assert builder is not None
    machine = place.type.machine
    if machine is not None:
        operand = operand_of(value, node, frame)
        builder.store(place.base, place.offset, operand, machine, position)
        return
    if isinstance(value, Mixed):
        for at, part in enumerate(value.fields):
            target = part_of(place, at)
            store(target, part, node, frame)
        return
    source = materialized(value, node, frame)
    assert isinstance(source, InMemory)
    to = builder.address(place.base, place.offset, position)
    origin = builder.address(source.base, source.offset, position)
    builder.emit(Copy(to, origin, t.size_of(place.type), position))
