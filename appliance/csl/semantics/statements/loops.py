"""`while` and `for`: executed at compile time, unrolled, or compiled to basic blocks."""

from appliance.csl.program.code import MEMORY_BYTES
from appliance.csl.program.operands import Constant, Operand, Register
from appliance.csl.program.types import BOOL, POINTER, Scalar
from appliance.csl.semantics.context.builder import FunctionBuilder
from appliance.csl.semantics.context.flow import Exit, Flow
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.expressions.access import load, stable
from appliance.csl.semantics.expressions.evaluate import operand_of, where_known
from appliance.csl.semantics.expressions.places import element_of, place_of
from appliance.csl.semantics.statements.statements import (
    check_label,
    condition_of,
    execute,
    executes,
    nested,
    run_block,
)
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.place_kinds import Place, part_of
from appliance.csl.semantics.values.values import Const, Mixed, Runtime, Value
from appliance.csl.syntax import tree

MAX_INSTRUCTIONS = MEMORY_BYTES
"""Of one function whose loops are unrolled: more never fit, whatever else is there."""


@executes(tree.While)
def _while(node: tree.While, frame: Frame) -> Flow | None:
    if frame.builder is None or node.is_inline:
        return _while_unrolled(node, frame)
    _while_blocks(node, frame)
    return None


def _while_unrolled(node: tree.While, frame: Frame) -> Flow | None:
    check_label(node.label, node, frame)
    target = Exit(node.label, nesting=frame.nesting, is_loop=True)
    turns = 0
    while True:
        condition = condition_of(node.condition, where_known(node.condition, frame))
        if not isinstance(condition, Const):
            frame.fail(node.condition, "the condition of an unrolled loop must be known")
        if not condition.value:
            break
        turns += 1
        count_turn(turns, node, frame)
        flow = _turn(node.body, target, frame)
        if flow is not None:
            if flow.target is not target:
                return flow
            if flow.kind == "break":
                break
        if node.step is not None:
            execute(node.step, frame)
    _land_unrolled(target, node, frame)
    return None


def count_turn(turns: int, node: tree.Statement, frame: Frame) -> None:
    """Counts a turn of a loop at compile time, or of one that is unrolled."""
    session = frame.world.session
    if frame.builder is None:
        frame.spend_statement(node)
    else:
        frame.spend(node)
    limit = session.options.max_inlined_iterations
    if frame.builder is not None and turns > limit:
        frame.fail(node, f"exceeded the maximum of {limit} inlined iterations")
    if frame.builder is not None and frame.builder.num_emitted > MAX_INSTRUCTIONS:
        frame.fail(node, f"'{frame.builder.name}' becomes larger than the memory of a PE")


def _turn(body: tree.Statement, target: Exit, frame: Frame) -> Flow | None:
    """One turn of an unrolled loop; `continue` from inside a branch lands at its end."""
    frame.exits.append(target)
    builder = frame.builder
    try:
        flow = (
            run_block(body, frame)
            if isinstance(body, tree.Block) and body.label is None
            else execute(body, frame)
        )
    finally:
        frame.exits.pop()
    if builder is not None and target.continue_block is not None:
        position = frame.position(body)
        builder.jump(target.continue_block, position)
        builder.go_to(target.continue_block)
        target.continue_block = None
    return flow


def _land_unrolled(target: Exit, node: tree.Node, frame: Frame) -> None:
    if target.break_block is not None:
        assert frame.builder is not None
        frame.builder.jump(target.break_block, frame.position(node))
        frame.builder.go_to(target.break_block)


