"""The syntax tree. Every node knows the offsets where its text starts and ends."""

from dataclasses import dataclass, field

from appliance.csl.syntax.tokens import Token


@dataclass(slots=True, eq=False)
class Node:
    """A piece of source; compared by identity."""

    start: int
    end: int


@dataclass(slots=True, eq=False)
class Expression(Node):
    """Something with a value; a type is a value too."""

    names: frozenset[str] | None = field(default=None, init=False)
    """Identifiers in it, once somebody asked (`names_of`)."""


@dataclass(slots=True, eq=False)
class IntLiteral(Expression):
    """`42`, `0x2a`, `'a'`."""

    value: int


@dataclass(slots=True, eq=False)
class FloatLiteral(Expression):
    """`1.5e-8`."""

    value: float


@dataclass(slots=True, eq=False)
class StringLiteral(Expression):
    """`"text"`, escapes resolved."""

    value: bytes


@dataclass(slots=True, eq=False)
class Name(Expression):
    """An identifier."""

    name: str


@dataclass(slots=True, eq=False)
class BuiltinCall(Expression):
    """`@name(arguments)`; `name` without `@`."""

    name: str
    arguments: list[Expression]


@dataclass(slots=True, eq=False)
class Unary(Expression):
    """`-a`, `!a`, `~a`, `&a`."""

    op: str
    operand: Expression


@dataclass(slots=True, eq=False)
class Binary(Expression):
    """`a op b`, also `and` and `or`; `op_start` is where the operator stands."""

    op: str
    left: Expression
    right: Expression
    op_start: int


@dataclass(slots=True, eq=False)
class Comptime(Expression):
    """`comptime a`."""

    operand: Expression


@dataclass(slots=True, eq=False)
class Dereference(Expression):
    """`p.*`."""

    operand: Expression


@dataclass(slots=True, eq=False)
class Member(Expression):
    """`a.name`; `name_start` is where the name stands."""

    operand: Expression
    name: str
    name_start: int


@dataclass(slots=True, eq=False)
class Call(Expression):
    """`f(arguments)`."""

    callee: Expression
    arguments: list[Expression]


@dataclass(slots=True, eq=False)
class Index(Expression):
    """`a[i, j]`."""

    operand: Expression
    indices: list[Expression]


@dataclass(slots=True, eq=False)
class FieldValue(Node):
    """`.name = value`, or a value alone (`name` is None)."""

    name: str | None
    value: Expression


@dataclass(slots=True, eq=False)
class Initializer(Expression):
    """`.{...}` (`type` is None) or `T{...}`."""

    type: Expression | None
    fields: list[FieldValue]


@dataclass(slots=True, eq=False)
class IfExpression(Expression):
    """`if (c) a else b` as a value; `otherwise` is None if there is no else."""

    condition: Expression
    then: Expression
    otherwise: Expression | None


@dataclass(slots=True, eq=False)
class TensorAccess(Expression):
    """`|i, j| {n, m} -> a[i, j]`."""

    variables: list[Name]
    extents: list[Expression]
    operand: Expression


@dataclass(slots=True, eq=False)
class PointerType(Expression):
    """`*T`, `*const T`."""

    const: bool
    target: Expression


@dataclass(slots=True, eq=False)
class ManyPointerType(Expression):
    """`[*]T`, `[*]const T`."""

    const: bool
    element: Expression


@dataclass(slots=True, eq=False)
class ArrayType(Expression):
    """`[n, m]T`."""

    dimensions: list[Expression]
    element: Expression


@dataclass(slots=True, eq=False)
class FunctionType(Expression):
    """`fn (T, name: U) R` or `task (...) R`."""

    is_task: bool
    parameters: list[Expression]
    result: Expression


@dataclass(slots=True, eq=False)
class FieldType(Node):
    """A field of a struct type."""

    name: str
    type: Expression


@dataclass(slots=True, eq=False)
class StructType(Expression):
    """`struct {...}`, `packed struct {...}`, `union {...}`."""

    kind: str
    packed: bool
    fields: list[FieldType]
    is_extern: bool


@dataclass(slots=True, eq=False)
class EnumMember(Node):
    """A member of an enum."""

    name: str
    value: Expression | None


@dataclass(slots=True, eq=False)
class EnumType(Expression):
    """`enum(T) {...}`."""

    base: Expression | None
    members: list[EnumMember]


@dataclass(slots=True, eq=False)
class Statement(Node):
    """Something that is executed."""


@dataclass(slots=True, eq=False)
class Block(Statement):
    """`label: { ... }`."""

    label: str | None
    statements: list[Statement]


