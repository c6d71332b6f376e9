"""Calls of functions: evaluated at compile time, inlined, or compiled to a call instruction."""

from dataclasses import dataclass

from appliance.csl.program.instructions import Call, CallIndirect, Return
from appliance.csl.program.operands import Operand, Register
from appliance.csl.program.types import POINTER, MachineType, Position
from appliance.csl.semantics.context.builder import FunctionBuilder
from appliance.csl.semantics.context.flow import Exit
from appliance.csl.semantics.context.frames import Frame, FunctionValue
from appliance.csl.semantics.expressions.access import load, stable, store, taken_out
from appliance.csl.semantics.expressions.evaluate import (
    coerce,
    evaluate,
    handles,
    materialized,
    operand_of,
    type_of_node,
    where_known,
)
from appliance.csl.semantics.expressions.linkage import extern_function
from appliance.csl.semantics.expressions.places import address_of, place_of
from appliance.csl.semantics.statements.statements import land, run_block
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.place_kinds import Memory, as_place, part_of
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import (
    POISON,
    VOID,
    Const,
    InMemory,
    Mixed,
    Runtime,
    Value,
    fields_of,
    is_poison,
)
from appliance.csl.syntax import tree

MAX_REMEMBERED_CALLS = 50_000


@handles(tree.Call)
def _call(node: tree.Call, frame: Frame, expected: Type | None) -> Value:
    callee = load(place_of(node.callee, frame), node.callee, frame)
    type_ = callee.type
    if type_ is t.POISON:
        return POISON
    if isinstance(type_, t.PointerType) and isinstance(type_.target, t.FunctionType):
        type_ = type_.target
    if not isinstance(type_, t.FunctionType):
        frame.fail(node.callee, f"a value of type '{type_}' cannot be called")
    if type_.is_task:
        name = callee.value.node.name if isinstance(callee, Const) else "this task"
        frame.fail(node, f"'{name}' is a task and cannot be called; activate its id")
    if isinstance(callee, Const) and isinstance(callee.value, FunctionValue):
        return call_function(callee.value, node, frame)
    return _call_pointer(callee, type_, node, frame)


def call_function(function: FunctionValue, node: tree.Call, frame: Frame) -> Value:
    """A call of a known function."""
    fn = function.node
    if fn.body is None:
        function = extern_function(function, node, frame)
        fn = function.node
    if len(node.arguments) != len(fn.parameters):
        function = _other_form(function, node, frame)
        fn = function.node
    if frame.builder is None:
        return _call_comptime(function, node, frame)
    inner = Frame(
        function.module,
        what=f"function '{fn.name}'",
        builder=frame.builder,
        caller=frame,
        call_node=node,
    )
    arguments = _arguments(function, node, frame, inner)
    if arguments is None:
        return POISON
    if fn.is_inline:
        return _call_inline(function, arguments, node, inner)
    result = result_type(function, inner)
    is_known = all(isinstance(value, Const) for value in arguments)
    if is_known and isinstance(result, t.HandleType):  # DSDs and settings take known ones.
        return _call_inline(function, arguments, node, inner)
    if result is not t.VOID and t.is_comptime_only(result):
        if is_known:
            inner.builder = None
        return _call_inline(function, arguments, node, inner)
    return _call_compiled(function, arguments, result, node, frame)


def _other_form(function: FunctionValue, node: tree.Call, frame: Frame) -> FunctionValue:
    """A library's form of a function for the number of arguments, which is declared as `name_N`."""
    unit, fn, number = function.module.unit, function.node, len(node.arguments)
    other = unit.declarations.get(f"{fn.name}_{number}") if unit.is_library else None
    if not isinstance(other, tree.Function) or len(other.parameters) != number:
        frame.fail(node, f"function '{fn.name}' takes {_count(len(fn.parameters))}, got {number}")
    return FunctionValue(function.module, other)


def _count(number: int) -> str:
    return "no arguments" if number == 0 else f"{number} argument{'s' * (number > 1)}"


