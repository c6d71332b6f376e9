"""Random programs: what they are written as, and what they leave in memory."""

import contextlib
import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.support.csl_random import numbers as n
from tests.support.csl_random.aggregates import (
    Variables,
    leaves,
    local_way,
    numbers_for,
    pattern,
    variables,
)
from tests.support.csl_random.expressions import Memory, Place, Pure, Scope, literal
from tests.support.csl_random.numbers import Kind, Number
from tests.support.csl_random.statements import Context, LeaveError, Stmt, block, body, run_all
from tests.support.csl_random.twins import Twin, twin
from tests.support.csl_random.vectors import VECTOR_KINDS, Vectors

LAYOUT = """
const memcpy = @import_module("<memcpy/get_params>", .{ .width = 1, .height = 1 });
layout {
  @set_rectangle(1, 1);
  @set_tile_code(0, 0, "pe.csl", .{ .memcpy_params = memcpy.get_params(0) });
  @export_name("out", [*]u32, true);
  @export_name("main", fn () void);
}
"""
_PE = """
param memcpy_params;
const sys = @import_module("<memcpy/memcpy>", memcpy_params);
var out = @zeros([{size}]u32);
const out_ptr: [*]u32 = &out;
var told: u16 = 0;
fn tell(pattern: u64) void {{
  out[told] = @as(u32, pattern & 0xffffffff);
  out[told + 1] = @as(u32, pattern >> 32);
  told += 2;
}}
{types}
{declared}
{functions}
{twins}
fn work() void {{
{work}
}}
fn main() void {{
  work();
{calls}
{tells}
  sys.unblock_cmd_stream();
}}
comptime {{ @export_symbol(out_ptr, "out"); @export_symbol(main); }}
"""


@dataclass(slots=True)
class RandomProgram:
    """A program drawn from a seed."""

    seed: str
    made: Variables
    functions: list[str]
    work: list[Stmt]
    known: list[tuple[str, Kind, Number]]
    """Constants that calls of functions at compile time give."""
    vectors: Vectors
    twins: list[Twin]
    half: n.Half
    """The format of its 16-bit floats."""
    without: set[int] = field(default_factory=set)
    """Statements that are left out, to find the smallest program that fails."""

    @property
    def parts(self) -> list[Stmt]:
        """All statements that may be left out, by their numbers in `without`."""
        return [*self.work, *(item for twin in self.twins for item in twin.work)]

    def _kept(self, first: int, statements: list[Stmt]) -> list[Stmt]:
        """The statements, of which the first has a number, that are not left out."""
        return [item for at, item in enumerate(statements, first) if at not in self.without]

    def _twins(self) -> Iterator[tuple[Twin, list[Stmt]]]:
        """Yield functions that both sides call, each with its statements."""
        first = len(self.work)
        for item in self.twins:
            yield item, self._kept(first, item.work)
            first += len(item.work)

    def texts(self) -> dict[str, str]:
        """Return the files."""
        n.HALF.set(self.half)
        told = [*self._told(self.made.values), *self._known_names()]
        told += [item for twin in self.twins for item in twin.told(twin.made.values)]
        known = [f"const {name}: {kind.name} = {text};"
                 for name, (text, kind, _) in self._named()]  # fmt: skip
        pe = _PE.format(
            size=2 * len(told),
            types="\n".join(self.made.types),
            declared="\n".join([*self.made.declared, *self.vectors.declared, *known]),
            functions="\n".join(self.functions),
            twins="\n".join(line for twin, work in self._twins() for line in twin.top(work)),
            work="\n".join(body(self._kept(0, self.work))),
            calls="\n".join(f"  {line}" for twin in self.twins for line in twin.calls()),
            tells="\n".join(f"  tell({self._pattern(text, kind)});" for text, kind, _ in told),
        )
        return {"layout.csl": LAYOUT, "pe.csl": pe}

    def _pattern(self, text: str, kind: Kind) -> str:
        """A number's bits; the functions of both sides give bits already."""
        return text if text.startswith("twin") else pattern(text, kind)

    def _named(self) -> Iterator[tuple[str, tuple[str, Kind, Number]]]:
        return ((f"known{at}", item) for at, item in enumerate(self.known))

    def _known_names(self) -> Iterator[tuple[str, Kind, Number]]:
        return ((name, kind, value) for name, (_, kind, value) in self._named())

    def wanted(self) -> list[tuple[str, Kind, Number]]:
        """Return what the program tells, in the model.

        Raises:
            UnspecifiedError: No document says what it does.
        """
        n.HALF.set(self.half)
        memory = Memory(copy.deepcopy(self.made.values))
        with contextlib.suppress(LeaveError):
            run_all(self._kept(0, self.work), memory)
        twins = [item for twin, work in self._twins() for item in twin.told(twin.left(work))]
        return [*self._told(memory.globals), *self.known, *twins]

    def _told(self, values: dict[object, object]) -> Iterator[tuple[str, Kind, Number]]:
        for name, shape in self.made.shapes.items():
            yield from leaves(name, shape, values[name])


