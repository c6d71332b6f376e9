"""Literals, names, operators, members, indices: the expressions without a body."""

from appliance.csl.program.operands import Constant
from appliance.csl.program.types import BOOL as M_BOOL
from appliance.csl.program.types import Scalar
from appliance.csl.semantics.context.frames import Frame
from appliance.csl.semantics.expressions.access import load
from appliance.csl.semantics.expressions.evaluate import (
    coerce,
    converted,
    evaluate,
    handles,
    is_integer,
    is_number,
    operand_of,
)
from appliance.csl.semantics.expressions.peers import LITERALS, wider
from appliance.csl.semantics.expressions.places import address_of, place_of
from appliance.csl.semantics.values import numbers
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import Type
from appliance.csl.semantics.values.values import (
    POISON,
    Const,
    Mixed,
    Runtime,
    Value,
    boolean,
    is_poison,
)
from appliance.csl.syntax import tree

_NAMES = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "%": "rem", "&": "and", "|": "or", "^": "xor",
    "<<": "shl", ">>": "shr", "==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge",
}  # fmt: skip
_OF_INTEGERS = frozenset(("&", "|", "^", "<<", ">>", "%"))
_LOGICAL = frozenset(("and", "or"))
_SHIFTS = frozenset(("<<", ">>"))
_EQUALITY = frozenset(("==", "!="))


@handles(tree.IntLiteral)
def _int(node: tree.IntLiteral, frame: Frame, expected: Type | None) -> Value:
    return Const(t.COMPTIME_INT, node.value)


@handles(tree.FloatLiteral)
def _float(node: tree.FloatLiteral, frame: Frame, expected: Type | None) -> Value:
    return Const(t.COMPTIME_FLOAT, node.value)


@handles(tree.StringLiteral)
def _string(node: tree.StringLiteral, frame: Frame, expected: Type | None) -> Value:
    return Const(t.STRING, node.value)


@handles(tree.Name)
def _name(node: tree.Name, frame: Frame, expected: Type | None) -> Value:
    binding = frame.locals.get(node.name)
    if binding is None:
        binding = frame.module.lookup(node.name, frame, node)  # type: ignore[assignment] # below
    if binding.__class__ is Const:
        return binding
    return load(place_of(node, frame), node, frame)


@handles(tree.Index)
@handles(tree.Dereference)
def _place(node: tree.Expression, frame: Frame, expected: Type | None) -> Value:
    return load(place_of(node, frame), node, frame)


@handles(tree.Member)
def _member(node: tree.Member, frame: Frame, expected: Type | None) -> Value:
    operand = node.operand
    if isinstance(operand, tree.Name | tree.Member):
        owner = place_of(operand, frame)
        if owner.type is not t.TYPE and owner.type is not t.POISON:
            return load(place_of(node, frame), node, frame)
        value = load(owner, operand, frame)
    else:
        value = evaluate(operand, frame)
        if value.type is not t.TYPE and value.type is not t.POISON:
            return load(place_of(node, frame), node, frame)
    if is_poison(value):
        return POISON
    return _enum_member(value, node, frame)


def _enum_member(value: Value, node: tree.Member, frame: Frame) -> Value:
    assert isinstance(value, Const)
    type_ = value.value
    if not isinstance(type_, t.EnumType):
        frame.fail(node, f"type '{type_}' has no members")
    number = type_.members.get(node.name)
    if number is None:
        frame.fail((node.name_start, node.end), f"enum '{type_}' has no member '{node.name}'")
    return Const(type_, number)


@handles(tree.Comptime)
def _comptime(node: tree.Comptime, frame: Frame, expected: Type | None) -> Value:
    return evaluate(node.operand, frame.comptime(), expected)


