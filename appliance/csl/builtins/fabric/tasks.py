"""Binding, activating and blocking tasks."""

from appliance.csl.builtins.fabric.colors import NUM_COLORS
from appliance.csl.builtins.fabric.reserved import check_free_task
from appliance.csl.builtins.registry import (
    argument,
    builtin,
    code_world,
    known_argument,
    settings_argument,
    tile_world,
)
from appliance.csl.program.code import TaskBinding, TaskKind
from appliance.csl.program.operands import Constant
from appliance.csl.program.operations import Activate, SetBlocked, Target, TargetKind
from appliance.csl.program.types import Scalar
from appliance.csl.semantics.context.frames import Frame, FunctionValue
from appliance.csl.semantics.expressions.evaluate import operand_of
from appliance.csl.semantics.results.rotation import rotation
from appliance.csl.semantics.results.tile import TileWorld
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import VOID, Const, Value
from appliance.csl.syntax import tree

_KINDS = {
    "bind_data_task": (t.DATA_TASK, TaskKind.DATA, TargetKind.DATA_TASK),
    "bind_local_task": (t.LOCAL_TASK, TaskKind.LOCAL, TargetKind.LOCAL_TASK),
    "bind_control_task": (t.CONTROL_TASK, TaskKind.CONTROL, TargetKind.CONTROL_TASK),
}
TARGETS: dict[Type, TargetKind] = {
    t.COLOR: TargetKind.COLOR,
    t.DATA_TASK: TargetKind.DATA_TASK,
    t.LOCAL_TASK: TargetKind.LOCAL_TASK,
    t.CONTROL_TASK: TargetKind.CONTROL_TASK,
    t.INPUT_QUEUE: TargetKind.INPUT_QUEUE,
    t.MICROTHREAD: TargetKind.MICROTHREAD,
}