def _arguments(
    function: FunctionValue, node: tree.Call, frame: Frame, inner: Frame
) -> list[Value] | None:
    """The arguments in the parameters' types, declared in the callee's frame as they come."""
    type_ = function.module.lookup(function.node.name, frame, node).type
    if not isinstance(type_, t.FunctionType):
        return None
    values: list[Value] = []
    for parameter, known, item in zip(
        function.node.parameters, type_.parameters, node.arguments, strict=True
    ):
        wanted = known
        if wanted is None and parameter.type is not None:
            wanted = type_of_node(parameter.type, inner)
        where = where_known(item, frame) if parameter.is_comptime else frame
        value = evaluate(item, where, wanted)
        if is_poison(value):
            return None
        if wanted is not None:
            value = coerce(value, wanted, item, frame, f"argument '{parameter.name}'")
        if parameter.is_comptime and not isinstance(value, Const):
            frame.fail(item, f"argument '{parameter.name}' must be known at compile time")
        values.append(value)
        inner.locals[parameter.name] = value
    return values


def result_type(function: FunctionValue, inner: Frame) -> Type:
    """The type that a function gives, which may depend on its arguments."""
    type_ = inner.module.lookup(function.node.name, inner, function.node).type
    assert isinstance(type_, t.FunctionType)
    if type_.result is not t.UNDEFINED:
        return type_.result
    return type_of_node(function.node.result, inner)


def _call_comptime(function: FunctionValue, node: tree.Call, frame: Frame) -> Value:
    world = frame.world
    fn = function.node
    inner = Frame(function.module, what=f"function '{fn.name}'", caller=frame, call_node=node)
    limit = world.session.options.comptime_depth
    if inner.depth > limit:
        frame.fail(node, f"calls nest more than {limit} levels deep at compile time")
    frame.spend(node)
    arguments = _arguments(function, node, frame, inner)
    if arguments is None:
        return POISON
    for value in arguments:
        if value.type.num_elements >= t.ELEMENTS_PER_STEP:
            frame.spend_value(node, value.type)  # its key is made
    key = (function, *[value.key for value in arguments if isinstance(value, Const)])
    remembered = world.calls.get(key)
    if remembered is not None and len(key) == len(arguments) + 1:
        return remembered
    before = world.effects
    value = _run(function, node, inner)
    if world.effects == before and isinstance(value, Const) and not is_poison(value):
        if len(world.calls) >= MAX_REMEMBERED_CALLS:
            world.calls.clear()
        world.calls[key] = value
    return value


def _run(function: FunctionValue, node: tree.Node, inner: Frame) -> Value:
    """Evaluates a function's body in its frame, and returns its result."""
    fn = function.node
    result = result_type(function, inner)
    target = Exit(None, nesting=inner.nesting, is_loop=False, type_=result)
    inner.function_exit = target
    assert fn.body is not None
    flow = run_block(fn.body, inner)
    builder = inner.builder
    falls_through = flow is None and (builder is None or builder.is_open)
    if falls_through and result is not t.VOID:
        if builder is not None and builder.has_errors:
            inner.silent()
        inner.fail(
            (fn.name_start, fn.name_start + len(fn.name)),
            f"function '{fn.name}' may end without a return value",
        )
    return land(target, flow, fn.body, inner)


def _call_inline(
    function: FunctionValue, arguments: list[Value], node: tree.Call, inner: Frame
) -> Value:
    limit = inner.world.session.options.comptime_depth
    if inner.depth > limit:
        assert inner.caller is not None
        inner.caller.fail(node, f"inlined calls nest more than {limit} levels deep")
    for parameter, value in zip(function.node.parameters, arguments, strict=True):
        inner.locals[parameter.name] = stable(value, node, inner)
    inner.memory_locals = address_taken(function.node, inner)
    return _run(function, node, inner)


# Calls at run time.


@dataclass(frozen=True, slots=True)
class Specialization:
    """A function for certain arguments: for each a value's key, or a type."""

    function: FunctionValue
    parameters: tuple[object, ...]


def _call_compiled(
    function: FunctionValue, arguments: list[Value], result: Type, node: tree.Call, frame: Frame
) -> Value:
    parameters: list[object] = []
    constants: list[Const | None] = []
    operands: list[Operand] = []
    for parameter, value in zip(function.node.parameters, arguments, strict=True):
        if isinstance(value, Const) and (parameter.is_comptime or is_specialized(value.type)):
            parameters.append(value.key)
            constants.append(value)
            continue
        parameters.append(value.type)
        constants.append(None)
        operands += flattened(value, node, frame)
    if frame.builder is not None and frame.builder.is_only_typed:
        return _returned(_result_register(result, frame.builder), result, node, frame)
    key = Specialization(function, tuple(parameters))
    kinds = [value.type for value in arguments]
    index = frame.world.request(key, kinds, constants, result, frame, node)
    return _emit_call(index, None, operands, result, node, frame)


