"""Statements: executed at compile time, or compiled to basic blocks."""

from collections.abc import Callable
from typing import Any

from appliance.csl.diagnostics import CslError
from appliance.csl.program.operands import Constant
from appliance.csl.program.types import Scalar
from appliance.csl.semantics.context.flow import Exit, Flow, Side
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.context.session import guard
from appliance.csl.semantics.expressions.access import copied, load, stable, store
from appliance.csl.semantics.expressions.evaluate import coerce, evaluate, operand_of, type_of_node
from appliance.csl.semantics.expressions.operators import binary_operation
from appliance.csl.semantics.expressions.peers import LITERALS, peer_type
from appliance.csl.semantics.expressions.places import new_variable, place_of
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.place_kinds import Cell, InRegister
from appliance.csl.semantics.values.values import POISON, VOID, Const, Value, is_poison
from appliance.csl.syntax import tree

# Each handler takes its own kind of statement.
_Handler = Callable[[Any, Frame], Flow | None]
STATEMENTS: dict[type, _Handler] = {}


def executes(kind: type) -> Callable[[_Handler], _Handler]:
    """Registers the function that executes a kind of statement."""

    def register(handler: _Handler) -> _Handler:
        STATEMENTS[kind] = handler
        return handler

    return register


def execute(node: tree.Statement, frame: Frame) -> Flow | None:
    """Executes a statement, or emits its code."""
    if frame.builder is None:
        frame.spend_statement(node)
    return STATEMENTS[node.__class__](node, frame)


def run_block(node: tree.Block, frame: Frame) -> Flow | None:
    """Executes statements up to the end or the first that leaves.

    In code that runs, an error ends one statement and the next is analysed; at compile time
    it ends everything, since later statements would use what is missing.
    """
    mark = len(frame.undo)
    builder = frame.builder
    try:
        for statement in node.statements:
            if builder is None:
                frame.spend_statement(statement)
                flow = STATEMENTS[statement.__class__](statement, frame)
            else:
                flow = _guarded(statement, frame)
                if flow is None and not builder.is_open:
                    return None
            if flow is not None:
                return flow
        return None
    except _Escape as escape:
        return escape.flow
    finally:
        if len(frame.undo) != mark:
            frame.leave_block(mark)


def _guarded(statement: tree.Statement, frame: Frame) -> Flow | None:
    try:
        return STATEMENTS[statement.__class__](statement, frame)
    except CslError as error:
        guard(frame.world.session, error)
        if frame.builder is not None:
            frame.builder.has_errors = True
        if isinstance(statement, tree.Declaration):
            frame.declare(statement.name, POISON)
        return None


@executes(tree.Block)
def _block(node: tree.Block, frame: Frame) -> Flow | None:
    if node.label is None:
        return run_block(node, frame)
    labelled_block(node, frame, None)
    return None


def labelled_block(node: tree.Block, frame: Frame, expected: t.Type | None) -> Value:
    """A block that `break :label value` can leave; its value."""
    frame.check_release(node, "a label")
    check_label(node.label, node, frame)
    target = Exit(node.label, nesting=frame.nesting, is_loop=False, type_=expected)
    frame.exits.append(target)
    try:
        flow = run_block(node, frame)
    finally:
        frame.exits.pop()
    return land(target, flow, node, frame)


def check_label(label: str | None, node: tree.Node, frame: Frame) -> None:
    """A label is not around itself."""
    if label is not None and any(target.label == label for target in frame.exits):
        frame.fail(node, f"redefinition of label '{label}'")


def land(target: Exit, flow: Flow | None, node: tree.Node, frame: Frame) -> Value:
    """Where code goes on after a block or inlined function was left; the value it has."""
    if flow is not None and flow.target is not target:
        raise _Escape(flow)
    if target.break_block is None:
        return flow.value if flow is not None else VOID
    builder = frame.builder
    assert builder is not None
    sides = list(target.sides)
    if flow is not None and flow.value.type is not t.VOID:
        sides.append(Side(builder.current, flow.value, node))
    elif sides and builder.is_open:
        frame.fail(node, "this block may end without a value; end it with 'break :label value'")
    else:
        builder.jump(target.break_block, frame.position(node))
    where = sides[0].node if sides else node
    return merged(sides, target.break_block, target.type, where, frame)


