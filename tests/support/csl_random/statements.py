"""Random statements, each with what it does in the model."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.csl_random import numbers as n
from tests.support.csl_random.aggregates import (
    Array,
    Shape,
    Struct,
    global_way,
    local_way,
    name_of,
    places_of,
)
from tests.support.csl_random.expressions import (
    Memory,
    Place,
    Scope,
    expression,
    load,
    store,
)
from tests.support.csl_random.numbers import BOOL, U16, Kind

_MOST_STEPS = 3000


class LeaveError(Exception):
    """A `break`, `continue` or `return` on its way."""

    def __init__(self, what: str, label: str = "", value: n.Number = 0) -> None:
        super().__init__(what)
        self.what, self.label, self.value = what, label, value


Run = Callable[[Memory], None]


@dataclass(frozen=True, slots=True)
class Stmt:
    """A statement: its lines and what it does."""

    lines: list[str]
    run: Run


@dataclass(slots=True)
class Context:
    """What a statement may use besides its scope's places."""

    shapes: dict[str, Shape]
    labels: list[str] = field(default_factory=list)
    """Of the loops around, innermost last; '' for one without."""
    gives: Kind | None = None
    """The type of the value that a function returns; its statements touch no globals."""
    counter: list[int] = field(default_factory=lambda: [0])
    is_known: bool = False
    """Whether the compiler may evaluate it: what is known has no address."""

    def fresh(self, letter: str) -> str:
        """Return a new name."""
        self.counter[0] += 1
        return f"{letter}{self.counter[0]}"


def block(scope: Scope, context: Context, depth: int, count: int) -> list[Stmt]:
    """Draw statements; the first ones' variables are in the scope of the others."""
    return [statement(scope, context, depth) for _ in range(count)]


def statement(scope: Scope, context: Context, depth: int) -> Stmt:
    """Draw a statement."""
    simple = _KNOWN if context.is_known else _SIMPLE if context.gives is None else _PLAIN
    ways = simple if depth <= 0 else (*simple, *_COMPOUND)
    return scope.chance.choice(ways)(scope, context, depth - 1)


def run_all(statements: list[Stmt], memory: Memory) -> None:
    """Do what statements do."""
    for item in statements:
        memory.steps += 1
        if memory.steps > _MOST_STEPS:
            raise n.UnspecifiedError("too long")
        item.run(memory)


def body(statements: list[Stmt]) -> list[str]:
    """Return the lines of a block's inside."""
    return ["  " + line for item in statements for line in item.lines]


def _target(scope: Scope) -> Place:
    return scope.chance.choice([place for place in scope.places if not place.is_const])


def _assign(scope: Scope, context: Context, _depth: int) -> Stmt:
    place = _target(scope)
    value = expression(scope, place.kind, 3)

    def run(memory: Memory) -> None:
        store(place, value.value(memory), memory)

    return Stmt([f"{place.text} = {value.text};"], run)


def _update(scope: Scope, context: Context, depth: int) -> Stmt:
    """`place op= value`."""
    place = _target(scope)
    if place.kind == BOOL:
        return _assign(scope, context, depth)
    op = scope.chance.choice("+-*" if place.kind.is_float else "+-*&|^")
    value = expression(scope, place.kind, 2)

    def run(memory: Memory) -> None:
        now = load(place, memory)
        store(place, n.binary(op, now, value.value(memory), place.kind), memory)

    return Stmt([f"{place.text} {op}= {value.text};"], run)


def _declare(scope: Scope, context: Context, _depth: int) -> Stmt:
    """A local constant or variable of a number."""
    kind = scope.chance.choice([place.kind for place in scope.places])
    value, name = expression(scope, kind, 3), context.fresh("l")
    is_const = scope.chance.random() < 0.4
    word = "const" if is_const else "var"
    scope.places.append(Place(name, kind, local_way(name), is_const))

    def run(memory: Memory) -> None:
        memory.frame[name] = value.value(memory)

    return Stmt([f"{word} {name}: {kind.name} = {value.text};"], run)