@dataclass(slots=True, eq=False)
class BlockExpression(Expression):
    """A block as a value: `{}` is void; `break :label v` gives a labelled one its value."""

    block: Block


@dataclass(slots=True, eq=False)
class SwitchCase(Node):
    """One prong; `values` is empty for `else`."""

    values: list[Expression]
    body: "Statement | Expression"


@dataclass(slots=True, eq=False)
class SwitchExpression(Expression):
    """`switch (a) { 1, 2 => ..., else => ... }`, as a value or a statement."""

    operand: Expression
    cases: list[SwitchCase]


@dataclass(slots=True, eq=False)
class Attribute(Node):
    """`align(16)`, `linkname("x")`, `linksection("x")`."""

    name: str
    value: Expression


@dataclass(slots=True, eq=False)
class Declaration(Statement):
    """`const`, `var` or `param`, global or local."""

    kind: str
    name: str
    name_start: int
    type: Expression | None
    attributes: list[Attribute]
    value: Expression | None
    is_exported: bool = False
    is_extern: bool = False


@dataclass(slots=True, eq=False)
class While(Statement):
    """`while (c) : (step) body`."""

    label: str | None
    is_inline: bool
    condition: Expression
    step: Statement | None
    body: Statement


@dataclass(slots=True, eq=False)
class For(Statement):
    """`for (range or array) |item, index| body`."""

    label: str | None
    is_inline: bool
    sequence: Expression
    item: Name
    index: Name | None
    body: Statement


@dataclass(slots=True, eq=False)
class If(Statement):
    """`if (c) body else body`."""

    condition: Expression
    then: Statement
    otherwise: Statement | None


@dataclass(slots=True, eq=False)
class Return(Statement):
    """`return value;`."""

    value: Expression | None


@dataclass(slots=True, eq=False)
class Break(Statement):
    """`break :label value;`."""

    label: str | None
    value: Expression | None


@dataclass(slots=True, eq=False)
class Continue(Statement):
    """`continue :label;`."""

    label: str | None


@dataclass(slots=True, eq=False)
class Assignment(Statement):
    """`target op value`, with `op` such as `=` or `+=`."""

    op: str
    target: Expression
    value: Expression


@dataclass(slots=True, eq=False)
class ExpressionStatement(Statement):
    """A call, mostly."""

    value: Expression


@dataclass(slots=True, eq=False)
class ComptimeStatement(Statement):
    """`comptime { ... }` inside a function, or `comptime` before another statement."""

    body: Statement


@dataclass(slots=True, eq=False)
class Parameter(Node):
    """A parameter of a function; `type` is None for `anytype`."""

    name: str
    type: Expression | None
    is_comptime: bool


@dataclass(slots=True, eq=False)
class Function(Node):
    """A function or task; `body` is None if it is only declared."""

    name: str
    name_start: int
    is_task: bool
    is_inline: bool
    is_exported: bool
    is_extern: bool
    parameters: list[Parameter]
    attributes: list[Attribute]
    result: Expression
    body: Block | None


@dataclass(slots=True, eq=False)
class TopBlock(Node):
    """A top-level `comptime` or `layout` block."""

    kind: str
    body: Block


@dataclass(slots=True, eq=False)
class File(Node):
    """A parsed file, with what is needed to write its text again."""

    items: list[Declaration | Function | TopBlock]
    tokens: list[Token]
    comments: list[Token]


def names_of(node: Expression) -> frozenset[str]:
    """All identifiers in an expression; computed once."""
    if node.names is None:
        found: set[str] = set()
        _collect(node, found)
        node.names = frozenset(found)
    return node.names


def children(node: Node) -> list[Node]:
    """The nodes directly below a node, in the order of their fields."""
    found: list[Node] = []
    for cls in type(node).__mro__[:-1]:
        for slot in cls.__dict__.get("__slots__", ()):
            value = getattr(node, slot)
            if isinstance(value, Node):
                found.append(value)
            elif isinstance(value, list):
                found += [item for item in value if isinstance(item, Node)]
    return found


def _collect(node: Node, found: set[str]) -> None:
    if isinstance(node, Name):
        found.add(node.name)
        return
    for child in children(node):
        _collect(child, found)


def has_call(node: Node, name: str) -> bool:
    """Say whether a call of a builtin lies in a node."""
    if isinstance(node, BuiltinCall) and node.name == name:
        return True
    return any(has_call(child, name) for child in children(node))


def has_function_call(node: Node) -> bool:
    """Say whether a call of a function lies in a node."""
    return isinstance(node, Call) or any(has_function_call(child) for child in children(node))