def merged(
    sides: list[Side], done: int, expected: t.Type | None, node: tree.Node, frame: Frame
) -> Value:
    """The value that several ways bring to the block `done`, in which code goes on."""
    builder = frame.builder
    assert builder is not None
    type_ = _common_type(sides, expected, node, frame)
    if type_ is not t.VOID and t.is_comptime_only(type_):
        frame.fail(node, f"a value of type '{type_}' cannot depend on a run-time condition")
    place = None if type_ is t.VOID else new_variable(type_, "", node, frame)
    for side in sides:
        builder.go_to(side.block)
        if place is not None:
            value = coerce(side.value, type_, side.node, frame, "value")
            store(place, value, side.node, frame)
        builder.jump(done, frame.position(node))
    builder.go_to(done)
    return VOID if place is None else load(place, node, frame)


def _common_type(
    sides: list[Side], expected: t.Type | None, node: tree.Node, frame: Frame
) -> t.Type:
    """The one type of all sides; known numbers and narrower types adapt to the others."""
    found = list(dict.fromkeys(side.value.type for side in sides))
    if t.POISON in found:
        frame.silent()
    if not found:
        return t.VOID
    peer = peer_type(found)
    if expected is not None:
        return peer if peer is not None and _meet_in(peer, expected, sides) else expected
    if peer is None:
        kinds = " and ".join(f"'{item}'" for item in found if item not in LITERALS)
        frame.fail(node, f"the sides have different types: {kinds}")
    if peer in LITERALS:
        frame.fail(node, f"'{peer}' needs a type at run time; write @as(TYPE, ...)")
    return peer


def _meet_in(peer: t.Type, expected: t.Type, sides: list[Side]) -> bool:
    """Whether sides have a type of their own, to which their literals adapt.

    What is expected around them is then no matter of theirs: `@as(u32, if (c) a else b)` and
    `a + if (c) b else 1` in a `u32` compute in the type of `a` and `b`, as without a condition;
    where an operation takes a number or a DSD, the sides are DSDs.
    """
    if not isinstance(peer, t.IntType | t.FloatType):
        is_number = isinstance(expected, t.IntType | t.FloatType)
        return peer is t.BOOL or (is_number and peer not in LITERALS)
    literals = [side.value for side in sides if side.value.type in LITERALS]
    if isinstance(peer, t.FloatType):
        return True
    return all(
        isinstance(item, Const) and isinstance(item.value, int)
        and peer.low <= item.value <= peer.high
        for item in literals
    )  # fmt: skip


