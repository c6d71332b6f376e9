"""Queues: what color they carry, and their flush."""

from appliance.csl.builtins.fabric.colors import check_color, handler_function
from appliance.csl.builtins.fabric.reserved import check_free_queue
from appliance.csl.builtins.registry import (
    Settings,
    builtin,
    known_argument,
    settings_argument,
    tile_world,
)
from appliance.csl.program.code import Handler, QueueInitialisation
from appliance.csl.program.operands import Constant
from appliance.csl.program.operations import Intrinsic
from appliance.csl.program.types import POINTER
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.expressions.evaluate import needs_code
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import VOID, Const, Value, field_of
from appliance.csl.syntax import tree

_PRIORITIES = ("high", "medium", "low")


def priority_of(settings: Settings, node: tree.Node, frame: Frame) -> str:
    """`.priority = .{ .high = true }` as a word."""
    value = settings.take_known("priority")
    if value is None:
        return "default"
    return chosen_of(value, _PRIORITIES, node, frame, "'.priority'")


def chosen_of(
    value: Const, names: tuple[str, ...], node: tree.Node, frame: Frame, what: str
) -> str:
    """The one of several names that a struct says is true."""
    fields = [(name, field_of(value, name)) for name in names]
    chosen = [name for name, field in fields if isinstance(field, Const) and field.value is True]
    if len(chosen) != 1:
        text = f"{what} is one of {', '.join(names)}, got {len(chosen)} that are true"
        frame.fail(node, text)
    return chosen[0]


@builtin("initialize_queue", 1, 2)
def _initialize_queue(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    world = tile_world(node, frame)
    queue = known_argument(node, 0, frame, "a queue")
    if queue.type not in (t.INPUT_QUEUE, t.OUTPUT_QUEUE):
        frame.fail(node.arguments[0], f"expected a queue, got '{queue.type}'")
    is_output = queue.type is t.OUTPUT_QUEUE
    settings = settings_argument(node, 1, frame, "'@initialize_queue'")
    settings.check_machine("priority", "wse2")
    settings.check_machine("ctrl_table_id", "wse3")
    for name in ("priority", "ctrl_table_id") if is_output else ():
        if settings.take(name) is not None:
            frame.fail(node.arguments[-1], f"'.{name}' is for input queues")
    color_value = settings.take_known("color")
    where = node.arguments[-1]
    color = None if color_value is None else check_color(color_value, where, frame)
    priority = priority_of(settings, where, frame)
    table = settings.take_int("ctrl_table_id")
    settings.finish(("color", "priority", "ctrl_table_id"))
    is_wse3 = world.session.is_wse3
    if color is None and (is_wse3 or not is_output):
        arch = world.session.options.architecture
        kind = "output" if is_output else "input"
        frame.fail(node, f"an {kind} queue of {arch} needs '.color'")
    check_free_queue(queue.value, node.arguments[0], frame, output=is_output)
    key = (is_output, queue.value)
    known = world.queues.get(key)
    if known is not None and not known.automatic:
        frame.fail(node, f"{queue.type} {queue.value} is initialised twice")
    world.queues[key] = QueueInitialisation(
        output=is_output, queue=queue.value, color=color, priority=priority, control_table=table,
        automatic=False, position=frame.position(node),
    )  # fmt: skip
    return VOID


@builtin("queue_flush", 1)
def _queue_flush(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    queue = _wse3_queue(node, 0, frame)
    needs_code(node, frame, "'@queue_flush'")
    kind = 1 if queue.type is t.OUTPUT_QUEUE else 0
    arguments = (Constant(POINTER, kind), Constant(POINTER, queue.value))
    assert frame.builder is not None
    frame.builder.emit(Intrinsic(None, "queue_flush", arguments, frame.position(node)))
    return VOID


def _wse3_queue(node: tree.BuiltinCall, at: int, frame: Frame) -> Const:
    if not frame.world.session.is_wse3:
        frame.fail(node, f"'@{node.name}' exists on wse3 only")
    queue = known_argument(node, at, frame, "a queue")
    if queue.type not in (t.INPUT_QUEUE, t.OUTPUT_QUEUE):
        frame.fail(node.arguments[at], f"expected a queue, got '{queue.type}'")
    return queue


@builtin("set_empty_queue_handler", 2)
def _set_empty_queue_handler(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    world = tile_world(node, frame)
    function = known_argument(node, 0, frame, "a handler")
    queue = _wse3_queue(node, 1, frame)
    index = handler_function(function, node.arguments[0], frame, world.function_index)
    kind = "empty_output_queue" if queue.type is t.OUTPUT_QUEUE else "empty_input_queue"
    if (kind, queue.value) in world.handlers:
        frame.fail(node, f"{queue.type} {queue.value} already has a handler")
    position = frame.position(node)
    world.handlers[kind, queue.value] = Handler(kind, queue.value, index, position)
    return VOID


@builtin("set_control_task_table", 0, 1)
def _set_control_task_table(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    world = tile_world(node, frame)
    if not world.session.is_wse3:
        frame.fail(node, "'@set_control_task_table' exists on wse3 only")
    if world.has_control_table:
        frame.fail(node, "'@set_control_task_table' is called twice")
    settings = settings_argument(node, 0, frame, "'@set_control_task_table'")
    instructions, stride = settings.take_int("instructions"), settings.take_int("stride")
    settings.finish(("instructions", "stride"))
    if instructions not in (None, 2, 4, 8):
        frame.fail(settings.node, f"'.instructions' is 2, 4 or 8, got {instructions}")
    if stride is not None and not 1 <= stride <= 7:
        frame.fail(settings.node, f"'.stride' is 1 to 7, got {stride}")
    world.has_control_table = True
    return VOID