@builtin("bind_data_task", 2)
@builtin("bind_local_task", 2)
@builtin("bind_control_task", 2)
def _bind(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    world = tile_world(node, frame)
    wanted, kind, target = _KINDS[node.name]
    task = _task(node, 0, frame)
    id_ = known_argument(node, 1, frame, "the id of a task")
    if id_.type is not wanted:
        frame.fail(node.arguments[1], f"expected type '{wanted}', got: '{id_.type}'")
    _check_id(world, kind, target, id_, node, frame, at=1, name=task.node.name)
    bits = _argument_bits(task, kind, node, frame)
    function = world.function_index(task, frame, node.arguments[0])
    world.bound[target, id_.value] = task.node.name
    world.tasks.append(TaskBinding(kind, id_.value, function, bits, frame.position(node)))
    return VOID


def _task(node: tree.BuiltinCall, at: int, frame: Frame) -> FunctionValue:
    task = known_argument(node, at, frame, "a task")
    if not isinstance(task.value, FunctionValue) or not task.value.node.is_task:
        frame.fail(node.arguments[at], f"'@{node.name}' needs a task, got '{task.type}'")
    return task.value


def _check_id(
    world: TileWorld,
    kind: TaskKind,
    target: TargetKind,
    id_: Const,
    node: tree.BuiltinCall,
    frame: Frame,
    *,
    at: int,
    name: str,
) -> None:
    """The id is free for a task."""
    if kind is TaskKind.DATA and id_.value >= NUM_COLORS:
        frame.fail(node.arguments[at], f"no data comes on color {id_.value}; colors are 0 to 23")
    check_free_task(target, id_.value, node.arguments[at], frame)
    key = (target, id_.value)
    if key in world.bound:
        frame.fail(node, f"{kind} task id {id_.value} is already bound to '{world.bound[key]}'")
    if kind is TaskKind.LOCAL and id_.value == 29 and "teardown" in {k for k, _ in world.handlers}:
        frame.fail(node, "local task id 29 belongs to the teardown handler")
    _check_shared_ids(world, target, id_.value, name, node, frame)


@builtin("bind_rotating_tasks", 4)
def _bind_rotating(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    """Binds a main task, and one that has the turn after each `limit` starts of it."""
    world = tile_world(node, frame)
    if not world.session.is_wse3:
        frame.fail(node, "'@bind_rotating_tasks' exists on wse3 only")
    main, alternate = _task(node, 0, frame), _task(node, 1, frame)
    id_ = known_argument(node, 2, frame, "the id of a task")
    kinds = {kind[0]: kind[1:] for kind in _KINDS.values() if kind[1] is not TaskKind.CONTROL}
    if id_.type not in kinds:
        text = f"expected type 'data_task_id' or 'local_task_id', got: '{id_.type}'"
        frame.fail(node.arguments[2], text)
    kind, target = kinds[id_.type]
    settings = settings_argument(node, 3, frame, f"'@{node.name}'")
    limit = settings.take_int("limit")
    settings.finish(("limit",))
    if limit is None or not 1 <= limit <= t.U16.high:
        given = "no" if limit is None else f"{limit} as"
        text = f"'@{node.name}' needs '.limit' from 1 to {t.U16.high}, got {given} limit"
        frame.fail(node.arguments[3], text)
    _check_id(world, kind, target, id_, node, frame, at=2, name=main.node.name)
    bits = _argument_bits(main, kind, node, frame)
    if alternate.node.parameters:
        frame.fail(node.arguments[1], f"alternate task '{alternate.node.name}' takes no arguments")
    numbers = [
        world.function_index(task, frame, node.arguments[at])
        for at, task in enumerate((main, alternate))
    ]
    types = world.job_types(numbers[0])
    position = frame.position(node)
    function = rotation(world, main, types, (numbers[0], numbers[1]), limit, position)
    world.stand_ins.update(dict.fromkeys(numbers, function))
    world.bound[target, id_.value] = main.node.name
    world.tasks.append(TaskBinding(kind, id_.value, function, bits, position))
    return VOID


def _check_shared_ids(
    world: TileWorld, target: TargetKind, number: int, name: str, node: tree.Node, frame: Frame
) -> None:
    """Ids that two kinds of tasks take from one table."""
    if world.session.is_wse3:
        pair = {TargetKind.LOCAL_TASK, TargetKind.CONTROL_TASK}
    else:
        pair = {TargetKind.LOCAL_TASK, TargetKind.DATA_TASK}
    if target not in pair:
        return
    (other,) = pair - {target}
    holder = world.bound.get((other, number))
    if holder is None:
        return
    text = f"id {number} is bound to {other} '{holder}' already"
    if world.session.is_wse3:
        world.in_one_table.append((frame, node, text))
        return
    frame.fail(node, f"{text}; wse2 has one table for both")


def _argument_bits(
    task: FunctionValue, kind: TaskKind, node: tree.BuiltinCall, frame: Frame
) -> tuple[int, ...]:
    """Widths of a task's arguments in the payload."""
    signature = task.module.lookup(task.node.name, frame, node).type
    if not isinstance(signature, t.FunctionType):
        frame.silent()
    parameters = signature.parameters
    name = task.node.name
    if signature.result is not t.VOID:
        frame.fail(node.arguments[0], f"task '{name}' returns '{signature.result}'; a task is void")
    if kind is TaskKind.LOCAL and parameters:
        frame.fail(node.arguments[0], f"local task '{name}' cannot have parameters")
    if kind is TaskKind.DATA and not parameters:
        frame.fail(node.arguments[0], f"data task '{name}' needs a parameter for its wavelet")
    bits: list[int] = []
    for type_ in parameters:
        machine = type_.machine if type_ is not None else None
        if not isinstance(machine, Scalar) or machine.bits not in (16, 32):
            frame.fail(node.arguments[0], f"task '{name}' cannot take a '{type_}' from a wavelet")
        bits.append(machine.bits)
    if sum(bits) > 32 or (kind is TaskKind.CONTROL and sum(bits) > 16):
        limit = 16 if kind is TaskKind.CONTROL else 32
        frame.fail(
            node.arguments[0],
            f"the parameters of {kind} task '{name}' take {sum(bits)} bits; a wavelet has {limit}",
        )
    return tuple(bits)


def target_of(
    value: Value, node: tree.Node, frame: Frame, allowed: tuple[Type, ...], what: str
) -> Target:
    """A task id, color, queue or task as the target of an action."""
    if isinstance(value, Const) and isinstance(value.value, FunctionValue):
        return _bound_target(value.value, node, frame)
    if value.type not in allowed:
        kinds = ", ".join(f"'{type_}'" for type_ in allowed)
        frame.fail(node, f"{what} needs {kinds} or a task, got '{value.type}'")
    return Target(TARGETS[value.type], operand_of(value, node, frame))


def activated(
    value: Value, node: tree.Node, frame: Frame, allowed: tuple[Type, ...], what: str
) -> Target:
    """The target of an activation: a local task, whose binding is checked at the end."""
    target = target_of(value, node, frame, allowed, what)
    world = frame.world
    if isinstance(world, TileWorld) and isinstance(target.id, Constant):
        world.activated.setdefault(int(target.id.value), (frame, node))
    return target


def _bound_target(task: FunctionValue, node: tree.Node, frame: Frame) -> Target:
    """The id that a task is bound to; it may be bound later, so this is looked up at the end."""
    world = frame.world
    assert isinstance(world, TileWorld)
    return world.task_target(task, frame, node)


def blockable(frame: Frame) -> tuple[Type, ...]:
    """What `@block` and `@unblock` take on this architecture."""
    if frame.world.session.is_wse3:
        return (t.INPUT_QUEUE, t.DATA_TASK, t.LOCAL_TASK, t.MICROTHREAD)
    return (t.COLOR, t.DATA_TASK, t.LOCAL_TASK)


@builtin("activate", 1)
def _activate(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    world = code_world(node, frame)
    value = argument(node, 0, frame)
    target = activated(value, node.arguments[0], frame, (t.LOCAL_TASK,), "'@activate'")
    if frame.builder is None:
        world.active.append(target)
    else:
        frame.builder.emit(Activate(target, frame.position(node)))
    return VOID


@builtin("block", 1)
@builtin("unblock", 1)
def _block(node: tree.BuiltinCall, frame: Frame, expected: Type | None) -> Value:
    world = code_world(node, frame)
    value = argument(node, 0, frame)
    target = target_of(value, node.arguments[0], frame, blockable(frame), f"'@{node.name}'")
    blocked = node.name == "block"
    if frame.builder is not None:
        frame.builder.emit(SetBlocked(target, blocked, frame.position(node)))
        return VOID
    assert isinstance(target.id, Constant), "what is evaluated at compile time is known"
    world.blocked[target.kind, int(target.id.value)] = blocked
    return VOID