class _Escape(Exception):
    """A block used as a value was left by a `break` or `return` of something around it."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow


@executes(tree.ExpressionStatement)
def _expression(node: tree.ExpressionStatement, frame: Frame) -> Flow | None:
    value = node.value
    if isinstance(value, tree.SwitchExpression):
        return SWITCH[0](value, frame)
    result = evaluate(value, frame)
    may_stand_alone = tree.Call | tree.BuiltinCall | tree.BlockExpression | tree.Comptime
    if not isinstance(value, may_stand_alone) and not is_poison(result):
        frame.warn(node, "the value of this expression is not used")
    return None


SWITCH: list[Callable[[tree.SwitchExpression, Frame], Flow | None]] = []
"""How a `switch` statement is executed; `control` puts it here."""


@executes(tree.Declaration)
def _declaration(node: tree.Declaration, frame: Frame) -> Flow | None:
    if node.kind == "param":
        frame.fail(node, "a param is declared at the top of a file only")
    _check_redefinition(node, frame)
    declared = type_of_node(node.type, frame) if node.type else None
    if node.value is None:
        if node.kind == "const":
            frame.fail(node, f"const '{node.name}' has no value")
        if declared is None:
            frame.fail(node, f"'{node.name}' needs a type or a value")
        _uninitialised(node, declared, frame)
        return None
    value = evaluate(node.value, frame, declared)
    if is_poison(value):
        frame.declare(node.name, POISON)
        return None
    if declared is not None:
        value = coerce(value, declared, node.value, frame, f"'{node.name}'")
    if node.kind == "const":
        frame.declare(node.name, stable(value, node, frame))
    else:
        _variable(node, value, frame)
    return None


def _check_redefinition(node: tree.Declaration, frame: Frame) -> None:
    if node.name in frame.locals:
        span = (node.name_start, node.name_start + len(node.name))
        frame.fail(span, f"redefinition of '{node.name}'")


def _variable(node: tree.Declaration, value: Value, frame: Frame) -> None:
    if frame.builder is None:
        assert isinstance(value, Const), "what is evaluated at compile time is known"
        frame.spend_value(node, value.type)
        raw = copied(value.type, value.value)
        cell = Cell(value.type, [Const(value.type, raw)], nesting=frame.nesting)
        frame.declare(node.name, cell)
        return
    if t.is_comptime_only(value.type) or value.type is t.VOID:
        text = f"variable of type '{value.type}' must be comptime-known{t.remedy_of(value.type)}"
        is_number = value.type in (t.COMPTIME_INT, t.COMPTIME_FLOAT)
        example = "i16" if value.type is t.COMPTIME_INT else "f32"
        remedy = f"; give it a type, as in 'var {node.name}: {example}'" if is_number else ""
        frame.fail(node, text + remedy)
    place = new_variable(value.type, node.name, node, frame)
    store(place, value, node, frame)
    frame.declare(node.name, place)


def _uninitialised(node: tree.Declaration, type_: t.Type, frame: Frame) -> None:
    if frame.builder is None:
        frame.spend_value(node, type_)
        zero = zero_value(type_)
        frame.declare(node.name, Cell(type_, [Const(type_, zero)], nesting=frame.nesting))
        return
    if t.is_comptime_only(type_) or type_ is t.VOID:
        text = f"variable of type '{type_}' must be comptime-known{t.remedy_of(type_)}"
        frame.fail(node, text)
    place = new_variable(type_, node.name, node, frame)
    if isinstance(place, InRegister) and isinstance(type_.machine, Scalar):
        frame.builder.move(
            place.register, Constant(type_.machine, zero_value(type_)), frame.position(node)
        )
    frame.declare(node.name, place)


def zero_value(type_: t.Type) -> Any:  # noqa: ANN401 - raw values, see Const
    """The raw value of a variable that was given none."""
    if isinstance(type_, t.ArrayType):
        return [zero_value(type_.element)] * type_.count
    if isinstance(type_, t.StructType):
        return tuple([Const(field, zero_value(field)) for field in type_.field_types])
    if isinstance(type_, t.FloatType) or type_ is t.COMPTIME_FLOAT:
        return 0.0
    if type_ is t.BOOL:
        return False
    if type_ is t.STRING:
        return b""
    return 0


@executes(tree.Assignment)
def _assignment(node: tree.Assignment, frame: Frame) -> Flow | None:
    target = node.target
    if isinstance(target, tree.Name) and target.name == "_" and node.op == "=":
        evaluate(node.value, frame)
        return None
    place = place_of(target, frame)
    type_ = place.declared if isinstance(place, Cell) else place.type
    if type_ is t.POISON:
        frame.silent()
    if node.op == "=":
        value = evaluate(node.value, frame, type_)
    else:
        current = load(place, target, frame)
        change = evaluate(node.value, frame, t.U16 if node.op in ("<<=", ">>=") else type_)
        if is_poison(change):
            frame.silent()
        value = binary_operation(node.op[:-1], current, change, node, frame)
    if is_poison(value):
        return None
    store(place, coerce(value, type_, node.value, frame, "assignment"), node, frame)
    return None


@executes(tree.ComptimeStatement)
def _comptime(node: tree.ComptimeStatement, frame: Frame) -> Flow | None:
    inner = frame.comptime()
    return execute(node.body, inner)


@executes(tree.Return)
def _return(node: tree.Return, frame: Frame) -> Flow | None:
    target = frame.function_exit
    if target is None:
        frame.fail(node, "'return' outside a function")
    result = target.type
    value = evaluate(node.value, frame, result) if node.value is not None else VOID
    if is_poison(value):
        frame.silent()
    if result is not None:
        where = node.value or node
        value = coerce(value, result, where, frame, "return value")
    return leave(target, "return", value, node, frame)


def leave(target: Exit, kind: str, value: Value, node: tree.Statement, frame: Frame) -> Flow | None:
    """Leaves something: by a `Flow` in straight-line code, by a jump from inside a branch."""
    builder = frame.builder
    direct = target.is_unrolled and frame.nesting == target.nesting
    if builder is None or direct:
        return Flow(kind, target, value)
    position = frame.position(node)
    if kind == "continue":
        if target.continue_block is None:
            target.continue_block = builder.new_block()
        builder.jump(target.continue_block, position)
        return None
    if target.break_block is None:
        target.break_block = builder.new_block()
    if value.type is t.VOID:
        builder.jump(target.break_block, position)
        return None
    block = builder.new_block()
    builder.jump(block, position)
    target.sides.append(Side(block, value, node))
    return None


@executes(tree.Break)
def _break(node: tree.Break, frame: Frame) -> Flow | None:
    target = _target(node.label, node, frame, needs_loop=node.label is None)
    value = evaluate(node.value, frame, target.type) if node.value is not None else VOID
    if node.value is not None and target.is_loop:
        frame.fail(node, "a loop has no value")
    return leave(target, "break", value, node, frame)


@executes(tree.Continue)
def _continue(node: tree.Continue, frame: Frame) -> Flow | None:
    return leave(_target(node.label, node, frame, needs_loop=True), "continue", VOID, node, frame)


def _target(label: str | None, node: tree.Node, frame: Frame, *, needs_loop: bool) -> Exit:
    if label is not None:
        frame.check_release(node, "a label")
    for target in reversed(frame.exits):
        if needs_loop and not target.is_loop:
            continue
        if label is None or target.label == label:
            return target
    if label is not None:
        frame.fail(node, f"label '{label}' is not around this statement")
    frame.fail(node, "this is not inside a loop")


def condition_of(node: tree.Expression, frame: Frame) -> Value:
    """The value of a condition, which is a bool."""
    value = evaluate(node, frame, t.BOOL)
    if is_poison(value):
        frame.silent()
    if value.type is not t.BOOL:
        frame.fail(node, f"a condition must be a bool, got '{value.type}'")
    return value


@executes(tree.If)
def _if(node: tree.If, frame: Frame) -> Flow | None:
    condition = condition_of(node.condition, frame)
    if isinstance(condition, Const):
        if condition.value:
            return scoped(node.then, frame)
        return scoped(node.otherwise, frame) if node.otherwise is not None else None
    builder, position = frame.builder, frame.position(node)
    assert builder is not None
    then, done = builder.new_block(), builder.new_block()
    otherwise = builder.new_block() if node.otherwise is not None else done
    builder.branch(operand_of(condition, node, frame), then, otherwise, position)
    builder.go_to(then)
    nested(node.then, frame)
    reached = builder.is_open or node.otherwise is None
    builder.jump(done, position)
    if node.otherwise is not None:
        builder.go_to(otherwise)
        nested(node.otherwise, frame)
        reached = reached or builder.is_open
        builder.jump(done, position)
    builder.go_to(done)
    if not reached:
        builder.close(position)
    return None


def scoped(node: tree.Statement, frame: Frame) -> Flow | None:
    """Executes a statement whose declarations end with it."""
    if isinstance(node, tree.Block):
        return execute(node, frame)
    mark = len(frame.undo)
    try:
        return execute(node, frame)
    finally:
        frame.leave_block(mark)


def nested(node: tree.Statement, frame: Frame) -> None:
    """Emits code that may or may not run: what leaves from there jumps."""
    frame.nesting += 1
    try:
        flow = scoped(node, frame)
        assert flow is None
    finally:
        frame.nesting -= 1
