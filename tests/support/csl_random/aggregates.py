"""Random types and variables: numbers, arrays, structs, packed values, pointers."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.support.csl_random import numbers as n
from tests.support.csl_random.expressions import Cell, Memory, Place, Scope, literal
from tests.support.csl_random.numbers import BOOL, U16, Kind, Number

Way = Callable[[Memory], Cell]


@dataclass(frozen=True, slots=True)
class Array:
    """An array; its value in the model is a list in row-major order."""

    dimensions: tuple[int, ...]
    element: "Shape"

    @property
    def name(self) -> str:
        """Its text."""
        return f"[{', '.join(map(str, self.dimensions))}]{name_of(self.element)}"


@dataclass(frozen=True, slots=True)
class Struct:
    """A struct; its value is a dict, or one number if it is packed."""

    name: str
    fields: tuple[tuple[str, "Shape"], ...]
    is_packed: bool = False

    def declaration(self) -> str:
        """Return its text."""
        inner = ", ".join(f"{name}: {name_of(shape)}" for name, shape in self.fields)
        packed = "packed " if self.is_packed else ""
        return f"const {self.name} = {packed}struct {{ {inner} }};"

    def shifts(self) -> Iterator[tuple[str, Kind, int]]:
        """Yield the fields of a packed struct and where each begins."""
        at = 0
        for name, kind in self.fields:
            assert isinstance(kind, Kind)
            yield name, kind, at
            at += kind.bits


Shape = Kind | Array | Struct


def name_of(shape: Shape) -> str:
    """Return what the language calls a type."""
    return shape.name


def value_of(scope: Scope, shape: Shape) -> tuple[str, object]:
    """Draw a value of a type: its text and what it is in the model."""
    if isinstance(shape, Kind):
        value = literal(scope, shape)
        return n.text_of(value, shape), value
    if isinstance(shape, Array):
        count = 1
        for dimension in shape.dimensions:
            count *= dimension
        items = [value_of(scope, shape.element) for _ in range(count)]
        return f"{shape.name}{{ {', '.join(text for text, _ in items)} }}", [v for _, v in items]
    found = {name: value_of(scope, part) for name, part in shape.fields}
    text = ", ".join(f".{name} = {text}" for name, (text, _) in found.items())
    if not shape.is_packed:
        return f"{shape.name}{{ {text} }}", {name: value for name, (_, value) in found.items()}
    whole = 0
    for name, kind, at in shape.shifts():
        value: Number = found[name][1]  # type: ignore[assignment] # fields are numbers
        whole |= n.pattern_of(value, kind) << at
    return f"{shape.name}{{ {text} }}", whole


def _step(way: Way, key: object) -> Way:
    """The way to a part of what is at the end of a way."""

    def inner(memory: Memory) -> Cell:
        holder, at = way(memory)
        return holder[at], key  # type: ignore[index,return-value] # a tree of dicts and lists

    return inner


def _indexed(way: Way, index: Place, count: int) -> Way:
    def inner(memory: Memory) -> Cell:
        holder, at = way(memory)
        where, key = index.cell(memory)
        return holder[at], int(where[key]) % count  # type: ignore[index,call-overload,return-value]

    return inner


def places_of(
    text: str, shape: Shape, way: Way, indices: list[Place], chance: random.Random,
    *, is_const: bool = False,
) -> Iterator[Place]:  # fmt: skip
    """Yield places of numbers in a variable: fields, and some elements of arrays."""
    if isinstance(shape, Kind):
        yield Place(text, shape, way, is_const)
    elif isinstance(shape, Struct) and shape.is_packed:
        for name, kind, at in shape.shifts():
            yield Place(f"{text}.{name}", kind, way, is_const, (at, kind.bits))
    elif isinstance(shape, Struct):
        for name, part in shape.fields:
            yield from places_of(
                f"{text}.{name}", part, _step(way, name), indices, chance, is_const=is_const
            )
    else:
        for spelled, to in _elements(shape, way, indices, chance):
            yield from places_of(
                f"{text}[{spelled}]", shape.element, to, indices, chance, is_const=is_const
            )


def _elements(
    shape: Array, way: Way, indices: list[Place], chance: random.Random
) -> Iterator[tuple[str, Way]]:
    count = 1
    for dimension in shape.dimensions:
        count *= dimension
    for at in sorted({chance.randrange(count) for _ in range(2)}):
        yield _spelled(at, shape), _step(way, at)
    if len(shape.dimensions) == 1 and indices:
        index = chance.choice(indices)
        yield f"{index.text} % {count}", _indexed(way, index, count)


@dataclass(slots=True)
class Variables:
    """What a program declares at the top."""

    types: list[str] = field(default_factory=list)
    declared: list[str] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)
    values: dict[object, object] = field(default_factory=dict)


def global_way(name: str) -> Way:
    """The way to a global variable."""
    return lambda memory: (memory.globals, name)


def local_way(name: str) -> Way:
    """The way to a local variable."""
    return lambda memory: (memory.frame, name)


def numbers_for(chance: random.Random) -> tuple[Kind, ...]:
    """Draw the types of a program: few, so that its values meet."""
    return tuple(chance.choice((*n.COMMON, BOOL)) for _ in range(6))


def structs(chance: random.Random, kinds: tuple[Kind, ...]) -> list[Struct]:
    """Draw types of structs: one with a struct and an array in it, one packed."""
    first = Struct("S0", tuple((f"a{k}", chance.choice(kinds)) for k in range(3)))
    second = Struct(
        "S1",
        (("n", chance.choice(kinds)), ("s", first), ("r", Array((3,), chance.choice(kinds)))),
    )
    fields, room = list[tuple[str, Shape]](), 64
    while len(fields) < 5:
        kind = chance.choice((*n.ODD, *kinds, BOOL))
        if kind.bits > room:
            break
        fields.append((f"p{len(fields)}", kind))
        room -= kind.bits
    fields = fields or [("p0", U16)]
    return [first, second, Struct("P0", tuple(fields), is_packed=True)]


def variables(scope: Scope, kinds: tuple[Kind, ...]) -> Variables:
    """Draw global variables and add their places to a scope."""
    chance = scope.chance
    aggregates = structs(chance, kinds)
    shapes: list[Shape] = [chance.choice(kinds) for _ in range(6)]
    shapes += [U16, *aggregates, Array((chance.randrange(1, 6),), chance.choice(kinds))]
    shapes += [Array((2, 3), chance.choice(kinds)), Array((3,), chance.choice(aggregates))]
    shapes += [Array((2, 2), aggregates[0])]
    made = declared(scope, shapes, "g")
    made.types = [shape.declaration() for shape in aggregates]
    return made


def declared(scope: Scope, shapes: list[Shape], prefix: str) -> Variables:
    """Draw values of variables and add their places to a scope: `prefix0` and so on.

    Each is found in the model's globals, also where the program has it in a function.
    """
    made = Variables()
    numbers = [f"{prefix}{at}" for at, shape in enumerate(shapes) if shape == U16]
    indices = [Place(name, U16, global_way(name)) for name in numbers[-1:]]
    for number, shape in enumerate(shapes):
        name = f"{prefix}{number}"
        text, value = value_of(scope, shape)
        made.declared.append(f"var {name}: {name_of(shape)} = {text};")
        made.shapes[name], made.values[name] = shape, value
        scope.places += places_of(name, shape, global_way(name), indices, scope.chance)
    return made


def leaves(text: str, shape: Shape, value: object) -> Iterator[tuple[str, Kind, Number]]:
    """Yield all numbers of a variable with their places."""
    if isinstance(shape, Kind):
        yield text, shape, value  # type: ignore[misc] # a leaf is a number
    elif isinstance(shape, Array):
        for at, item in enumerate(value):  # type: ignore[arg-type,var-annotated] # a list
            yield from leaves(f"{text}[{_spelled(at, shape)}]", shape.element, item)
    elif shape.is_packed:
        for name, kind, at in shape.shifts():
            yield f"{text}.{name}", kind, n.of_pattern(value >> at, kind)  # type: ignore[operator]
    else:
        for name, part in shape.fields:
            yield from leaves(f"{text}.{name}", part, value[name])  # type: ignore[index]


def pattern(text: str, kind: Kind) -> str:
    """Return an expression of a number's bits as a `u64`."""
    if kind == BOOL:
        return f"(if ({text}) @as(u64, 1) else @as(u64, 0))"
    if kind.is_float or kind.letter == "i":
        text = f"@bitcast(u{kind.bits}, {text})"
    return f"@as(u64, {text})"


def _spelled(at: int, shape: Array) -> str:
    """Return the indices of an element by its number in row-major order."""
    spelled = list[str]()
    for dimension in reversed(shape.dimensions):
        spelled.insert(0, str(at % dimension))
        at //= dimension
    return ", ".join(spelled)