def _while_blocks(node: tree.While, frame: Frame) -> None:
    builder, position = frame.builder, frame.position(node)
    assert builder is not None
    head, body, done = builder.new_block(), builder.new_block(), builder.new_block()
    builder.jump(head, position)
    builder.go_to(head)
    condition = condition_of(node.condition, frame)
    if isinstance(condition, Const):
        builder.jump(body if condition.value else done, position)
        if not condition.value:
            builder.go_to(done)
            return
    else:
        builder.branch(operand_of(condition, node, frame), body, done, position)
    target = _loop_exit(node, frame)
    builder.go_to(body)
    _body(node.body, target, frame)
    _close_turn(target, builder, node, frame)
    if node.step is not None:
        frame.nesting += 1
        execute(node.step, frame)
        frame.nesting -= 1
    builder.jump(head, position)
    _finish(target, done, builder, node, frame, endless=isinstance(condition, Const))


def _loop_exit(node: tree.While | tree.For, frame: Frame) -> Exit:
    check_label(node.label, node, frame)
    return Exit(node.label, nesting=frame.nesting, is_loop=True, is_unrolled=False)


def _body(body: tree.Statement, target: Exit, frame: Frame) -> None:
    frame.exits.append(target)
    try:
        nested(body, frame)
    finally:
        frame.exits.pop()


def _close_turn(target: Exit, builder: FunctionBuilder, node: tree.Node, frame: Frame) -> None:
    if target.continue_block is not None:
        builder.jump(target.continue_block, frame.position(node))
        builder.go_to(target.continue_block)


def _finish(
    target: Exit, done: int, builder: FunctionBuilder, node: tree.Node, frame: Frame,
    *, endless: bool = False,
) -> None:  # fmt: skip
    """Goes on after the loop; behind an endless one only if something breaks out."""
    position = frame.position(node)
    if target.break_block is not None:
        builder.go_to(target.break_block)
        builder.jump(done, position)
    builder.go_to(done)
    if endless and target.break_block is None:
        builder.close(position)


@executes(tree.For)
def _for(node: tree.For, frame: Frame) -> Flow | None:
    if node.is_inline:
        frame.check_release(node, "inline for")
    where = where_known(node.sequence, frame) if node.is_inline else frame
    sequence = place_of(node.sequence, where)
    if sequence.type is t.POISON:
        frame.silent()
    if isinstance(sequence.type, t.RangeType):
        value = load(sequence, node.sequence, frame)
        if frame.builder is None or node.is_inline:
            return _range_unrolled(node, value, frame)
        _range_blocks(node, sequence.type, value, frame)
        return None
    type_ = sequence.type
    is_tuple = isinstance(type_, t.StructType) and type_.is_tuple
    if not isinstance(type_, t.ArrayType) and not is_tuple:
        frame.fail(node.sequence, f"'for' needs a range or an array, got '{type_}'")
    if isinstance(type_, t.ArrayType) and len(type_.dimensions) != 1:
        frame.fail(node.sequence, f"'for' needs an array of one dimension, got '{type_}'")
    if frame.builder is None or node.is_inline or is_tuple:
        return _array_unrolled(node, sequence, frame)
    _array_blocks(node, sequence, frame)
    return None


def _range_unrolled(node: tree.For, value: Value, frame: Frame) -> Flow | None:
    if not isinstance(value, Const):
        frame.fail(node.sequence, "the range of an unrolled loop must be known")
    assert isinstance(value.type, t.RangeType)
    element = value.type.element
    turns = (Const(element, item) for item in range(*value.value))
    return _unrolled(node, turns, frame)


def _array_unrolled(node: tree.For, sequence: Place, frame: Frame) -> Flow | None:
    type_ = sequence.type
    if isinstance(type_, t.ArrayType):
        places = (
            element_of(sequence, [Const(t.U16, at)], node, frame) for at in range(type_.count)
        )
    else:
        assert isinstance(type_, t.StructType)
        places = (part_of(sequence, at) for at in range(len(type_.field_types)))
    return _unrolled(node, (load(place, node, frame) for place in places), frame)


