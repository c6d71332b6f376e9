"""`if`, `switch` and blocks that have a value, and `switch` as a statement."""

from appliance.csl.program.instructions import Switch
from appliance.csl.program.types import Scalar
from appliance.csl.semantics.context.flow import Flow, Side
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.expressions.evaluate import (
    coerce,
    evaluate,
    handles,
    operand_of,
    where_known,
)
from appliance.csl.semantics.statements.statements import (
    SWITCH,
    condition_of,
    labelled_block,
    merged,
    nested,
    run_block,
    scoped,
)
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import VOID, Const, Value, is_poison
from appliance.csl.syntax import tree


@handles(tree.IfExpression)
def _if(node: tree.IfExpression, frame: Frame, expected: Type | None) -> Value:
    condition = condition_of(node.condition, frame)
    if isinstance(condition, Const):
        if condition.value:
            return evaluate(node.then, frame, expected)
        if node.otherwise is None:
            return VOID
        return evaluate(node.otherwise, frame, expected)
    if node.otherwise is None:
        frame.fail(node, "an 'if' whose condition is not known needs an 'else' to have a value")
    builder, position = frame.builder, frame.position(node)
    assert builder is not None
    then, otherwise = builder.new_block(), builder.new_block()
    builder.branch(operand_of(condition, node, frame), then, otherwise, position)
    merge = _Merge(node, frame, expected)
    merge.side(then, node.then)
    merge.side(otherwise, node.otherwise)
    return merge.value()


class _Merge:
    """The value of something whose sides are decided at run time."""

    def __init__(self, node: tree.Node, frame: Frame, expected: Type | None) -> None:
        assert frame.builder is not None
        self.node = node
        self.frame = frame
        self.builder = frame.builder
        self.expected = expected
        self.sides: list[Side] = []

    def side(self, block: int, body: tree.Expression | tree.Statement) -> None:
        """Evaluates one side in its block."""
        self.builder.go_to(block)
        self.frame.nesting += 1
        try:
            if isinstance(body, tree.Expression):
                value = evaluate(body, self.frame, self.expected)
            else:
                scoped(body, self.frame)
                value = VOID
        finally:
            self.frame.nesting -= 1
        if self.builder.is_open:
            self.sides.append(Side(self.builder.current, value, body))

    def value(self) -> Value:
        """Joins the sides; code goes on behind them."""
        expected = None if isinstance(self.expected, t.StructType) else self.expected
        done = self.builder.new_block()
        value = merged(self.sides, done, expected, self.node, self.frame)
        if not self.sides:
            self.builder.close(self.frame.position(self.node))
        return value


@handles(tree.BlockExpression)
def _block(node: tree.BlockExpression, frame: Frame, expected: Type | None) -> Value:
    if node.block.label is not None:
        return labelled_block(node.block, frame, expected)
    flow = run_block(node.block, frame)
    if flow is not None:
        frame.fail(node, "a block used as a value is left by 'break :label value' only")
    return VOID


@handles(tree.SwitchExpression)
def _switch(node: tree.SwitchExpression, frame: Frame, expected: Type | None) -> Value:
    operand = _operand(node, frame)
    if isinstance(operand, Const):
        case = _chosen(node, operand, frame)
        if case is None:
            return VOID
        if isinstance(case.body, tree.Expression):
            return evaluate(case.body, frame, expected)
        frame.fail(case, "this prong has no value")
    merge = _Merge(node, frame, expected)
    for block, case in _blocks(node, operand, frame):
        merge.side(block, case.body)
    return merge.value()