@handles(tree.Unary)
def _unary(node: tree.Unary, frame: Frame, expected: Type | None) -> Value:
    if node.op == "&":
        return _address(node, frame)
    value = evaluate(node.operand, frame, expected)
    if is_poison(value):
        return POISON
    if node.op == "!":
        return _not(value, node, frame)
    if node.op == "~" and not isinstance(value.type, t.IntType):
        is_literal = value.type is t.COMPTIME_INT
        remedy = "; its width is not known: write ~@as(TYPE, ...)" if is_literal else ""
        frame.fail(node, f"'~' does not apply to '{value.type}'{remedy}")
    elif not is_number(value.type):
        frame.fail(node, f"'{node.op}' does not apply to '{value.type}'")
    if isinstance(value, Const):
        number = -value.value if node.op == "-" else ~value.value
        if isinstance(value.type, t.IntType):
            number = numbers.wrap(number, value.type)
        return Const(value.type, number)
    assert isinstance(value, Runtime)
    machine = value.type.machine
    assert isinstance(machine, Scalar)
    assert frame.builder is not None
    op = "neg" if node.op == "-" else "not"
    return Runtime(
        value.type, frame.builder.unary(op, machine, value.operand, frame.position(node))
    )


def _not(value: Value, node: tree.Unary, frame: Frame) -> Value:
    if value.type is not t.BOOL:
        frame.fail(node, f"'!' needs a bool, got '{value.type}'")
    if isinstance(value, Const):
        return boolean(not value.value)
    assert isinstance(value, Runtime)
    assert frame.builder is not None
    return Runtime(t.BOOL, frame.builder.unary("not", M_BOOL, value.operand, frame.position(node)))


def _address(node: tree.Unary, frame: Frame) -> Value:
    place = place_of(node.operand, frame)
    if isinstance(place.type, t.FunctionType):
        value = load(place, node, frame)
        if isinstance(value, Const) and value.value.node.is_inline:
            frame.fail(node, f"inline function '{value.value.node.name}' has no address")
        return Const(t.pointer_type(place.type, const=True), value.value)  # type: ignore[union-attr] # functions are known
    if place.type is t.POISON:
        return POISON
    if _is_part_of_literal(node.operand):
        frame.fail(node, "only variables have addresses, not parts of a literal")
    return address_of(place, node, frame)


def _is_part_of_literal(node: tree.Expression) -> bool:
    """Whether an expression names an element or a field of `T{...}`."""
    is_part = False
    while isinstance(node, tree.Index | tree.Member):
        node, is_part = node.operand, True
    return is_part and isinstance(node, tree.Initializer)


@handles(tree.Binary)
def _binary(node: tree.Binary, frame: Frame, expected: Type | None) -> Value:
    op = node.op
    if op in _LOGICAL:
        return _logical(node, frame)
    wanted = None if op in _COMPARISONS else expected
    of_left = wanted if frame.builder is None else _wanted_on_the_left(node, frame, wanted)
    left = evaluate(node.left, frame, of_left)
    if op in _SHIFTS:
        right = evaluate(node.right, frame, t.U16)
    else:
        right = evaluate(node.right, frame, left.type if _is_typed(left) else wanted)
    return binary_operation(op, left, right, node, frame)


def _is_typed(value: Value) -> bool:
    """Whether literals beside a value take its type, and not what is wanted of both."""
    return value.type not in LITERALS and value.type is not t.POISON


def _wanted_on_the_left(node: tree.Binary, frame: Frame, wanted: Type | None) -> Type | None:
    """The type for literals that an `if` on the left chooses from: that of the right side."""
    if node.op in _SHIFTS or not _is_chosen(node.left):
        return wanted
    with frame.only_typed(node) as aside:
        right = evaluate(node.right, aside, wanted)
    return right.type if _is_typed(right) else wanted


def _is_chosen(node: tree.Expression) -> bool:
    """Whether a condition may choose the value of an expression."""
    if isinstance(node, tree.Unary):
        return _is_chosen(node.operand)
    if isinstance(node, tree.Binary):
        return _is_chosen(node.left) or _is_chosen(node.right)
    return isinstance(node, tree.IfExpression | tree.SwitchExpression | tree.BlockExpression)


_COMPARISONS = frozenset(("==", "!=", "<", ">", "<=", ">="))