def _whole(scope: Scope, context: Context, depth: int) -> Stmt:
    """A struct or an array is assigned whole, or becomes a local variable."""
    names = [name for name, shape in context.shapes.items() if not isinstance(shape, Kind)]
    source = scope.chance.choice(names)
    shape = context.shapes[source]
    same = [name for name in names if context.shapes[name] == shape]
    if scope.chance.random() < 0.5 or isinstance(shape, Array):
        dest = scope.chance.choice(same)

        def run(memory: Memory) -> None:
            _fill(memory.globals, {dest: copy.deepcopy(memory.globals[source])})

        return Stmt([f"{dest} = {source};"], run)
    name, word = context.fresh("w"), scope.chance.choice(("var", "const"))

    def declare(memory: Memory) -> None:
        memory.frame[name] = copy.deepcopy(memory.globals[source])

    indices = [place for place in scope.places if place.kind == U16 and place.bits is None][:1]
    places = places_of(name, shape, local_way(name), indices, scope.chance)
    scope.places += [replace(place, is_const=word == "const") for place in places]
    return Stmt([f"{word} {name}: {name_of(shape)} = {source};"], declare)


def _fill(target: Any, source: Any) -> None:
    """Give each part of a struct or an array its value: pointers to parts stay."""
    for key in source if isinstance(source, dict) else range(len(source)):
        if isinstance(source[key], dict | list):
            _fill(target[key], source[key])
        else:
            target[key] = source[key]


def _pointer(scope: Scope, context: Context, depth: int) -> Stmt:
    """A pointer to a place, through which the place is read and written."""
    found = [place for place in scope.places if place.bits is None and not place.is_const]
    place, name = scope.chance.choice(found), context.fresh("q")

    def run(memory: Memory) -> None:
        memory.frame[name] = place.cell(memory)

    scope.places.append(Place(f"{name}.*", place.kind, lambda memory: memory.frame[name]))  # type: ignore[arg-type,return-value]
    return Stmt([f"const {name}: *{place.kind.name} = &{place.text};"], run)


def _struct_pointer(scope: Scope, context: Context, depth: int) -> Stmt:
    names = [name for name, shape in context.shapes.items() if isinstance(shape, Struct)]
    target, name = scope.chance.choice(names), context.fresh("q")
    shape = context.shapes[target]
    indices = [place for place in scope.places if place.kind == U16 and place.bits is None][:1]
    scope.places += places_of(f"{name}.*", shape, global_way(target), indices, scope.chance)
    return Stmt([f"const {name} = &{target};"], lambda _: None)


def _if(scope: Scope, context: Context, depth: int) -> Stmt:
    test = expression(scope, BOOL, 2)
    yes = block(scope.inner(), context, depth, scope.chance.randrange(1, 3))
    no = block(scope.inner(), context, depth, scope.chance.randrange(0, 3))
    lines = [f"if ({test.text}) {{", *body(yes), "}"]
    if no:
        lines[-1] = "} else {"
        lines += [*body(no), "}"]

    def run(memory: Memory) -> None:
        run_all(yes if test.value(memory) else no, memory)

    return Stmt(lines, run)


def _switch(scope: Scope, context: Context, depth: int) -> Stmt:
    on = scope.chance.choice((U16, Kind("i", 8), Kind("i", 32), Kind("u", 2)))
    subject = expression(scope, on, 2)
    keys = sorted({scope.chance.randrange(max(-2, on.low), 4) for _ in range(3)})
    arms = {key: block(scope.inner(), context, depth, 1) for key in keys}
    other = block(scope.inner(), context, depth, 1)
    lines = [f"switch ({subject.text}) {{"]
    for key, arm in arms.items():
        lines += [f"  {key} => {{", *body(arm), "  },"]
    lines += ["  else => {", *body(other), "  },", "}"]

    def run(memory: Memory) -> None:
        run_all(arms.get(int(subject.value(memory)), other), memory)

    return Stmt(lines, run)


def _turns(statements: list[Stmt], memory: Memory, label: str) -> bool:
    """Do a loop's inside once; say whether the loop goes on."""
    try:
        run_all(statements, memory)
    except LeaveError as left:
        if left.what == "return" or left.label not in ("", label):
            raise
        return left.what == "continue"
    return True


def _inside(scope: Scope, context: Context, depth: int, index: Place) -> tuple[str, list[Stmt]]:
    label = context.fresh("L") if scope.chance.random() < 0.3 else ""
    inner = scope.inner()
    inner.places += [index, index]
    for name, shape in context.shapes.items():
        if isinstance(shape, Array) and index.kind == U16:
            inner.places += places_of(name, shape, global_way(name), [index], scope.chance)
    context.labels.append(label)
    made = block(inner, context, depth, scope.chance.randrange(1, 4))
    context.labels.pop()
    return label, made


