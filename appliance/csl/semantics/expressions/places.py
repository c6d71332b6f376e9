"""Finds the place that an expression names: for assignment, `&`, a field or an index."""

from collections.abc import Callable
from functools import partial
from typing import Any

from appliance.csl.diagnostics import did_you_mean
from appliance.csl.program.instructions import CheckIndex
from appliance.csl.program.operands import Constant, Operand
from appliance.csl.program.types import POINTER, Scalar
from appliance.csl.semantics.context.frames import Frame, Scope
from appliance.csl.semantics.expressions.access import load
from appliance.csl.semantics.expressions.evaluate import (
    evaluate,
    is_integer,
    known,
    needs_code,
    operand_of,
)
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
from appliance.csl.semantics.values.values import (
    Const,
    InMemory,
    Runtime,
    Value,
    element_value,
    is_poison,
)
from appliance.csl.semantics.values.variables import Pointer
from appliance.csl.syntax import tree

UNKNOWN_LENGTH = 1 << 30
"""The dimension of what a `[*]T` points to."""


def place_of(node: tree.Expression, frame: Frame) -> Place:
    """The place that an expression names; a value in brackets so to speak if it names none."""
    find = PLACES.get(node.__class__)
    if find is not None:
        return find(node, frame)
    if isinstance(node, tree.BuiltinCall) and node.name == "field":
        return FIELD_PLACE[0](node, frame)
    return as_place(evaluate(node, frame))


FIELD_PLACE: list[Callable[[tree.BuiltinCall, Frame], Place]] = []
"""`@field(s, "n")` as a place; the builtin's module puts it here."""


def _name(node: tree.Name, frame: Frame) -> Place:
    binding = frame.locals.get(node.name)
    if binding is not None:
        return as_place(binding)
    found = frame.module.lookup(node.name, frame, node)
    if isinstance(found, Const):
        is_declared = node.name in frame.module.unit.declarations
        return _constant(found, frame.module, node.name) if is_declared else Fixed(found)
    return as_place(found)


def _constant(value: Const, module: Scope, name: str) -> Fixed:
    return Fixed(value, partial(module.constant_variable, name))


def _dereference(node: tree.Dereference, frame: Frame) -> Place:
    pointer = evaluate(node.operand, frame)
    type_ = pointer.type
    if is_poison(pointer):
        frame.silent()
    if not isinstance(type_, t.PointerType):
        frame.fail(node, f"'.*' needs a pointer, got '{type_}'")
    if type_.many:
        frame.fail(node, f"'.*' does not apply to '{type_}'; use an index")
    if isinstance(type_.target, t.FunctionType):
        return as_place(pointer)  # A function is called through its pointer.
    return pointee(pointer, node, frame)


def pointee(pointer: Value, node: tree.Node, frame: Frame) -> Memory:
    """What a pointer points to."""
    type_ = pointer.type
    assert isinstance(type_, t.PointerType)
    if isinstance(pointer, Const):
        target: Pointer = pointer.value
        if target.variable is not None:
            return Memory(type_.target, target.variable, None, target.offset, is_const=type_.const)
    base = operand_of(pointer, node, frame)
    return Memory(type_.target, None, base, 0, is_const=type_.const)


def _member(node: tree.Member, frame: Frame) -> Place:
    operand = place_of(node.operand, frame)
    if isinstance(operand, Fixed) and operand.type is t.MODULE:
        module = _module_of(operand.value, frame)
        binding = module.member(node.name, frame, node.name_start)
        if isinstance(binding, Const):
            return _constant(binding, module, node.name)
        return as_place(binding)
    if operand.type is t.TYPE or operand.type is t.POISON:
        return as_place(evaluate(node, frame))
    return field_place(operand, node, frame)


def _module_of(value: Value, frame: Frame) -> Scope:
    assert isinstance(value, Const)
    module: Scope = value.value
    return module


def field_place(operand: Place, node: tree.Member, frame: Frame) -> Place:
    """A field of a struct."""
    type_ = operand.type
    if isinstance(type_, t.PointerType) and isinstance(type_.target, t.StructType | t.PackedType):
        frame.fail(node, f"'{type_}' is a pointer; write '.*.{node.name}'")
    if not isinstance(type_, t.StructType | t.PackedType):
        frame.fail(node, f"type '{type_}' has no member '{node.name}'")
    at = type_.index.get(node.name)
    if at is None:
        near = did_you_mean(node.name, type_.field_names)
        span = (node.name_start, node.end)
        frame.fail(span, f"type '{type_}' has no field '{node.name}'{near}")
    return accessed_part(operand, at, node, frame)