def binary_operation(op: str, left: Value, right: Value, node: tree.Node, frame: Frame) -> Value:
    """`left op right`."""
    if is_poison(left) or is_poison(right):
        return POISON
    if op in _SHIFTS:
        return _shift(op, left, right, node, frame)
    if left.type is not right.type:
        left, right = _peers(op, left, right, node, frame)
    type_ = left.type
    if op in _COMPARISONS:
        return _compare(op, left, right, node, frame)
    if not (is_integer(type_) if op in _OF_INTEGERS else is_number(type_)):
        frame.fail(_operator(node), f"'{op}' does not apply to '{type_}'")
    return _arithmetic(op, type_, left, right, node, frame)


def _operator(node: tree.Node) -> tree.Node | tuple[int, int]:
    if isinstance(node, tree.Binary):
        return (node.op_start, node.op_start + len(node.op))
    return node


def _arithmetic(
    op: str, type_: Type, left: Value, right: Value, node: tree.Node, frame: Frame
) -> Value:
    if left.__class__ is Const and right.__class__ is Const:
        try:
            value = numbers.arithmetic(op, type_, left.value, right.value)
        except numbers.ArithmeticProblemError as problem:
            frame.fail(node, str(problem))
        return Const(type_, value)
    machine = type_.machine
    assert isinstance(machine, Scalar), "no other number is in a register"
    assert frame.builder is not None
    a, b = operand_of(left, node, frame), operand_of(right, node, frame)
    result = frame.builder.binary(_NAMES[op], machine, a, b, frame.position(node))
    return Runtime(type_, result)


def _peers(
    op: str, left: Value, right: Value, node: tree.Node, frame: Frame
) -> tuple[Value, Value]:
    """Both operands in one type: the other's if one is a literal, else the wider one."""
    a, b = left.type, right.type
    if not (is_number(a) and is_number(b)) and (a in LITERALS or b in LITERALS):
        frame.fail(_operator(node), f"'{op}' needs two values of one type, got '{a}' and '{b}'")
    if a in LITERALS and (b not in LITERALS or b is t.COMPTIME_FLOAT):
        return coerce(left, b, node, frame, f"left side of '{op}'"), right
    if b in LITERALS:
        return left, coerce(right, a, node, frame, f"right side of '{op}'")
    if isinstance(a, t.PointerType) and isinstance(b, t.PointerType) and op in _EQUALITY:
        return left, _as_type(right, a)
    if isinstance(a, t.StructType) or isinstance(b, t.StructType):
        frame.fail(_operator(node), f"'{op}' does not apply to '{a}' and '{b}'")
    common = wider(a, b) or _fitting(left, right)
    if common is None:
        frame.fail(_operator(node), f"'{op}' needs two values of one type, got '{a}' and '{b}'")
    return coerce(left, common, node, frame, op), coerce(right, common, node, frame, op)


def _as_type(value: Value, type_: Type) -> Value:
    if isinstance(value, Const):
        return Const(type_, value.value)
    assert isinstance(value, Runtime)
    return Runtime(type_, value.operand)


def _fitting(left: Value, right: Value) -> Type | None:
    """The type of one integer that the other, known one fits."""
    for known, other in ((right, left), (left, right)):
        type_ = other.type
        are_integers = isinstance(known.type, t.IntType) and isinstance(type_, t.IntType)
        if isinstance(known, Const) and are_integers and _holds(type_, known.value):
            return type_
    return None


def _holds(type_: Type, number: int) -> bool:
    return isinstance(type_, t.IntType) and type_.low <= number <= type_.high


def _shift(op: str, left: Value, right: Value, node: tree.Node, frame: Frame) -> Value:
    if not is_integer(left.type):
        frame.fail(_operator(node), f"'{op}' does not apply to '{left.type}'")
    count = right.type
    if not is_integer(count):
        frame.fail(_operator(node), f"the count of '{op}' must be an integer, got '{count}'")
    if isinstance(count, t.IntType) and count.signed and not isinstance(right, Const):
        frame.fail(_operator(node), f"the count of '{op}' must be unsigned, got '{count}'")
    if isinstance(left, Const) and isinstance(right, Const):
        return _arithmetic(op, left.type, left, right, node, frame)
    return _runtime_shift(op, left, right, node, frame)


