"""The machine: random numbers, configuration registers, services for the libraries."""

import math
from collections.abc import Callable

from appliance.csl.builtins.registry import (
    MANY,
    argument,
    builtin,
    code_world,
    int_argument,
    string_argument,
    type_argument,
)
from appliance.csl.builtins.vectors.dsds import as_u16
from appliance.csl.program.code import InitialService
from appliance.csl.program.operands import Constant, Operand
from appliance.csl.program.operations import INTRINSICS, Intrinsic
from appliance.csl.program.registers import is_register, unknown_register
from appliance.csl.program.types import POINTER, Scalar
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.expressions.evaluate import is_integer, needs_code, operand_of
from appliance.csl.semantics.values import numbers
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import VOID, Const, Runtime, Value
from appliance.csl.syntax import tree

KNOWN_FUNCTIONS: dict[str, Callable[..., float]] = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "pow": math.pow,
    "floor": lambda x: float(math.floor(x)),
    "ceil": lambda x: float(math.ceil(x)),
    "scale": math.ldexp,
}
"""Services that also work on numbers known at compile time."""


AT_START = frozenset(("task_priority", "main_thread_priority"))
"""Services that a comptime block may ask for; every PE with the code does so before it starts."""


def _known_function(
    name: str, result: Type, arguments: list[float], node: tree.BuiltinCall, frame: Frame
) -> float:
    try:
        return numbers.round_float(KNOWN_FUNCTIONS[name](*arguments), result)
    except (ValueError, OverflowError, TypeError):
        frame.fail(node, f"'{name}' of {', '.join(map(str, arguments))} is no number")


@builtin("host_stream", 3)
def _host_stream(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    """`@host_stream("h2d", 1, color or number or {})`: a color that the host feeds or drains."""
    if not frame.module.unit.is_library:
        frame.fail((node.start, node.start + 12), "there is no builtin '@host_stream'")
    kind = string_argument(node, 0, frame).decode()
    number = int_argument(node, 1, frame, "the number of a stream")
    color = argument(node, 2, frame)
    if color.type is not t.COLOR and color.type is not t.VOID and not is_integer(color.type):
        frame.fail(node.arguments[2], f"a stream needs a color or its number, got '{color.type}'")
    if color.type is not t.VOID and isinstance(color, Const):
        frame.world.session.streams[kind, number, int(color.value)] = None
    return VOID


def _emit(
    name: str, result: Type, arguments: tuple[Operand, ...], node: tree.Node, frame: Frame
) -> Value:
    builder = frame.builder
    assert builder is not None
    if result is t.VOID:
        builder.emit(Intrinsic(None, name, arguments, frame.position(node)))
        return VOID
    machine = result.machine
    assert isinstance(machine, Scalar)
    dest = builder.register(machine)
    builder.emit(Intrinsic(dest, name, arguments, frame.position(node)))
    return Runtime(result, dest)


@builtin("random16", 0)
def _random16(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    needs_code(node, frame, "'@random16'")
    return _emit("random16", t.U16, (), node, frame)


@builtin("set_active_prng", 1)
def _set_active_prng(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    needs_code(node, frame, "'@set_active_prng'")
    number = as_u16(argument(node, 0, frame, t.U16), node, frame)
    return _emit("random_select", t.VOID, (operand_of(number, node, frame),), node, frame)


def _register(node: tree.BuiltinCall, frame: Frame) -> Value:
    """The address of a configuration register; one that is known must be there."""
    address = as_u16(argument(node, 0, frame, t.U16), node, frame)
    architecture = frame.world.session.options.architecture
    if isinstance(address, Const) and not is_register(address.value, architecture):
        frame.fail(node.arguments[0], unknown_register(address.value, architecture))
    return address


@builtin("get_config", 1, 2)
@builtin("get_config_unchecked", 1)
def _get_config(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    needs_code(node, frame, f"'@{node.name}'")
    address = _register(node, frame)
    return _emit("config_read", t.U16, (operand_of(address, node, frame),), node, frame)


@builtin("set_config", 2, 3)
@builtin("set_config_unchecked", 2)
def _set_config(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    world = code_world(node, frame)
    address = _register(node, frame)
    value = as_u16(argument(node, 1, frame, t.U16), node, frame)
    if frame.builder is None:
        assert isinstance(address, Const)
        assert isinstance(value, Const)
        world.initial_services.append(InitialService("config_write", (address.value, value.value)))
        return VOID
    operands = (operand_of(address, node, frame), operand_of(value, node, frame))
    return _emit("config_write", t.VOID, operands, node, frame)


@builtin("control_mask", 1)
def _control_mask(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    """`@control_mask(u16)`, for `<tile_config>`: not simulated where a DSD would apply it."""
    if not frame.module.unit.is_library:
        frame.fail(node, "there is no builtin '@control_mask'; import <tile_config>")
    world = code_world(node, frame)
    argument(node, 0, frame, t.U16)
    world.control_mask = world.control_mask or (frame, node)
    return VOID


@builtin("intrinsic", 2, MANY)
def _intrinsic(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    """`@intrinsic("name", RESULT, arguments...)`: a service of the machine, for libraries."""
    if not frame.module.unit.is_library:
        frame.fail((node.start, node.start + 10), "there is no builtin '@intrinsic'")
    name = string_argument(node, 0, frame).decode()
    assert name in INTRINSICS, f"a library calls the unknown intrinsic {name}"
    result = type_argument(node, 1, frame)
    values = [argument(node, at, frame) for at in range(2, len(node.arguments))]
    numbers_known = [value.value for value in values if isinstance(value, Const)]
    if name in KNOWN_FUNCTIONS and len(numbers_known) == len(values):
        return Const(result, _known_function(name, result, numbers_known, node, frame))
    if name in AT_START and frame.builder is None:
        numbers_given = tuple([int(value.value) for value in values if isinstance(value, Const)])
        code_world(node, frame).initial_services.append(InitialService(name, numbers_given))
        return VOID
    needs_code(node, frame, f"'{name}'")
    operands: list[Operand] = []
    for at, value in enumerate(values, 2):
        if isinstance(value, Const) and value.type is t.COMPTIME_INT:
            operands.append(Constant(POINTER, value.value))
        elif isinstance(value, Const) and value.type is t.FIFO:
            operands.append(Constant(POINTER, value.value.fifo))
        else:
            operands.append(operand_of(value, node.arguments[at], frame))
    return _emit(name, result, tuple(operands), node, frame)
