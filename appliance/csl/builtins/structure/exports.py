"""Symbols that the host calls, reads and writes."""

from appliance.csl.builtins.registry import (
    argument,
    builtin,
    known_argument,
    layout_world,
    string_argument,
    tile_world,
    type_argument,
)
from appliance.csl.diagnostics import Note, did_you_mean
from appliance.csl.program.code import Export
from appliance.csl.program.placement import RpcSymbol
from appliance.csl.semantics.context.frames import Frame, FunctionValue
from appliance.csl.semantics.expressions.access import load
from appliance.csl.semantics.expressions.evaluate import is_integer, needs_code, operand_of
from appliance.csl.semantics.expressions.places import element_of, in_memory, place_of
from appliance.csl.semantics.results.tile import TileWorld
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.place_kinds import Fixed, Memory
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import VOID, Const, Value, boolean
from appliance.csl.syntax import tree

MAX_ARGUMENTS = 15


@builtin("export_name", 2, 3)
def _export_name(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    world = layout_world(node, frame)
    name = string_argument(node, 0, frame).decode("utf-8", "replace")
    type_ = type_argument(node, 1, frame)
    mutable = False
    if len(node.arguments) == 3:
        value = known_argument(node, 2, frame, "whether the symbol is mutable")
        if value.type is not t.BOOL:
            frame.fail(node.arguments[2], f"expected type 'bool', got: '{value.type}'")
        mutable = bool(value.value)
    if name in world.exports:
        note = Note("the first call is here", world.export_spans[name])
        frame.fail(node, f"symbol '{name}' is exported twice", (note,))
    is_function = isinstance(type_, t.FunctionType)
    if not is_function and len(node.arguments) < 3:
        frame.fail(node, f"'@export_name' of '{name}' needs to say whether it is mutable")
    inputs = _inputs(type_, node, frame)
    if not is_function:
        _check_data_type(type_, node, frame)
    world.exports[name] = RpcSymbol(
        id=len(world.exports), kind="Func" if is_function else "Var", name=name,
        type=rpc_type(type_), immutable=not mutable, inputs=inputs, color=None,
        position=frame.position(node),
    )  # fmt: skip
    world.export_spans[name] = frame.span(node)
    world.export_types[name] = (type_, mutable)
    return VOID


def _inputs(type_: Type, node: tree.BuiltinCall, frame: Frame) -> tuple[tuple[str, str], ...]:
    """Names and types of a function's arguments."""
    if not isinstance(type_, t.FunctionType):
        return ()
    if len(type_.parameters) > MAX_ARGUMENTS:
        count = len(type_.parameters)
        frame.fail(
            node, f"an exported function takes {MAX_ARGUMENTS} arguments at most, not {count}"
        )
    found = []
    for at, parameter in enumerate(type_.parameters):
        if parameter is None or not _is_argument(parameter):
            frame.fail(node.arguments[1], f"an exported function cannot take a '{parameter}'")
        found.append((f"arg{at}", parameter.name))
    return tuple(found)


def _is_argument(type_: Type) -> bool:
    """Whether the host can pass a value of a type; it knows no other 16-bit float than `f16`."""
    return type_ in (t.F16, t.F32, t.I16, t.I32, t.U16, t.U32)


def _check_data_type(type_: Type, node: tree.BuiltinCall, frame: Frame) -> None:
    is_pointer = isinstance(type_, t.PointerType)
    target = type_.target if isinstance(type_, t.PointerType) else type_
    is_old = frame.world.session.options.dialect != "2.10"
    if is_pointer and isinstance(target, t.ArrayType):
        target = target.element
    if is_pointer and isinstance(target, t.StructType):
        fits = _has_layout(target, is_old=is_old)
    else:
        fits = _is_data(target, is_old=is_old)
    if not fits:
        text = f"'{type_}' cannot be exported; numbers of 16 and 32 bits, and pointers to them or"
        frame.fail(node.arguments[1], f"{text} to structs of them can")


def _is_data(type_: Type, *, is_old: bool) -> bool:
    """Whether the host can read and write numbers of a type; 2.10 keeps to words of 16 bits."""
    if isinstance(type_, t.FloatType):
        return type_.machine is not None
    if isinstance(type_, t.PackedType):
        return type_.bits in (16, 32)
    return isinstance(type_, t.IntType) and (
        type_.bits in (16, 32) or (is_old and type_.bits in (8, 64))
    )


def _has_layout(type_: t.StructType, *, is_old: bool) -> bool:
    """Whether a struct is made of such numbers, and of pointers, enums and structs of them."""
    for field in type_.field_types:
        part = field.element if isinstance(field, t.ArrayType) else field
        if isinstance(part, t.StructType):
            if not _has_layout(part, is_old=is_old):
                return False
        elif isinstance(part, t.PointerType):
            continue
        elif not _is_data(part.base if isinstance(part, t.EnumType) else part, is_old=is_old):
            return False
    return True


def rpc_type(type_: Type) -> str:
    """A type's name in out_rpc.json."""
    return type_.name


@builtin("export_symbol", 1, 2)
def _export_symbol(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    world = tile_world(node, frame)
    place = place_of(node.arguments[0], frame)
    if place.type is t.POISON:
        frame.silent()
    name = _symbol_name(node, place, frame)
    if name in world.exports:
        frame.fail(node, f"symbol '{name}' is exported twice")
    declared = world.declared_exports.get(name)
    if declared is None and world.is_alone:
        declared = (_exported_type(place.type), False)
    if declared is None:
        near = did_you_mean(name, world.declared_exports)
        frame.fail(node, f"symbol '{name}' has no '@export_name' in the layout{near}")
    wanted, mutable = declared
    if isinstance(place, Fixed) and isinstance(place.value, Const):
        value = place.value
        if isinstance(value.value, FunctionValue):
            _check_function(value, wanted, node, frame)
            index = world.function_index(value.value, frame, node.arguments[0])
            world.exports[name] = Export(name, None, index)
            return VOID
    memory = in_memory(place, node.arguments[0], frame)
    _check_data(memory, wanted, mutable=mutable, node=node, frame=frame)
    assert memory.variable is not None
    world.exports[name] = Export(name, memory.variable.placed_address() + memory.offset, None)
    return VOID


def _exported_type(type_: Type) -> Type:
    if isinstance(type_, t.PointerType) and isinstance(type_.target, t.FunctionType):
        return type_.target
    return type_


def _symbol_name(node: tree.BuiltinCall, place: object, frame: Frame) -> str:
    if len(node.arguments) == 2:
        return string_argument(node, 1, frame).decode("utf-8", "replace")
    item = node.arguments[0]
    if isinstance(item, tree.Name):
        return item.name
    if isinstance(item, tree.Member):
        return item.name
    frame.fail(item, "give the symbol's name as the second argument")


def _check_function(value: Const, wanted: Type, node: tree.BuiltinCall, frame: Frame) -> None:
    type_ = value.type.target if isinstance(value.type, t.PointerType) else value.type
    if type_ is not wanted:
        frame.fail(node, f"the exported type is '{wanted}', the function's is '{type_}'")


def _check_data(
    memory: Memory, wanted: Type, *, mutable: bool, node: tree.BuiltinCall, frame: Frame
) -> None:
    type_ = memory.type
    if isinstance(type_, t.PointerType) and isinstance(wanted, t.PointerType):
        same = _pointed(type_) is _pointed(wanted)
        if type_.const and mutable:
            frame.fail(node, f"'{type_}' points to constants, the exported name is mutable")
    else:
        same = type_ is wanted
    if not same:
        frame.fail(node, f"the exported type is '{wanted}', the symbol's is '{type_}'")


def _pointed(type_: t.PointerType) -> Type:
    target = type_.target
    return target.element if isinstance(target, t.ArrayType) else target


# The older explicit RPC server, which the appliance's own replaces.


@builtin("rpc", 1)
def _rpc(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    tile_world(node, frame)
    value = argument(node, 0, frame)
    if value.type is not t.DATA_TASK:
        frame.fail(node.arguments[0], f"'@rpc' needs a data_task_id, got '{value.type}'")
    return VOID


@builtin("get_symbol_id", 1)
def _get_symbol_id(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    world = frame.world
    name = _symbol_name(node, None, frame)
    declared = list(getattr(world, "declared_exports", {}))
    if name not in declared:
        if isinstance(world, TileWorld) and world.is_alone:
            frame.silent()
        frame.fail(node, f"symbol '{name}' has no '@export_name' in the layout")
    return Const(t.U16, declared.index(name))


@builtin("has_exported_tensors", 0)
def _has_exported_tensors(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    if frame.builder is None and frame.caller is None:
        frame.fail(node, "'@has_exported_tensors' is for code, not for comptime or layout blocks")
    declared = getattr(frame.world, "declared_exports", {})
    return boolean(any(isinstance(type_, t.PointerType) for type_, _ in declared.values()))


@builtin("get_tensor_ptr", 1)
def _get_tensor_ptr(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    world = _with_symbols(node, frame)
    if not any(isinstance(type_, t.PointerType) for type_, _ in world.declared_exports.values()):
        frame.fail(node, "no pointer to an array is exported")
    to = t.pointer_type(t.U16, many=True)
    return load(_symbol(node, 0, to, frame, world), node, frame)


@builtin("get_symbol_value", 2)
def _get_symbol_value(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    type_ = type_argument(node, 0, frame)
    world = _with_symbols(node, frame)
    if not any(declared is type_ for declared, _ in world.declared_exports.values()):
        frame.fail(node, f"no symbol of type '{type_}' is exported")
    return load(_symbol(node, 1, type_, frame, world), node, frame)


def _with_symbols(node: tree.BuiltinCall, frame: Frame) -> TileWorld:
    needs_code(node, frame, f"'@{node.name}'")
    world = frame.world
    assert isinstance(world, TileWorld), "a layout has no code"
    if world.is_alone:
        frame.silent()
    return world


def _symbol(node: tree.BuiltinCall, at: int, type_: Type, frame: Frame, world: TileWorld) -> Memory:
    """The exported variable of a number that is known at run time."""
    number = argument(node, at, frame, t.U16)
    if not is_integer(number.type):
        frame.fail(node.arguments[at], f"the id of a symbol is an integer, got '{number.type}'")
    table = Memory(world.symbol_addresses().type, world.symbol_addresses(), None, 0, is_const=True)
    address = load(element_of(table, [number], node, frame), node, frame)
    return Memory(type_, None, operand_of(address, node, frame), 0, is_const=True)