def program(seed: str) -> RandomProgram:
    """Draw the program of a seed: always the same."""
    chance = random.Random(seed)
    half = n.HALVES[chance.choice(("f16", "f16", "bf16", "cb16"))]
    n.HALF.set(half)
    kinds = numbers_for(chance)
    scope = Scope(chance)
    made = variables(scope, kinds)
    context = Context(dict(made.shapes))
    texts = list[str]()
    for number in range(chance.randrange(2, 5)):
        used = kinds if number else (chance.choice(VECTOR_KINDS), chance.choice(VECTOR_KINDS))
        text, function = _function(scope, used, number, context.counter)
        texts.append(text)
        scope.functions.append(function)
    vectors = Vectors(chance, made)
    work = list[Stmt]()
    for _ in range(chance.randrange(3, 9)):
        if chance.random() < 0.35:
            work.append(vectors.statement(scope))
        else:
            work += block(scope, context, 3, 1)
    known = [_known(scope, function) for function in scope.functions for _ in range(2)]
    count = chance.choice((0, 1, 1, 2))
    twins = [twin(scope, kinds, made, number, context.counter) for number in range(count)]
    return RandomProgram(seed, made, texts, work, known, vectors, twins, half)


def _known(scope: Scope, function: Pure) -> tuple[str, Kind, Number]:
    """A call with literals, which the compiler evaluates."""
    given = [literal(scope, kind) for kind in function.takes]
    texts = [n.text_of(value, kind) for value, kind in zip(given, function.takes, strict=True)]
    value = function.call(Memory({}), tuple(given))
    return f"{function.name}({', '.join(texts)})", function.gives, value


def _function(
    scope: Scope, kinds: tuple[Kind, ...], number: int, counter: list[int]
) -> tuple[str, Pure]:
    """A function of numbers that reads and writes nothing else."""
    takes = tuple(scope.chance.choice(kinds) for _ in range(scope.chance.randrange(1, 4)))
    gives = scope.chance.choice(kinds)
    names = [f"x{number}_{k}" for k in range(len(takes))]
    inner = Scope(scope.chance, functions=list(scope.functions))
    inner.places = [
        Place(name, kind, local_way(name), is_const=True)
        for name, kind in zip(names, takes, strict=True)
    ]
    result = f"r{number}"
    inner.places.append(Place(result, gives, local_way(result)))
    first = literal(scope, gives)
    start = n.text_of(first, gives)
    inside = block(
        inner, Context({}, gives=gives, counter=counter), 2, scope.chance.randrange(1, 4)
    )
    head = ", ".join(f"{name}: {kind.name}" for name, kind in zip(names, takes, strict=True))
    lines = [f"fn f{number}({head}) {gives.name} {{", f"  var {result}: {gives.name} = {start};"]
    lines += [*body(inside), f"  return {result};", "}"]

    def call(memory: Memory, given: tuple[Number, ...]) -> Number:
        frame = Memory({}, dict(zip(names, given, strict=True)), memory.steps)
        frame.frame[result] = first
        try:
            run_all(inside, frame)
        except LeaveError as left:
            return left.value
        finally:
            memory.steps = frame.steps
        return frame.frame[result]  # type: ignore[return-value] # a number

    return "\n".join(lines), Pure(f"f{number}", takes, gives, call)
