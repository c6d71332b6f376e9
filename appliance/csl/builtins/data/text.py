"""Strings, and messages while the program is compiled."""

from appliance.csl.builtins.registry import argument, builtin, known_argument, string_argument
from appliance.csl.program.operations import Assert
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.context.texts import text_of
from appliance.csl.semantics.expressions.evaluate import operand_of
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import VOID, Const, Value
from appliance.csl.syntax import tree

MAX_STRING_BYTES = 1 << 20


@builtin("comptime_assert", 1, 2)
def _comptime_assert(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    condition = known_argument(node, 0, frame, "the condition of '@comptime_assert'")
    if condition.type is not t.BOOL:
        frame.fail(node.arguments[0], f"'@comptime_assert' needs a bool, got '{condition.type}'")
    if not condition.value:
        message = ""
        if len(node.arguments) == 2:
            text = string_argument(node, 1, frame).decode("utf-8", "replace")
            message = f": {text}"
        frame.fail(node, f"the assertion does not hold{message}")
    return VOID


@builtin("comptime_print", 1, 99)
def _comptime_print(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    parts = []
    for at in range(len(node.arguments)):
        value = argument(node, at, frame)
        frame.spend_value(node, value.type)
        if not isinstance(value, Const):
            frame.fail(node.arguments[at], "'@comptime_print' needs values known at compile time")
        parts.append(text_of(value))
    frame.world.effects += 1
    source = frame.module.unit.source
    line, column = source.line_column(node.start)
    text = f"{source.path}:{line}:{column}: {', '.join(parts)}"
    frame.spend(node, len(text))
    frame.world.session.printed.append(text)
    return VOID


@builtin("assert", 1)
def _assert(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    if frame.builder is None:
        return _comptime_assert(node, frame, expected)
    condition = argument(node, 0, frame, t.BOOL)
    if condition.type is not t.BOOL:
        frame.fail(node.arguments[0], f"'@assert' needs a bool, got '{condition.type}'")
    if isinstance(condition, Const) and condition.value:
        return VOID
    item = node.arguments[0]
    text = frame.module.unit.source.text[item.start : item.end]
    operand = operand_of(condition, node, frame)
    frame.builder.emit(Assert(operand, " ".join(text.split()), frame.position(node)))
    return VOID


@builtin("strcat", 0, 99)
def _strcat(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    text = b"".join([string_argument(node, at, frame) for at in range(len(node.arguments))])
    if len(text) > MAX_STRING_BYTES:
        frame.fail(node, f"a string of more than {MAX_STRING_BYTES} bytes")
    frame.spend(node, len(text) // t.ELEMENTS_PER_STEP)
    return Const(t.STRING, text)


@builtin("strlen", 1)
def _strlen(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    return Const(t.COMPTIME_INT, len(string_argument(node, 0, frame)))


@builtin("get_array", 1)
def _get_array(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    text = string_argument(node, 0, frame)
    return Const(t.array_type((len(text),), t.U8), list(text))


@builtin("get_string_from_byte", 1)
def _get_string_from_byte(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    value = known_argument(node, 0, frame, "a byte")
    if not isinstance(value.value, int) or not 0 <= value.value <= 255:
        frame.fail(node.arguments[0], f"'{text_of(value)}' is no byte")
    return Const(t.STRING, bytes([value.value]))
