"""Random functions that the compiler evaluates and the PE runs: both give what the model says."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass

from tests.support.csl_random import numbers as n
from tests.support.csl_random.aggregates import (
    Array,
    Shape,
    Struct,
    Variables,
    declared,
    global_way,
    leaves,
    pattern,
)
from tests.support.csl_random.expressions import Memory, Place, Scope, literal
from tests.support.csl_random.numbers import U16, Kind, Number
from tests.support.csl_random.statements import Context, Stmt, block, body, run_all

Told = tuple[str, Kind, Number]


@dataclass(frozen=True, slots=True)
class Taken:
    """A parameter and what it is given; `is_known` if the compiler knows it in mixed calls."""

    name: str
    kind: Kind
    value: Number
    is_known: bool

    @property
    def text(self) -> str:
        """Its value as a literal of its type."""
        return f"@as({self.kind.name}, {n.text_of(self.value, self.kind)})"


@dataclass(frozen=True, slots=True)
class Twin:
    """A function whose parameters are known at compile time, at run time, or some of them."""

    name: str
    takes: list[Taken]
    made: Variables
    """Its local variables, and what they begin with."""
    work: list[Stmt]
    is_inline: bool
    """Whether the one of mixed parameters is inline."""

    @property
    def _count(self) -> int:
        return len(list(self._leaves(self.made.values)))

    def _leaves(self, values: dict[object, object]) -> Iterator[Told]:
        for name, shape in self.made.shapes.items():
            yield from leaves(name, shape, values[name])

    def top(self, work: list[Stmt]) -> Iterator[str]:
        """Yield the declarations at the top of the program."""
        for taken in self.takes:
            yield f"var given_{taken.name}: {taken.kind.name} = {taken.text};"
        head = ", ".join(f"{taken.name}: {taken.kind.name}" for taken in self.takes)
        yield from self._function("", self.name, head, work)
        mixed = ", ".join(
            f"{'comptime ' if taken.is_known else ''}{taken.name}: {taken.kind.name}"
            for taken in self.takes
        )
        inline = "inline " if self.is_inline else ""
        yield from self._function(inline, f"{self.name}_mixed_fn", mixed, work)
        literals = ", ".join(taken.text for taken in self.takes)
        yield f"const {self.name}_known = {self.name}({literals});"

    def _function(self, before: str, name: str, head: str, work: list[Stmt]) -> Iterator[str]:
        yield f"{before}fn {name}({head}) [{self._count}]u64 {{"
        yield from ("  " + line for line in self.made.declared)
        yield from body(work)
        given = ", ".join(pattern(text, kind) for text, kind, _ in self._leaves(self.made.values))
        yield f"  return [{self._count}]u64{{ {given} }};"
        yield "}"

    def calls(self) -> Iterator[str]:
        """Yield what the program does to have the results of run time."""
        given = ", ".join(f"given_{taken.name}" for taken in self.takes)
        yield f"var {self.name}_found = {self.name}({given});"
        mixed = ", ".join(
            taken.text if taken.is_known else f"given_{taken.name}" for taken in self.takes
        )
        yield f"var {self.name}_mixed = {self.name}_mixed_fn({mixed});"

    def left(self, work: list[Stmt]) -> dict[object, object]:
        """Return what the variables are at the end, in the model."""
        memory = Memory(copy.deepcopy(self.made.values))
        memory.globals.update({taken.name: taken.value for taken in self.takes})
        run_all(work, memory)
        return memory.globals

    def told(self, values: dict[object, object]) -> Iterator[Told]:
        """Yield each number of each result; its text gives its bits."""
        for way in ("known", "found", "mixed"):
            for at, (_, kind, value) in enumerate(self._leaves(values)):
                yield f"{self.name}_{way}[{at}]", kind, value


def twin(
    scope: Scope, kinds: tuple[Kind, ...], made: Variables, number: int, counter: list[int]
) -> Twin:
    """Draw a function; its structs are those of the program."""
    chance, name = scope.chance, f"twin{number}"
    inner = Scope(chance, functions=scope.functions)
    takes = list[Taken]()
    for at in range(chance.randrange(1, 5)):
        kind = chance.choice(kinds)
        known = chance.random() < 0.5
        takes.append(Taken(f"{name}_x{at}", kind, literal(scope, kind), known))
    inner.places = [
        Place(taken.name, taken.kind, global_way(taken.name), is_const=True) for taken in takes
    ]
    local = declared(inner, _shapes(scope, kinds, made), f"{name}_v")
    context = Context(dict(local.shapes), counter=counter, is_known=True)
    work = block(inner, context, 3, chance.randrange(2, 5))
    return Twin(name, takes, local, work, chance.random() < 0.3)


def _shapes(scope: Scope, kinds: tuple[Kind, ...], made: Variables) -> list[Shape]:
    chance = scope.chance
    structs: list[Shape] = [shape for shape in made.shapes.values() if isinstance(shape, Struct)]
    found: list[Shape] = [chance.choice(kinds) for _ in range(3)]
    found += [U16, chance.choice(structs), Array((chance.randrange(1, 4),), chance.choice(kinds))]
    found += [chance.choice([Array((2, 2), chance.choice(kinds)), Array((2,), structs[0])])]
    return found