def _runtime_shift(op: str, left: Value, right: Value, node: tree.Node, frame: Frame) -> Value:
    if isinstance(right, Const) and right.type is t.COMPTIME_INT:
        right = coerce(right, t.U16, node, frame, f"the count of '{op}'")
    if left.type is t.COMPTIME_INT:
        frame.fail(node, f"the left side of '{op}' needs a type at run time; write @as(TYPE, ...)")
    machine, counts = left.type.machine, right.type.machine
    assert isinstance(machine, Scalar), "no other number is in a register"
    assert isinstance(counts, Scalar)
    assert frame.builder is not None
    if counts != machine:
        assert isinstance(left.type, t.IntType)
        unsigned = t.int_type(left.type.bits, False)
        if isinstance(right, Const):
            right = Const(unsigned, min(right.value, unsigned.high))
        elif counts.bits < machine.bits:
            assert isinstance(right, Runtime)
            right = converted(right, unsigned, node, frame)
    a, b = operand_of(left, node, frame), operand_of(right, node, frame)
    return Runtime(left.type, frame.builder.binary(_NAMES[op], machine, a, b, frame.position(node)))


def _compare(op: str, left: Value, right: Value, node: tree.Node, frame: Frame) -> Value:
    type_ = left.type
    if op not in _EQUALITY and not is_number(type_):
        frame.fail(_operator(node), f"'{op}' does not apply to '{type_}'")
    if isinstance(left, Const) and isinstance(right, Const):
        if op in _EQUALITY:
            equal = _equal(left, right)
            return boolean(equal if op == "==" else not equal)
        return boolean(numbers.COMPARISONS[op](left.value, right.value))
    if isinstance(left, Mixed) or isinstance(right, Mixed):
        frame.fail(_operator(node), f"'{op}' does not apply to '{type_}' at run time")
    machine = type_.machine
    if not isinstance(machine, Scalar) or frame.builder is None:
        frame.fail(_operator(node), f"'{op}' does not apply to '{type_}' at run time")
    a, b = operand_of(left, node, frame), operand_of(right, node, frame)
    return Runtime(t.BOOL, frame.builder.binary(_NAMES[op], machine, a, b, frame.position(node)))


def _equal(left: Const, right: Const) -> bool:
    if isinstance(left.value, float):
        return bool(left.value == right.value)
    if left.type is t.TYPE:
        return left.value is right.value
    return left.key == right.key


def _logical(node: tree.Binary, frame: Frame) -> Value:
    """`and`, `or`: the right side is not looked at if the left one decides."""
    left = evaluate(node.left, frame, t.BOOL)
    if is_poison(left):
        return POISON
    if left.type is not t.BOOL:
        frame.fail(node.left, f"'{node.op}' needs bools, got '{left.type}'")
    decided = node.op == "or"
    if isinstance(left, Const):
        if left.value is decided:
            return left
        return _bool_side(node.right, node.op, frame)
    return _short_circuit(left, node, frame)


def _bool_side(side: tree.Expression, op: str, frame: Frame) -> Value:
    value = evaluate(side, frame, t.BOOL)
    if value.type is not t.BOOL and not is_poison(value):
        frame.fail(side, f"'{op}' needs bools, got '{value.type}'")
    return value


def _short_circuit(left: Value, node: tree.Binary, frame: Frame) -> Value:
    builder, position = frame.builder, frame.position(node)
    assert builder is not None
    result = builder.register(M_BOOL)
    builder.move(result, operand_of(left, node, frame), position)
    more, done = builder.new_block(), builder.new_block()
    targets = (more, done) if node.op == "and" else (done, more)
    builder.branch(result, *targets, position)
    builder.go_to(more)
    right = _bool_side(node.right, node.op, frame)
    if isinstance(right, Const) and not is_poison(right):
        builder.move(result, Constant(M_BOOL, right.value), position)
    elif not is_poison(right):
        builder.move(result, operand_of(right, node, frame), position)
    builder.jump(done, position)
    builder.go_to(done)
    return Runtime(t.BOOL, result)