def _unrolled(node: tree.For, items, frame: Frame) -> Flow | None:  # type: ignore[no-untyped-def] # noqa: ANN001
    check_label(node.label, node, frame)
    target = Exit(node.label, nesting=frame.nesting, is_loop=True)
    mark = len(frame.undo)
    for at, item in enumerate(items):
        count_turn(at + 1, node, frame)
        frame.declare(node.item.name, stable(item, node, frame))
        if node.index is not None:
            frame.declare(node.index.name, Const(t.U16, at))
        try:
            flow = _turn(node.body, target, frame)
        finally:
            frame.leave_block(mark)
        if flow is not None:
            if flow.target is not target:
                return flow
            if flow.kind == "break":
                break
    _land_unrolled(target, node, frame)
    return None


def _range_blocks(node: tree.For, type_: t.RangeType, value: Value, frame: Frame) -> None:
    start, stop, step = _bounds(value, type_)
    machine = type_.element.machine
    if not isinstance(machine, Scalar):
        frame.fail(
            node.sequence, f"a range of '{type_.element}' cannot run; give a type of fixed width"
        )
    down = isinstance(step, Const) and step.value < 0
    op = "gt" if down else "lt"
    counter = _Counter(
        frame, node, machine, operand_of(start, node, frame), operand_of(stop, node, frame)
    )
    by = counter.kept(operand_of(step, node, frame))
    if machine.is_signed and not isinstance(step, Const):
        counter.follow_sign(by)
    counter.begin(op)
    is_simple = isinstance(step, Const) and (abs(step.value) == 1 or _stays_inside(value, type_))
    item = Runtime(type_.element, counter.register)
    counter.run(item, is_simple=is_simple, step=by, down=down)


def _bounds(value: Value, type_: t.RangeType) -> tuple[Value, Value, Value]:
    if isinstance(value, Const):
        start, stop, step = (Const(type_.element, bound) for bound in value.value)
        return start, stop, step
    assert isinstance(value, Mixed)
    start_value, stop_value, step_value = value.fields
    return start_value, stop_value, step_value


def _stays_inside(value: Value, type_: t.RangeType) -> bool:
    """Whether a known range ends before its type's last value, so that counting cannot wrap."""
    if not isinstance(value, Const) or not isinstance(type_.element, t.IntType):
        return False
    _, stop, step = value.value
    return bool(type_.element.low <= stop + step <= type_.element.high)