def is_specialized(type_: Type) -> bool:
    """Whether a known argument of this type makes a function of its own."""
    if isinstance(type_, t.HandleType | t.FunctionType | t.DsrType):
        return True
    if isinstance(type_, t.PointerType) and isinstance(type_.target, t.FunctionType):
        return True
    return t.is_comptime_only(type_)


def flattened(value: Value, node: tree.Node, frame: Frame) -> list[Operand]:
    """An argument as operands: a struct field by field, an array by the address of a copy.

    A parameter keeps its value whatever the callee, or what it starts, does to the variable that
    was passed. What nobody else can write to is not copied.
    """
    if isinstance(value.type, t.StructType):
        place = as_place(value)
        found: list[Operand] = []
        for at in range(len(value.type.field_types)):
            found += flattened(load(part_of(place, at), node, frame), node, frame)
        return found
    if isinstance(value.type, t.ArrayType):
        source = materialized(stable(value, node, frame), node, frame)
        pointer = address_of(as_place(source), node, frame)
        return [operand_of(pointer, node, frame)]
    return [operand_of(value, node, frame)]


def flat_types(type_: Type) -> list[MachineType]:
    """The registers that a parameter of this type takes."""
    if isinstance(type_, t.StructType):
        return [flat for field in type_.field_types for flat in flat_types(field)]
    if isinstance(type_, t.ArrayType):
        return [POINTER]
    assert type_.machine is not None
    return [type_.machine]


def _emit_call(
    index: int | None,
    pointer: Operand | None,
    operands: list[Operand],
    result: Type,
    node: tree.Node,
    frame: Frame,
    argument_types: tuple[MachineType, ...] = (),
) -> Value:
    builder, position = frame.builder, frame.position(node)
    assert builder is not None
    dest = _result_register(result, builder)
    if index is not None:
        builder.emit(Call(dest, index, tuple(operands), position))
    else:
        assert pointer is not None
        builder.emit(
            CallIndirect(
                dest, pointer, tuple(operands), argument_types, returned_machine(result), position
            )
        )
    return _returned(dest, result, node, frame)


def _result_register(result: Type, builder: FunctionBuilder) -> Register | None:
    machine = returned_machine(result)
    return builder.register(machine) if machine is not None else None


def _returned(dest: Register | None, result: Type, node: tree.Node, frame: Frame) -> Value:
    """What a call gives, by the register that the function leaves it in."""
    if dest is None:
        return VOID
    if result.machine is not None:
        return Runtime(result, dest)
    return taken_out(Memory(result, None, dest, 0, is_const=True), "result", node, frame)


def returned_machine(result: Type) -> MachineType | None:
    """What a function of this result leaves in a register: structs and arrays by address."""
    if result is t.VOID:
        return None
    return result.machine or POINTER


def _call_pointer(callee: Value, type_: t.FunctionType, node: tree.Call, frame: Frame) -> Value:
    if frame.builder is None:
        frame.fail(node, "a call through a pointer is not possible at compile time")
    if len(node.arguments) != len(type_.parameters):
        frame.fail(
            node,
            f"'{type_}' takes {_count(len(type_.parameters))}, got {len(node.arguments)}",
        )
    operands: list[Operand] = []
    kinds: list[MachineType] = []
    for wanted, item in zip(type_.parameters, node.arguments, strict=True):
        assert wanted is not None
        value = coerce(evaluate(item, frame, wanted), wanted, item, frame, "argument")
        operands += flattened(value, item, frame)
        kinds += flat_types(wanted)
    pointer = operand_of(callee, node, frame)
    return _emit_call(None, pointer, operands, type_.result, node, frame, tuple(kinds))


# Compiling a function.