def accessed_part(operand: Place, at: int, node: tree.Node, frame: Frame) -> Place:
    """A field by its number; of a plain union that is known, the active one."""
    type_ = operand.type
    if isinstance(type_, t.StructType) and type_.is_union:
        _check_active(operand, type_, at, node, frame)
    return part_of(operand, at)


def _check_active(
    operand: Place, type_: t.StructType, at: int, node: tree.Node, frame: Frame
) -> None:
    if isinstance(operand, Cell):
        content = operand.content()
        fields = content.value if isinstance(content, Const) else content
    elif isinstance(operand, Fixed) and isinstance(operand.value, Const):
        fields = operand.value.value
    else:
        return
    if not fields[at].is_inactive:
        return
    active = next(i for i, field in enumerate(fields) if not field.is_inactive)
    frame.fail(
        node,
        f"field '{type_.field_names[at]}' of a union whose active field is "
        f"'{type_.field_names[active]}'; assign a whole union, or make it 'extern' or 'packed'",
    )


def _index(node: tree.Index, frame: Frame) -> Place:
    operand = place_of(node.operand, frame)
    type_ = operand.type
    if type_ is t.POISON:
        frame.silent()
    if isinstance(type_, t.StructType) and type_.is_tuple:
        return _tuple_element(operand, type_, node, frame)
    if isinstance(type_, t.PointerType):
        return _through_pointer(operand, type_, node, frame)
    if not isinstance(type_, t.ArrayType):
        frame.fail(node, f"type '{type_}' has no elements")
    return element_of(operand, indices_of(node, type_, frame), node, frame)


def _tuple_element(operand: Place, type_: t.StructType, node: tree.Index, frame: Frame) -> Place:
    if len(node.indices) != 1:
        frame.fail(node, "a tuple takes one index")
    at = known(node.indices[0], frame, "the index of a tuple").value
    if not isinstance(at, int) or not 0 <= at < len(type_.field_types):
        frame.fail(node.indices[0], f"index {at} of a tuple of {len(type_.field_types)}")
    return part_of(operand, at)


def _through_pointer(operand: Place, type_: t.PointerType, node: tree.Index, frame: Frame) -> Place:
    pointer = load(operand, node, frame)
    if type_.many:
        if len(node.indices) != 1:
            frame.fail(node, f"'{type_}' takes one index, got {len(node.indices)}")
        array = pointee(pointer, node, frame)
        array.type = t.array_type((UNKNOWN_LENGTH,), type_.target)
        return element_of(array, indices_of(node, array.type, frame), node, frame)
    if isinstance(type_.target, t.ArrayType):
        array = pointee(pointer, node, frame)
        return element_of(array, indices_of(node, type_.target, frame), node, frame)
    frame.fail(node, f"'{type_}' points to one value; write '.*'")


def indices_of(node: tree.Index, type_: t.ArrayType, frame: Frame) -> list[Value]:
    """The indices of an access, checked against the array's shape."""
    if len(node.indices) != len(type_.dimensions):
        rank = len(type_.dimensions)
        frame.fail(node, f"'{type_}' takes {rank} indices, got {len(node.indices)}")
    found: list[Value] = []
    for item, dimension in zip(node.indices, type_.dimensions, strict=True):
        value = evaluate(item, frame)
        if not is_integer(value.type):
            if is_poison(value):
                frame.silent()
            if not isinstance(value.type, t.EnumType):
                frame.fail(item, f"an index must be an integer, got '{value.type}'")
        in_range = dimension == UNKNOWN_LENGTH or (
            isinstance(value, Const) and 0 <= value.value < dimension
        )
        if isinstance(value, Const) and not in_range:
            frame.fail(item, f"index {value.value} is outside '{type_}' (0 to {dimension - 1})")
        found.append(value)
    return found


def element_of(operand: Place, indices: list[Value], node: tree.Node, frame: Frame) -> Place:
    """An element of an array."""
    type_ = operand.type
    assert isinstance(type_, t.ArrayType)
    flat = _flat_known(type_, indices)
    if flat is not None:
        return _known_element(operand, type_, flat, frame, node)
    memory = in_memory(operand, node, frame)
    needs_code(node, frame, "an index that is not known")
    _check_indices(type_, indices, node, frame)
    index = _flat_index(type_, indices, node, frame)
    stride = t.stride_of(type_.element)
    builder, position = frame.builder, frame.position(node)
    assert builder is not None
    if stride != 1:
        index = builder.binary("mul", POINTER, index, Constant(POINTER, stride), position)
    base = builder.address(memory.base, memory.offset, position)
    address = builder.binary("add", POINTER, base, index, position)
    return Memory(type_.element, None, address, 0, is_const=memory.is_const)