def _switch_statement(node: tree.SwitchExpression, frame: Frame) -> Flow | None:
    operand = _operand(node, frame)
    if isinstance(operand, Const):
        case = _chosen(node, operand, frame)
        if case is None:
            return None
        if isinstance(case.body, tree.Expression):
            evaluate(case.body, frame)
            return None
        return scoped(case.body, frame)
    builder, position = frame.builder, frame.position(node)
    assert builder is not None
    prongs = _blocks(node, operand, frame)
    done = builder.new_block()
    reached = False
    for block, case in prongs:
        builder.go_to(block)
        if isinstance(case.body, tree.Expression):
            evaluate(case.body, frame)
        else:
            nested(case.body, frame)
        reached = reached or builder.is_open
        builder.jump(done, position)
    builder.go_to(done)
    if not reached:
        builder.close(position)
    return None


SWITCH.append(_switch_statement)


def _operand(node: tree.SwitchExpression, frame: Frame) -> Value:
    value = evaluate(node.operand, frame)
    type_ = value.type
    if is_poison(value):
        frame.silent()
    text = f"'switch' takes an integer with a width or an enum, not '{type_}'"
    if type_ is t.COMPTIME_INT:
        frame.warn(node.operand, f"{text}; write @as(TYPE, ...)")
    elif not isinstance(type_, t.IntType | t.EnumType) and type_ is not t.BOOL:
        frame.fail(node.operand, text)
    return value


def _chosen(node: tree.SwitchExpression, operand: Const, frame: Frame) -> tree.SwitchCase | None:
    """The prong of a known value; all prongs are looked at, since each value has one."""
    numbers = _prongs(node, operand.type, frame)
    default = next((case for case in node.cases if not case.values), None)
    if default is None:
        _check_all_members(node, operand.type, set(numbers), frame)
    return numbers.get(int(operand.value), default)


def _prongs(node: tree.SwitchExpression, type_: Type, frame: Frame) -> dict[int, tree.SwitchCase]:
    """The prong of each number that is named."""
    found: dict[int, tree.SwitchCase] = {}
    for case in node.cases:
        for item in case.values:
            number = int(_case_value(item, type_, frame).value)
            if number in found:
                frame.fail(item, f"the value {number} is in two prongs")
            found[number] = case
    return found


def _case_value(item: tree.Expression, type_: Type, frame: Frame) -> Const:
    value = evaluate(item, where_known(item, frame), type_)
    value = coerce(value, type_, item, frame, "prong")
    if is_poison(value):
        frame.silent()
    if not isinstance(value, Const):
        frame.fail(item, "the value of a prong must be known at compile time")
    return value


def _blocks(
    node: tree.SwitchExpression, operand: Value, frame: Frame
) -> list[tuple[int, tree.SwitchCase]]:
    """Ends the block with a jump by value; the prongs with their blocks."""
    builder, position = frame.builder, frame.position(node)
    assert builder is not None
    machine = operand.type.machine
    assert isinstance(machine, Scalar), "an integer or enum at run time is in a register"
    numbers = _prongs(node, operand.type, frame)
    prongs = [(builder.new_block(), case) for case in node.cases]
    block_of = {id(case): block for block, case in prongs}
    pairs = [(number, block_of[id(case)]) for number, case in numbers.items()]
    default = next((block for block, case in prongs if not case.values), None)
    if default is None:
        _check_all_members(node, operand.type, set(numbers), frame)
        default = builder.new_block()
        builder.terminate(
            Switch(operand_of(operand, node, frame), machine, tuple(pairs), default, position)
        )
        builder.go_to(default)
        builder.close(position)
        return prongs
    builder.terminate(
        Switch(operand_of(operand, node, frame), machine, tuple(pairs), default, position)
    )
    return prongs


def _check_all_members(
    node: tree.SwitchExpression, type_: Type, values: set[int], frame: Frame
) -> None:
    if type_ is t.BOOL and len(values) == 2:
        return
    if isinstance(type_, t.EnumType):
        missing = [name for name, number in type_.members.items() if number not in values]
        if not missing:
            return
        frame.fail(node, f"'switch' has no prong for {', '.join(missing)}; add them or 'else'")
    if isinstance(type_, t.IntType) and len(values) == 1 << type_.bits:
        return
    frame.fail(node, f"'switch' on '{type_}' needs an 'else' prong")