def compile_function(
    frame: Frame,
    function: FunctionValue,
    types: list[Type],
    constants: list[Const | None],
    result: Type,
) -> int:
    """Emits a whole function into the frame's builder; the number of its parameters."""
    builder = frame.builder
    assert builder is not None
    fn = function.node
    for parameter, type_, constant in zip(fn.parameters, types, constants, strict=True):
        if constant is not None:
            frame.locals[parameter.name] = constant
        else:
            frame.locals[parameter.name] = parameter_value(type_, parameter.name, builder)
    num_parameters = len(builder.registers)
    frame.memory_locals = address_taken(fn, frame)
    move_parameters(fn, frame)
    target = Exit(None, nesting=0, is_loop=False, is_unrolled=True, type_=result)
    frame.function_exit = target
    assert fn.body is not None
    flow = run_block(fn.body, frame)
    position = frame.position(fn.body)
    falls_through = flow is None and builder.is_open and result is not t.VOID
    if falls_through and not builder.has_errors:
        frame.error(_name_node(fn), f"function '{fn.name}' may end without a return value")
    if falls_through and target.break_block is not None:
        builder.close(position)
    value = land(target, flow, fn.body, frame)
    if builder.is_open:
        _return(value, result, fn.body, frame, position)
    return num_parameters


def _name_node(fn: tree.Function) -> tree.Node:
    return tree.Node(fn.name_start, fn.name_start + len(fn.name))


def _return(value: Value, result: Type, node: tree.Node, frame: Frame, position: Position) -> None:
    builder = frame.builder
    assert builder is not None
    if result is t.VOID:
        builder.terminate(Return(None, position))
        return
    if is_poison(value) or value.type is t.VOID:
        builder.close(position)
        return
    if result.machine is not None:
        builder.terminate(Return(operand_of(value, node, frame), position))
        return
    variable = frame.world.local_variable(builder, "result", result, position)
    place = Memory(result, variable, None, 0, is_const=False)
    store(place, value, node, frame)
    builder.terminate(Return(place.base, position))


def parameter_value(type_: Type, name: str, builder: FunctionBuilder) -> Value:
    """A parameter as the registers that it comes in."""
    if isinstance(type_, t.StructType):
        fields = tuple(
            [
                parameter_value(field, f"{name}.{at}", builder)
                for at, field in enumerate(type_.field_types)
            ]
        )
        return Mixed(type_, fields)
    if isinstance(type_, t.ArrayType):
        return InMemory(type_, builder.register(POINTER, name), 0)
    assert type_.machine is not None
    return Runtime(type_, builder.register(type_.machine, name))


def move_parameters(fn: tree.Function, frame: Frame) -> None:
    """Puts parameters whose address is taken into memory."""
    for parameter in fn.parameters:
        value = frame.locals[parameter.name]
        needs_memory = parameter.name in frame.memory_locals
        if not needs_memory or not isinstance(value, Runtime | Mixed):
            continue
        assert frame.builder is not None
        position = frame.position(parameter)
        variable = frame.world.local_variable(frame.builder, parameter.name, value.type, position)
        place = Memory(value.type, variable, None, 0, is_const=False)
        store(place, value, parameter, frame)
        place.is_const = True
        frame.locals[parameter.name] = place


def address_taken(fn: tree.Function, frame: Frame) -> frozenset[str]:
    """The names whose address a function takes: they cannot live in registers."""
    known = frame.world.session.address_taken
    found = known.get(fn)
    if found is None:
        names: set[str] = set()
        if fn.body is not None:
            _collect(fn.body, names)
        found = known[fn] = frozenset(names)
    return found


def _collect(node: tree.Node, names: set[str]) -> None:
    if isinstance(node, tree.Unary) and node.op == "&":
        root = node.operand
        while isinstance(root, tree.Member | tree.Index):
            root = root.operand
        if isinstance(root, tree.Name):
            names.add(root.name)
    for child in tree.children(node):
        _collect(child, names)


def argument_registers(value: Value) -> list[Register]:
    """The registers of a parameter, in order."""
    if isinstance(value, Runtime) and isinstance(value.operand, Register):
        return [value.operand]
    if isinstance(value, Mixed):
        return [register for field in fields_of(value) for register in argument_registers(field)]
    if isinstance(value, InMemory) and isinstance(value.base, Register):
        return [value.base]
    return []