def _check_indices(type_: t.ArrayType, indices: list[Value], node: tree.Node, frame: Frame) -> None:
    """Has a simulator check the indices that are not known, dimension by dimension."""
    builder = frame.builder
    assert builder is not None
    named = node.operand if isinstance(node, tree.Index) else node
    name = frame.module.unit.source.text[named.start : named.end]
    for index, dimension in zip(indices, type_.dimensions, strict=True):
        machine = index.type.machine
        if isinstance(index, Const) or dimension == UNKNOWN_LENGTH:
            continue
        assert isinstance(machine, Scalar)
        operand = operand_of(index, node, frame)
        builder.emit(CheckIndex(operand, machine, dimension, name, frame.position(node)))


def _flat_known(type_: t.ArrayType, indices: list[Value]) -> int | None:
    flat = 0
    for index, dimension in zip(indices, type_.dimensions, strict=True):
        if not isinstance(index, Const):
            return None
        flat = flat * dimension + index.value
    return flat


def _known_element(
    operand: Place, type_: t.ArrayType, flat: int, frame: Frame, node: tree.Node
) -> Place:
    if isinstance(operand, Cell):
        return Cell(type_.element, operand.box, (*operand.path, flat), operand.nesting)
    if isinstance(operand, Fixed) and isinstance(operand.value, Const):
        return Fixed(element_value(type_.element, operand.value.value[flat]))
    memory = in_memory(operand, node, frame)
    return memory.part(type_.element, flat * t.stride_of(type_.element))


def _flat_index(type_: t.ArrayType, indices: list[Value], node: tree.Node, frame: Frame) -> Operand:
    """The position of an element in row-major order, as a 16-bit number."""
    builder, position = frame.builder, frame.position(node)
    assert builder is not None
    total: Operand | None = None
    for index, dimension in zip(indices, type_.dimensions, strict=True):
        if isinstance(index, Const):
            current: Operand = Constant(POINTER, index.value & 0xFFFF)
        else:
            operand = operand_of(index, node, frame)
            source = index.type.machine
            assert isinstance(source, Scalar)
            current = (
                operand
                if source == POINTER
                else builder.convert(operand, source, POINTER, position)
            )
        if total is None:
            total = current
        else:
            size = Constant(POINTER, dimension & 0xFFFF)
            scaled = builder.binary("mul", POINTER, total, size, position)
            total = builder.binary("add", POINTER, scaled, current, position)
    assert total is not None
    return total


def in_memory(operand: Place, node: tree.Node, frame: Frame) -> Memory:
    """A place as one in memory; a known constant is put there."""
    if isinstance(operand, Memory):
        return operand
    if isinstance(operand, Fixed):
        value = operand.value
        if isinstance(value, InMemory):
            return Memory(value.type, None, value.base, value.offset, is_const=True)
        is_placeable = isinstance(value, Const) and not t.is_comptime_only(value.type)
        if is_placeable and operand.variable is not None:
            return Memory(value.type, operand.variable(), None, 0, is_const=True)
        if isinstance(value, Const) and is_placeable:
            placed = frame.world.pooled(value, frame, node)
            return Memory(value.type, placed, None, 0, is_const=True)
    if isinstance(operand, Bits):
        frame.fail(node, f"a field of '{operand.container.type}' is bits of it, without an address")
    frame.fail(node, f"a value of type '{operand.type}' has no address")


def address_of(operand: Place, node: tree.Node, frame: Frame) -> Value:
    """`&place`."""
    memory = in_memory(operand, node, frame)
    type_ = t.pointer_type(memory.type, const=memory.is_const)
    if memory.variable is not None:
        return Const(type_, Pointer(memory.variable, memory.offset))
    needs_code(node, frame, "the address of a local variable")
    assert frame.builder is not None
    return Runtime(type_, frame.builder.address(memory.base, memory.offset, frame.position(node)))


def new_variable(type_: Type, name: str, node: tree.Node, frame: Frame) -> Place:
    """A local run-time variable: in a register if nothing takes its address."""
    builder = frame.builder
    assert builder is not None
    if type_.machine is not None and name not in frame.memory_locals:
        return InRegister(type_, builder.register(type_.machine, name))
    if isinstance(type_, t.StructType) and not type_.is_union and name not in frame.memory_locals:
        places = [
            new_variable(field, f"{name}.{at}", node, frame)
            for at, field in enumerate(type_.field_types)
        ]
        return Fields(type_, places)
    variable = frame.world.local_variable(builder, name, type_, frame.position(node))
    return Memory(type_, variable, None, 0, is_const=False)


PLACES: dict[type, Callable[[Any, Frame], Place]] = {
    tree.Name: _name,
    tree.Dereference: _dereference,
    tree.Member: _member,
    tree.Index: _index,
}