def _for(scope: Scope, context: Context, depth: int) -> Stmt:
    kind = scope.chance.choice((U16, U16, Kind("i", 16), Kind("i", 32), Kind("u", 8)))
    low = kind.low if kind.bits == 8 else max(-5, kind.low)
    start = scope.chance.randrange(max(low, -5), 6)
    step = scope.chance.choice((1, 1, 2, 3, *((-1, -2) if kind.letter == "i" else ())))
    stop = start + step * scope.chance.randrange(0, 5) + scope.chance.choice((0, 0, 1))
    stop = max(stop, kind.low)
    bound = expression(scope, kind, 1)
    is_known = scope.chance.random() < 0.6
    index = Place(context.fresh("ix"), kind, local_way(f"ix{context.counter[0]}"), is_const=True)
    label, inside = _inside(scope, context, depth, index)
    prefix = f"{label}: " if label else ""
    spelled = f"{stop}" if is_known else f"@as({kind.name}, {stop}) + ({bound.text} & 3)"
    text = f"{prefix}for (@range({kind.name}, {start}, {spelled}, {step})) |{index.text}| {{"

    def run(memory: Memory) -> None:
        end = stop if is_known else n.wrapped(stop + (int(bound.value(memory)) & 3), kind)
        for at in range(start, end, step):
            memory.frame[index.text] = at
            if not _turns(inside, memory, label):
                break

    return Stmt([text, *body(inside), "}"], run)


def _for_array(scope: Scope, context: Context, depth: int) -> Stmt:
    """A loop over the elements of an array, with their numbers."""
    found = [
        (name, shape.element)
        for name, shape in context.shapes.items()
        if isinstance(shape, Array) and isinstance(shape.element, Kind)
        and len(shape.dimensions) == 1
    ]  # fmt: skip
    if not found:
        return _for(scope, context, depth)
    name, kind = scope.chance.choice(found)
    item, index = context.fresh("e"), context.fresh("ix")
    element = Place(item, kind, local_way(item), is_const=True)
    inner = scope.inner()
    inner.places.append(Place(index, U16, local_way(index), is_const=True))
    inner.places = [place for place in inner.places if not place.text.startswith(f"{name}[")]
    others = {key: shape for key, shape in context.shapes.items() if key != name}
    around = replace(context, shapes=others)
    label, inside = _inside(inner, around, depth, element)
    prefix = f"{label}: " if label else ""

    def run(memory: Memory) -> None:
        for at, value in enumerate(list(memory.globals[name])):  # type: ignore[call-overload]
            memory.frame[item], memory.frame[index] = value, at
            if not _turns(inside, memory, label):
                break

    return Stmt([f"{prefix}for ({name}) |{item}, {index}| {{", *body(inside), "}"], run)


def _while(scope: Scope, context: Context, depth: int) -> Stmt:
    """A loop with a counter of its own and a condition."""
    count, most = context.fresh("c"), scope.chance.randrange(1, 6)
    index = Place(count, U16, local_way(count), is_const=True)
    test = expression(scope, BOOL, 2)
    label, inside = _inside(scope, context, depth, index)
    prefix = f"{label}: " if label else ""
    lines = [f"var {count}: u16 = 0;"]
    lines += [f"{prefix}while ({count} < {most} and {test.text}) : ({count} += 1) {{"]

    def run(memory: Memory) -> None:
        memory.frame[count] = 0
        while memory.frame[count] < most and test.value(memory):  # type: ignore[operator]
            if not _turns(inside, memory, label):
                break
            memory.frame[count] += 1  # type: ignore[operator]

    return Stmt([*lines, *body(inside), "}"], run)


def _leave(scope: Scope, context: Context, depth: int) -> Stmt:
    """`break`, `continue` or `return`, if a condition holds."""
    test = expression(scope, BOOL, 2)
    words = ["break", "continue"] if context.labels else []
    words += ["return"] if context.gives is not None else []
    if not words:
        return _assign(scope, context, depth)
    word = scope.chance.choice(words)
    value = expression(scope, context.gives, 2) if context.gives and word == "return" else None
    label = scope.chance.choice(context.labels) if word != "return" else ""
    spelled = f" {value.text}" if value else f" :{label}" if label else ""

    def run(memory: Memory) -> None:
        if test.value(memory):
            raise LeaveError(word, label, value.value(memory) if value else 0)

    return Stmt([f"if ({test.text}) {{ {word}{spelled}; }}"], run)


_SIMPLE = (_assign, _assign, _update, _declare, _whole, _pointer, _struct_pointer, _leave)
_KNOWN = (_assign, _assign, _update, _declare, _whole, _leave)
_PLAIN = (_assign, _assign, _update, _declare, _leave)
_COMPOUND = (_if, _if, _switch, _for, _for, _for_array, _while)
