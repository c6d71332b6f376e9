"""Random expressions, each with what it is in the model."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.csl_random import numbers as n
from tests.support.csl_random.numbers import BOOL, U16, Kind, Number

# `object`: the model's memory is a tree of dicts (structs, frames) and lists (arrays).
Cell = tuple[dict[object, object] | list[object], object]
"""A place in the model: what holds it, and where there."""


@dataclass(slots=True)
class Memory:
    """The model's memory while a program runs: global variables, and the frame of a call."""

    globals: dict[object, object]
    frame: dict[object, object] = field(default_factory=dict)
    steps: int = 0


Evaluate = Callable[[Memory], Number]


@dataclass(frozen=True, slots=True)
class Expr:
    """An expression of a number; `is_bare` if it is a literal without a type."""

    text: str
    value: Evaluate
    is_bare: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A place of a number: its text, type, and where it is in the model."""

    text: str
    kind: Kind
    cell: Callable[[Memory], Cell]
    is_const: bool = False
    bits: tuple[int, int] | None = None
    """Lowest bit and width in a packed value, which `cell` holds."""


def load(place: Place, memory: Memory) -> Number:
    """Read a place."""
    holder, key = place.cell(memory)
    value = holder[key]  # type: ignore[index] # the key is of its holder
    if place.bits is None:
        return value  # type: ignore[no-any-return] # leaves of the tree are numbers
    return n.of_pattern(value >> place.bits[0], place.kind)


def store(place: Place, value: Number, memory: Memory) -> None:
    """Write a place."""
    holder, key = place.cell(memory)
    if place.bits is not None:
        shift, width = place.bits
        mask = ((1 << width) - 1) << shift
        before: int = holder[key]  # type: ignore[index,assignment] # a packed value is an int
        value = before & ~mask | n.pattern_of(value, place.kind) << shift
    holder[key] = value  # type: ignore[index] # the key is of its holder


@dataclass(frozen=True, slots=True)
class Pure:
    """A function without effects, which both the compiler and the PE may call."""

    name: str
    takes: tuple[Kind, ...]
    gives: Kind
    call: Callable[[Memory, tuple[Number, ...]], Number]


@dataclass(slots=True)
class Scope:
    """What an expression may use."""

    chance: random.Random
    places: list[Place] = field(default_factory=list)
    functions: list[Pure] = field(default_factory=list)

    def inner(self) -> "Scope":
        """Return a scope for a block."""
        return Scope(self.chance, list(self.places), self.functions)


def literal(scope: Scope, kind: Kind) -> Number:
    """Draw a value: often at the ends of its range."""
    chance = scope.chance
    if kind == BOOL:
        return chance.random() < 0.5
    if kind.is_float:
        values = (0.0, -0.0, 1.0, -1.5, 0.0625, 3.25, -100.0, 640.5, -0.125, 2048.0)
        return n.rounded(chance.choice(values), kind)
    near = (kind.low, kind.high, kind.low + 1, kind.high - 1, 0, 1, kind.high >> 1)
    if chance.random() < 0.4:
        return max(kind.low, min(kind.high, chance.choice(near)))
    size = chance.choice((3, 7, kind.bits))
    return max(kind.low, min(kind.high, chance.randrange(-(1 << size), 1 << size)))


def constant(scope: Scope, kind: Kind, *, may_be_bare: bool = False) -> Expr:
    """Draw a literal, with its type unless it may go without."""
    value = literal(scope, kind)
    text = n.text_of(value, kind)
    if kind == BOOL:
        return Expr(text, lambda _: value)
    if may_be_bare and scope.chance.random() < 0.6:
        return Expr(f"({text})" if text.startswith("-") else text, lambda _: value, is_bare=True)
    return Expr(f"@as({kind.name}, {text})", lambda _: value)


def expression(scope: Scope, kind: Kind, depth: int) -> Expr:
    """Draw an expression of a type."""
    if depth <= 0:
        return _leaf(scope, kind)
    ways = _BOOL_WAYS if kind == BOOL else _FLOAT_WAYS if kind.is_float else _INT_WAYS
    return scope.chance.choice(ways)(scope, kind, depth - 1)


def _leaf(scope: Scope, kind: Kind, _depth: int = 0) -> Expr:
    found = [place for place in scope.places if place.kind == kind]
    if not found or scope.chance.random() < 0.15:
        return constant(scope, kind)
    place = scope.chance.choice(found)
    return Expr(place.text, lambda memory: load(place, memory))


def _pair(scope: Scope, kind: Kind, depth: int) -> tuple[Expr, Expr]:
    """Two operands of one type, of which one may be a literal without one."""
    left, right = expression(scope, kind, depth), expression(scope, kind, depth)
    if scope.chance.random() < 0.2:
        right = constant(scope, kind, may_be_bare=True)
    elif scope.chance.random() < 0.1:
        left = constant(scope, kind, may_be_bare=True)
    return left, right


def _arithmetic(scope: Scope, kind: Kind, depth: int) -> Expr:
    ops = "+-*/%&|^" if kind.is_integer else "+-*/"
    op = scope.chance.choice(ops)
    left, right = _pair(scope, kind, depth)
    if op in "/%" and kind.is_integer:
        one = -1 if kind == Kind("i", 1) else 1
        inner = right
        right = Expr(f"({inner.text} | @as({kind.name}, {one}))",
                     lambda memory: n.binary("|", inner.value(memory), one, kind))  # fmt: skip
    return Expr(
        f"({left.text} {op} {right.text})",
        lambda memory: n.binary(op, left.value(memory), right.value(memory), kind),
    )


def _widened(scope: Scope, kind: Kind, depth: int) -> Expr:
    """An operation of a narrower and a wider number: it takes place in the wider type."""
    narrower = [k for k in n.COMMON if k != kind and _holds(kind, k)]
    if not narrower:
        return _arithmetic(scope, kind, depth)
    other = scope.chance.choice(narrower)
    a, b = expression(scope, kind, depth), expression(scope, other, depth)
    op = scope.chance.choice("+-*" if kind.is_float else "+-*&|^")
    first, second = (a, b) if scope.chance.random() < 0.5 else (b, a)
    return Expr(
        f"({first.text} {op} {second.text})",
        lambda memory: n.binary(
            op,
            _as_wide(first, a, kind, other, memory),
            _as_wide(second, a, kind, other, memory),
            kind,
        ),
    )


def _as_wide(expr: Expr, wide: Expr, kind: Kind, other: Kind, memory: Memory) -> Number:
    value = expr.value(memory)
    return value if expr is wide else n.converted(value, other, kind)


def _holds(wide: Kind, narrow: Kind) -> bool:
    if wide.is_float:
        return narrow == n.F16
    return narrow.is_integer and wide.low <= narrow.low and narrow.high <= wide.high


def _shift(scope: Scope, kind: Kind, depth: int) -> Expr:
    left = expression(scope, kind, depth)
    op = scope.chance.choice(("<<", ">>"))
    if scope.chance.random() < 0.5:
        by = scope.chance.randrange(kind.bits + 2)
        return Expr(f"({left.text} {op} {by})",
                    lambda memory: n.binary(op, left.value(memory), by, kind))  # fmt: skip
    counts = scope.chance.choice((Kind("u", 8), U16, Kind("u", 32), Kind("u", 64), Kind("u", 5)))
    count = expression(scope, counts, depth)
    limit = scope.chance.choice((kind.bits, kind.bits + 3)) if counts.bits > 7 else counts.high
    return Expr(
        f"({left.text} {op} ({count.text} % @as({counts.name}, {limit})))",
        lambda memory: n.binary(op, left.value(memory), int(count.value(memory)) % limit, kind),
    )


def _unary(scope: Scope, kind: Kind, depth: int) -> Expr:
    inner = expression(scope, kind, depth)
    if kind.is_float:
        return Expr(f"(-{inner.text})", lambda memory: -inner.value(memory))
    if scope.chance.random() < 0.5:
        return Expr(f"(-{inner.text})", lambda memory: n.wrapped(-int(inner.value(memory)), kind))
    return Expr(f"(~{inner.text})", lambda memory: n.wrapped(~int(inner.value(memory)), kind))


def _converted(scope: Scope, kind: Kind, depth: int) -> Expr:
    source = _known_kind(scope)
    if source.is_float and kind.is_integer and (kind.bits < 31 or scope.chance.random() < 0.7):
        source = scope.chance.choice(n.WIDE)
    inner = expression(scope, source, depth)
    return Expr(
        f"@as({kind.name}, {inner.text})",
        lambda memory: n.converted(inner.value(memory), source, kind),
    )


def _known_kind(scope: Scope) -> Kind:
    """Draw a type: often one that a place has, so that its value is not a literal."""
    if scope.places and scope.chance.random() < 0.6:
        return scope.chance.choice(scope.places).kind
    return scope.chance.choice((*n.COMMON, BOOL))


def _bits(scope: Scope, kind: Kind, depth: int) -> Expr:
    """`@bitcast` from another type of the same width."""
    same = [Kind(letter, kind.bits) for letter in ("iuf" if kind.bits in (16, 32) else "iu")]
    others = [other for other in same if other != kind]
    source = scope.chance.choice(others)
    inner = expression(scope, source, depth)
    return Expr(
        f"@bitcast({kind.name}, {inner.text})",
        lambda memory: n.of_pattern(n.pattern_of(inner.value(memory), source), kind),
    )


def _chosen(scope: Scope, kind: Kind, depth: int) -> Expr:
    """A conditional expression."""
    test = expression(scope, BOOL, depth)
    yes, no = expression(scope, kind, depth), expression(scope, kind, depth)
    return Expr(
        f"(if ({test.text}) {yes.text} else {no.text})",
        lambda memory: yes.value(memory) if test.value(memory) else no.value(memory),
    )


def _switched(scope: Scope, kind: Kind, depth: int) -> Expr:
    """A `switch` with a value."""
    on = scope.chance.choice((U16, Kind("i", 16), Kind("u", 8), Kind("i", 32), Kind("u", 3)))
    subject = expression(scope, on, depth)
    keys = sorted({int(literal(scope, on)) for _ in range(4)})
    arms = {key: expression(scope, kind, depth - 1) for key in keys}
    other = expression(scope, kind, depth - 1)
    prongs = ", ".join(f"{key} => {arm.text}" for key, arm in arms.items())
    return Expr(
        f"(switch ({subject.text}) {{ {prongs}, else => {other.text} }})",
        lambda memory: arms.get(int(subject.value(memory)), other).value(memory),
    )


def _called(scope: Scope, kind: Kind, depth: int) -> Expr:
    """A call of a function without effects."""
    found = [function for function in scope.functions if function.gives == kind]
    if not found:
        return _arithmetic(scope, kind, depth) if kind != BOOL else _compared(scope, kind, depth)
    function = scope.chance.choice(found)
    given = [expression(scope, taken, min(depth, 1)) for taken in function.takes]
    return Expr(
        f"{function.name}({', '.join(expr.text for expr in given)})",
        lambda memory: function.call(memory, tuple(expr.value(memory) for expr in given)),
    )


def _compared(scope: Scope, _kind: Kind, depth: int) -> Expr:
    kind = _known_kind(scope)
    kind = U16 if kind == BOOL else kind
    op = scope.chance.choice(sorted(n.COMPARISONS))
    left, right = _pair(scope, kind, depth)
    compare = n.COMPARISONS[op]
    return Expr(
        f"({left.text} {op} {right.text})",
        lambda memory: compare(left.value(memory), right.value(memory)),
    )


def _logical(scope: Scope, _kind: Kind, depth: int) -> Expr:
    left, right = expression(scope, BOOL, depth), expression(scope, BOOL, depth)
    if scope.chance.random() < 0.5:
        return Expr(f"({left.text} and {right.text})",
                    lambda memory: left.value(memory) and right.value(memory))  # fmt: skip
    return Expr(f"({left.text} or {right.text})",
                lambda memory: left.value(memory) or right.value(memory))  # fmt: skip


def _not(scope: Scope, _kind: Kind, depth: int) -> Expr:
    inner = expression(scope, BOOL, depth)
    return Expr(f"(!{inner.text})", lambda memory: not inner.value(memory))


_SHARED = (_leaf, _chosen, _switched, _called, _converted)
_BOOL_WAYS = (*_SHARED, _compared, _compared, _logical, _not)
_FLOAT_WAYS = (*_SHARED, _arithmetic, _arithmetic, _arithmetic, _unary, _widened, _bits)
_INT_WAYS = (*_FLOAT_WAYS, _shift, _shift)