class _Counter:
    """The blocks of a counting loop."""

    def __init__(
        self, frame: Frame, node: tree.For, machine: Scalar, start: Operand, stop: Operand
    ) -> None:
        assert frame.builder is not None
        self.frame = frame
        self.node = node
        self.machine = machine
        self.builder = frame.builder
        self.position = frame.position(node)
        self.mask: Register | None = None
        self.stop = self.kept(stop)
        self.register = self.builder.register(machine, node.item.name)
        self.builder.move(self.register, start, self.position)
        self.done = self.builder.new_block()
        self.body = self.builder.new_block()
        self.ordinal: Register | None = None
        if node.index is not None:
            self.ordinal = self.builder.register(POINTER, node.index.name)
            self.builder.move(self.ordinal, Constant(POINTER, 0), self.position)

    def kept(self, operand: Operand) -> Operand:
        """A bound that the loop's body cannot change."""
        if not isinstance(operand, Register) or not self.builder.names[operand.index]:
            return operand
        copy = self.builder.register(self.machine)
        self.builder.move(copy, operand, self.position)
        return copy

    def follow_sign(self, step: Operand) -> None:
        """Counts up or down, as the sign of a step says that is computed.

        Where it is negative numbers are compared with all their bits inverted, which reverses
        their order and keeps their distances.
        """
        builder, machine, position = self.builder, self.machine, self.position
        is_down = builder.binary("lt", machine, step, Constant(machine, 0), position)
        one = builder.convert(is_down, BOOL, machine, position)
        self.mask = builder.binary("sub", machine, Constant(machine, 0), one, position)

    def _key(self, operand: Operand) -> Operand:
        """A number as it is compared."""
        if self.mask is None:
            return operand
        return self.builder.binary("xor", self.machine, operand, self.mask, self.position)

    def begin(self, op: str) -> None:
        """Skips the loop if there is nothing to count."""
        self.op = op
        here, stop = self._key(self.register), self._key(self.stop)
        inside = self.builder.binary(op, self.machine, here, stop, self.position)
        self.builder.branch(inside, self.body, self.done, self.position)
        self.builder.go_to(self.body)

    def run(self, item: Value, *, is_simple: bool, step: Operand, down: bool) -> None:
        """The body, then the next number or the end."""
        builder, frame, node = self.builder, self.frame, self.node
        mark = len(frame.undo)
        frame.declare(node.item.name, item)
        if node.index is not None and self.ordinal is not None:
            frame.declare(node.index.name, Runtime(t.U16, self.ordinal))
        target = _loop_exit(node, frame)
        try:
            _body(node.body, target, frame)
        finally:
            frame.leave_block(mark)
        _close_turn(target, builder, node, frame)
        if self.ordinal is not None:
            counted = builder.binary(
                "add", POINTER, self.ordinal, Constant(POINTER, 1), self.position
            )
            builder.move(self.ordinal, counted, self.position)
        if is_simple:
            self._next(step)
            more = builder.binary(self.op, self.machine, self.register, self.stop, self.position)
        else:
            more = self._is_farther(step, down=down)
            following = builder.new_block()
            builder.branch(more, following, self.done, self.position)
            builder.go_to(following)
            self._next(step)
            more = None
        if more is None:
            builder.jump(self.body, self.position)
        else:
            builder.branch(more, self.body, self.done, self.position)
        _finish(target, self.done, builder, node, frame)

    def _next(self, step: Operand) -> None:
        following = self.builder.binary("add", self.machine, self.register, step, self.position)
        self.builder.move(self.register, following, self.position)

    def _is_farther(self, step: Operand, *, down: bool) -> Register:
        """Whether the end is more than a step away; asked before counting, which might wrap."""
        unsigned = Scalar("uint", self.machine.bits)
        builder, position = self.builder, self.position
        here, stop = self._key(self.register), self._key(self.stop)
        first, second = (here, stop) if down else (stop, here)
        distance = builder.binary("sub", self.machine, first, second, position)
        if down and isinstance(step, Constant):
            step = Constant(self.machine, -step.value)
        apart = builder.convert(distance, self.machine, unsigned, position, bitwise=True)
        size: Operand = step
        if isinstance(step, Constant):
            size = Constant(unsigned, step.value)
        elif self.mask is not None:  # Of a negative step, the bits inverted and one added.
            size = builder.binary("sub", self.machine, self._key(step), self.mask, position)
            size = builder.convert(size, self.machine, unsigned, position, bitwise=True)
        return builder.binary("gt", unsigned, apart, size, position)


def _array_blocks(node: tree.For, sequence: Place, frame: Frame) -> None:
    type_ = sequence.type
    assert isinstance(type_, t.ArrayType)
    if type_.count == 0:
        return
    builder, position = frame.builder, frame.position(node)
    assert builder is not None
    at = builder.register(POINTER, node.index.name if node.index else "")
    builder.move(at, Constant(POINTER, 0), position)
    body, done = builder.new_block(), builder.new_block()
    builder.jump(body, position)
    builder.go_to(body)
    mark = len(frame.undo)
    index = Runtime(t.U16, at)
    item = load(element_of(sequence, [index], node, frame), node, frame)
    frame.declare(node.item.name, stable(item, node, frame))
    if node.index is not None:
        frame.declare(node.index.name, index)
    target = _loop_exit(node, frame)
    try:
        _body(node.body, target, frame)
    finally:
        frame.leave_block(mark)
    _close_turn(target, builder, node, frame)
    following = builder.binary("add", POINTER, at, Constant(POINTER, 1), position)
    builder.move(at, following, position)
    more = builder.binary("lt", POINTER, at, Constant(POINTER, type_.count), position)
    builder.branch(more, body, done, position)
    _finish(target, done, builder, node, frame)
