"""Random programs: what they are written as, and what they leave in memory."""

import contextlib
import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.support.csl_random import numbers as n
from tests.support.csl_random.aggregates import (
    Array,
    Shape,
    Variables,
    local_way,
    numbers_for,
    variables,
)
from tests.support.csl_random.expressions import Memory, Place, Pure, Scope, literal
from tests.support.csl_random.numbers import BOOL, Kind, Number
from tests.support.csl_random.statements import Context, LeaveError, Stmt, block, body, run_all
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
fn work() void {{
{work}
}}
fn main() void {{
  work();
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
    without: set[int] = field(default_factory=set)
    """Statements that are left out, to find the smallest program that fails."""

    @property
    def statements(self) -> list[Stmt]:
        """What the program does."""
        return [item for at, item in enumerate(self.work) if at not in self.without]

    def texts(self) -> dict[str, str]:
        """Return the files."""
        tells = [f"  {_telling(text, kind)}" for text, kind, _ in self._told(self.made.values)]
        known = [f"const {name}: {kind.name} = {text};" for (text, kind, _), name in self._known()]
        tells += [f"  {_telling(name, kind)}" for (_, kind, _), name in self._known()]
        pe = _PE.format(
            size=2 * len(tells),
            types="\n".join(self.made.types),
            declared="\n".join([*self.made.declared, *self.vectors.declared, *known]),
            functions="\n".join(self.functions),
            work="\n".join(body(self.statements)),
            tells="\n".join(tells),
        )
        return {"layout.csl": LAYOUT, "pe.csl": pe}

    def _known(self) -> Iterator[tuple[tuple[str, Kind, Number], str]]:
        return ((item, f"known{at}") for at, item in enumerate(self.known))

    def wanted(self) -> list[tuple[str, Kind, Number]]:
        """Return what the program tells, in the model.

        Raises:
            UnspecifiedError: No document says what it does.
        """
        memory = Memory(copy.deepcopy(self.made.values))
        with contextlib.suppress(LeaveError):
            run_all(self.statements, memory)
        return [*self._told(memory.globals), *self.known]

    def _told(self, values: dict[object, object]) -> Iterator[tuple[str, Kind, Number]]:
        for name, shape in self.made.shapes.items():
            yield from _leaves(name, shape, values[name])


def _telling(text: str, kind: Kind) -> str:
    if kind == BOOL:
        return f"tell(if ({text}) 1 else 0);"
    if kind.is_float or kind.letter == "i":
        text = f"@bitcast(u{kind.bits}, {text})"
    return f"tell(@as(u64, {text}));"


def _leaves(text: str, shape: Shape, value: object) -> Iterator[tuple[str, Kind, Number]]:
    """Yield all numbers of a variable with their places."""
    if isinstance(shape, Kind):
        yield text, shape, value  # type: ignore[misc] # a leaf is a number
    elif isinstance(shape, Array):
        for at, item in enumerate(value):  # type: ignore[arg-type,var-annotated] # a list
            yield from _leaves(f"{text}[{_indices(at, shape)}]", shape.element, item)
    elif shape.is_packed:
        for name, kind, at in shape.shifts():
            yield f"{text}.{name}", kind, n.of_pattern(value >> at, kind)  # type: ignore[operator]
    else:
        for name, part in shape.fields:
            yield from _leaves(f"{text}.{name}", part, value[name])  # type: ignore[index]


def _indices(at: int, shape: Array) -> str:
    spelled = list[str]()
    for dimension in reversed(shape.dimensions):
        spelled.insert(0, str(at % dimension))
        at //= dimension
    return ", ".join(spelled)


def program(seed: str) -> RandomProgram:
    """Draw the program of a seed: always the same."""
    chance = random.Random(seed)
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
    return RandomProgram(seed, made, texts, work, known, vectors)


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
