"""Colors, task ids, queues and microthreads by number."""

from appliance.csl.builtins.registry import argument, builtin
from appliance.csl.program.types import POINTER, Scalar
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.expressions.evaluate import is_integer, operand_of
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import Const, Runtime, Value
from appliance.csl.syntax import tree

_RANGES: dict[str, tuple[t.Type, tuple[int, int], tuple[int, int], str]] = {
    "get_color": (t.COLOR, (0, 23), (0, 23), "color"),
    "get_local_task_id": (t.LOCAL_TASK, (0, 30), (8, 30), "local task id"),
    "get_control_task_id": (t.CONTROL_TASK, (0, 63), (0, 63), "control task id"),
    "get_input_queue": (t.INPUT_QUEUE, (0, 7), (0, 7), "input queue"),
    "get_output_queue": (t.OUTPUT_QUEUE, (0, 5), (0, 7), "output queue"),
    "get_ut_id": (t.MICROTHREAD, (0, 7), (0, 7), "microthread id"),
}
"""Type, first and last number on WSE-2 and on WSE-3."""
_NO_COLOR = 32
"""No color, as programs write it: `@get_color(32)`."""
_LAST_OF_1_1 = 31
"""In the last release that made colors of numbers that are not routed."""


@builtin("get_color", 1)
@builtin("get_local_task_id", 1)
@builtin("get_control_task_id", 1)
@builtin("get_input_queue", 1)
@builtin("get_output_queue", 1)
@builtin("get_ut_id", 1)
def _get_handle(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    type_, wse2, wse3, what = _RANGES[node.name]
    value = argument(node, 0, frame)
    if value.type is type_:
        return value
    is_enum = isinstance(value.type, t.EnumType)
    if not is_integer(value.type) and not is_enum:
        frame.fail(node.arguments[0], f"a {what} needs an integer, got '{value.type}'")
    if isinstance(value, Const):
        low, high = wse3 if frame.world.session.is_wse3 else wse2
        is_none = type_ is t.COLOR and value.value == _NO_COLOR
        if type_ is t.COLOR and frame.world.session.options.dialect == "1.1":
            high = _LAST_OF_1_1
        if not low <= value.value <= high and not is_none:
            arch = frame.world.session.options.architecture
            frame.fail(
                node.arguments[0],
                f"{what} {value.value} is outside {low} to {high}, the range of {arch}",
            )
        return Const(type_, value.value)
    given = value.type.base if isinstance(value.type, t.EnumType) else value.type
    if not isinstance(given, t.IntType) or given.low < 0 or given.high > t.U16.high:
        text = f"a {what} that is not known needs a 'u16', got '{value.type}'"
        frame.fail(node.arguments[0], text)
    if type_ in (t.INPUT_QUEUE, t.OUTPUT_QUEUE):
        frame.fail(node.arguments[0], f"the number of an {what} must be known at compile time")
    operand = operand_of(value, node, frame)
    source = value.type.machine
    assert isinstance(source, Scalar)
    assert frame.builder is not None
    if source != POINTER:
        operand = frame.builder.convert(operand, source, POINTER, frame.position(node))
    return Runtime(type_, operand)


@builtin("get_data_task_id", 1)
def _get_data_task_id(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    value = argument(node, 0, frame)
    session = frame.world.session
    wanted = t.INPUT_QUEUE if session.is_wse3 else t.COLOR
    if value.type is not wanted:
        frame.fail(
            node.arguments[0],
            f"a data task id of {session.options.architecture} needs a value of type '{wanted}', "
            f"got '{value.type}'",
        )
    if isinstance(value, Const):
        return Const(t.DATA_TASK, value.value)
    assert isinstance(value, Runtime)
    return Runtime(t.DATA_TASK, value.operand)


@builtin("get_filter_id", 1)
def _get_filter_id(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    value = argument(node, 0, frame)
    if value.type is not t.COLOR:
        frame.fail(node.arguments[0], f"'@get_filter_id' needs a color, got '{value.type}'")
    if isinstance(value, Const):
        return Const(t.U16, value.value)
    assert isinstance(value, Runtime)
    return Runtime(t.U16, value.operand)
