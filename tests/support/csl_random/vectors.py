"""Random operations on DSDs, each with what it does to the arrays of the model, one by one."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from tests.support.csl_random import numbers as n
from tests.support.csl_random.aggregates import Array, Variables, value_of
from tests.support.csl_random.carriers import FIFOS, LOOPS, MOST, declarations
from tests.support.csl_random.expressions import (
    Expr,
    Memory,
    Scope,
    constant,
    expression,
    store,
)
from tests.support.csl_random.numbers import F16, F32, U16, Kind, Number
from tests.support.csl_random.statements import Stmt
from tests.support.csl_random.views import COLUMNS, ROWS, SIZE, View, drawn, grid, late

I16, I32, U32 = Kind("i", 16), Kind("i", 32), Kind("u", 32)
VECTOR_KINDS = (I16, U16, I32, U32, F16, F16, F32, F32)
GRID_KINDS = (U16, F32)
"""Types of the elements of the arrays of two dimensions."""
Operate = Callable[[list[Number]], Number]


@dataclass(frozen=True, slots=True)
class Operation:
    """A builtin: its operands' types, destination first, and what it computes for an element."""

    name: str
    kinds: tuple[tuple[Kind, ...], ...]
    compute: Operate
    accumulates: bool = False
    """Whether a number may be its destination and first source."""


def _int(op: str) -> Operate:
    return lambda v: n.binary(op, int(v[0]) & 0xFFFF, int(v[1]) & 0xFFFF, U16)


def _float(op: str, kind: Kind) -> Operate:
    return lambda v: n.float_binary(op, float(v[0]), float(v[1]), kind)


def _greater(v: list[Number]) -> Number:
    if any(map(math.isnan, v)) or v[0] == v[1]:
        raise n.UnspecifiedError("the greater of equal numbers")
    return max(v)


_W, _H, _S = (I16, U16), (F16,), (F32,)
_L = (I32, U32)
_OPERATIONS = (
    Operation("mov16", (_W, _W), lambda v: int(v[0]) & 0xFFFF),
    Operation("mov32", (_L, _L), lambda v: int(v[0]) & 0xFFFFFFFF),
    *(
        Operation(f"{name}16", (_W, _W, _W), _int(op))
        for name, op in {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}.items()
    ),
    Operation("sll16", (_W, _W, (U16,)), lambda v: (int(v[0]) << int(v[1])) & 0xFFFF),
    Operation("slr16", (_W, _W, (U16,)), lambda v: (int(v[0]) & 0xFFFF) >> int(v[1])),
    Operation("sar16", (_W, _W, (U16,)), lambda v: n.wrapped(int(v[0]), I16) >> int(v[1])),
    Operation("popcnt", (_W, _W), lambda v: (int(v[0]) & 0xFFFF).bit_count()),
    Operation("fmovs", (_S, _S), lambda v: v[0]),
    Operation("fmovh", (_H, _H), lambda v: v[0]),
    Operation("fadds", (_S, _S, _S), _float("+", F32), accumulates=True),
    Operation("fsubs", (_S, _S, _S), _float("-", F32), accumulates=True),
    Operation("fmuls", (_S, _S, _S), _float("*", F32), accumulates=True),
    Operation("faddh", (_H, _H, _H), _float("+", F16), accumulates=True),
    Operation("fsubh", (_H, _H, _H), _float("-", F16), accumulates=True),
    Operation("fmulh", (_H, _H, _H), _float("*", F16), accumulates=True),
    Operation("fmaxs", (_S, _S, _S), _greater),
    Operation("fmaxh", (_H, _H, _H), _greater),
    Operation("fmacs", (_S, _S, _S, _S), lambda v: n.fused(*map(float, v), F32)),
    Operation("fmach", (_H, _H, _H, _H), lambda v: n.fused(*map(float, v), F16)),
    Operation("fnegs", (_S, _S), lambda v: -v[0]),
    Operation("fnegh", (_H, _H), lambda v: -v[0]),
    Operation("fabss", (_S, _S), lambda v: abs(v[0])),
    Operation("fabsh", (_H, _H), lambda v: abs(v[0])),
    Operation("fh2s", (_S, _H), lambda v: v[0]),
    Operation("fs2h", (_H, _S), lambda v: n.rounded(float(v[0]), F16)),
    Operation("faddhs", (_S, _H, _S), _float("+", F32)),
    Operation("faddhs", (_S, _S, _H), _float("+", F32)),
    Operation("fmachs", (_S, _S, _H, _H), lambda v: n.fused(*map(float, v), F32)),
    Operation("xp162fs", (_S, (I16,)), lambda v: float(v[0])),
    Operation("xp162fh", (_H, (I16,)), lambda v: n.rounded(Fraction(int(v[0])), F16)),
)
_PAIRS = [
    item
    for item in _OPERATIONS
    if len(item.kinds) <= 3 and item.name not in ("sll16", "slr16", "sar16")
]
"""Operations of one or two sources, which may be of any place."""


@dataclass(slots=True)
class Vectors:
    """The arrays on which operations work, and the DSDs that are declared at the top."""

    chance: random.Random
    made: Variables
    declared: list[str] = field(default_factory=list)
    number: int = 0
    arrays: dict[str, Kind] = field(default_factory=dict)
    grids: set[str] = field(default_factory=set)
    """Those of two dimensions."""

    def __post_init__(self) -> None:
        for name, register in {"dd": "dest", "ds0": "src0", "ds1": "src1"}.items():
            self.declared.append(f"const {name} = @get_dsr(dsr_{register}, 3);")
        self.declared += ["const xd = @get_xdsr(3);", *declarations()]
        for at, kind in enumerate((*VECTOR_KINDS, *GRID_KINDS)):
            is_flat = at < len(VECTOR_KINDS)
            name, shape = f"v{at}", Array((SIZE,) if is_flat else (ROWS, COLUMNS), kind)
            text, value = value_of(Scope(self.chance), shape)
            self.made.declared.append(f"var {name} = {text};")
            self.made.shapes[name], self.made.values[name] = shape, value
            self.arrays[name] = kind
            self.grids |= set() if is_flat else {name}

    def statement(self, scope: Scope) -> Stmt:
        """Draw an operation."""
        way = self.chance.random()
        if way < 0.15:
            return self._accumulated(scope)
        if way < 0.35:
            return self._carried(scope)
        if way < 0.45:
            return self._circular(scope)
        return self._mapped(scope) if way < 0.55 else self._plain(scope)

    def _carried(self, scope: Scope) -> Stmt:
        """An operation of which a source passes through a FIFO or a color."""
        carrier = self.chance.choice((*FIFOS, *LOOPS))
        operation = self.chance.choice([o for o in _PAIRS if carrier.kind in o.kinds[-1]])
        lines, length = list[str](), self.chance.randrange(1, MOST + 1)
        given = self._view((carrier.kind,), length, lines)
        lines += carrier.sent(given.text, length)
        return self._with(scope, operation, given, carrier.came(length), lines,
                          is_last=carrier.is_last)  # fmt: skip

    def _circular(self, scope: Scope) -> Stmt:
        """An operation of which the last source is a circular buffer."""
        array, kind = self.chance.choice([*self.arrays.items()][: len(VECTOR_KINDS)])
        operation = self.chance.choice([o for o in _PAIRS if kind in o.kinds[-1]] or _PAIRS[:1])
        length, offset = self.chance.randrange(1, 9), self.chance.randrange(SIZE - 9, SIZE)
        at = [(offset + step) % SIZE for step in range(length)]
        given = View("ds1", array, kind, at, is_flat=True)
        dsd = (
            f"@get_dsd(circbuf_dsd, .{{ .base_address = &{array}, .extent = {length}, "
            f".offset = {offset}, .wraparound = {SIZE} }})"
        )
        lines = [f"@load_to_dsr_xdsr(ds1, xd, {dsd});"]
        return self._with(scope, operation, given, "ds1", lines, is_last=True)

    def _with(
        self, scope: Scope, operation: Operation, given: View, text: str, lines: list[str],
        *, is_last: bool,
    ) -> Stmt:  # fmt: skip
        """The operation with a source that is given, and others that are drawn."""
        kinds, length = operation.kinds, len(given.at)
        dest = self._view(kinds[0], length, lines, given.array)
        sources = [self._source(scope, item, length, lines, given.array) for item in kinds[1:]]
        usable = [at for at, item in enumerate(kinds[1:]) if given.kind in item]
        place = usable[-1] if is_last else self.chance.choice(usable)
        sources[place] = given
        texts = [item.text for item in (dest, *sources)]
        texts[1 + place] = text
        lines.append(f"@{operation.name}({', '.join(texts)});")
        return Stmt(["{", *("  " + line for line in lines), "}"], _run(operation, dest, sources))

    def _source(
        self, scope: Scope, kinds: tuple[Kind, ...], length: int, lines: list[str], without: str
    ) -> "View | Expr":
        has_other = any(k in kinds and name != without for name, k in self.arrays.items())
        if not has_other or self.chance.random() < 0.3:
            return self._number(scope, kinds)
        return self._view(kinds, length, lines, without)

    def _plain(self, scope: Scope) -> Stmt:
        operation = self.chance.choice(_OPERATIONS)
        length = self.chance.choice((1, 2, 3, 4, 4, 6, 6, 8))
        lines = list[str]()
        dest = self._view(operation.kinds[0], length, lines)
        sources: list[View | Expr] = [
            self._view(kinds, length, lines) for kinds in operation.kinds[1:]
        ]
        last = len(sources) - 1
        if operation.name in ("sll16", "slr16", "sar16"):
            count = self.chance.randrange(16)
            sources[1] = Expr(f"@as(u16, {count})", lambda _: count)
        elif operation.name.startswith("fmac"):
            sources[2] = self._number(scope, operation.kinds[3])
        elif operation.name != "faddhs" and self.chance.random() < 0.3:
            at = self.chance.choice((0, last))
            sources[at] = self._number(scope, operation.kinds[1 + at])
        operands = self._registers([dest, *sources], lines)
        lines.append(f"@{operation.name}({', '.join(operands)});")
        return Stmt(["{", *("  " + line for line in lines), "}"], _run(operation, dest, sources))

    def _registers(self, operands: list[View | Expr], lines: list[str]) -> list[str]:
        """Perhaps load DSDs of one dimension into registers, and return the operands' texts."""
        found = list[str]()
        for register, operand in zip(("dd", "ds0", "ds1", ""), operands, strict=False):
            is_vector = isinstance(operand, View) and operand.is_flat
            if register and is_vector and self.chance.random() < 0.25:
                lines.append(f"@load_to_dsr({register}, {operand.text});")
                found.append(register)
            else:
                found.append(operand.text)
        return found

    def _accumulated(self, scope: Scope) -> Stmt:
        """A sum, product or difference over a DSD into a number."""
        operation = self.chance.choice([item for item in _OPERATIONS if item.accumulates])
        kind, lines = operation.kinds[0][0], list[str]()
        found = [p for p in scope.places if p.kind == kind and not p.is_const and not p.bits]
        if not found:
            return self._plain(scope)
        place, start = self.chance.choice(found), self._number(scope, (kind,))
        view = self._view((kind,), self.chance.randrange(1, 7), lines)
        lines.append(f"@{operation.name}(&{place.text}, {start.text}, {view.text});")

        def run(memory: Memory) -> None:
            total = start.value(memory)
            for at in view.at:
                total = operation.compute([total, view.elements(memory)[at]])
            store(place, total, memory)

        return Stmt(["{", *("  " + line for line in lines), "}"], run)

    def _mapped(self, scope: Scope) -> Stmt:
        """A function of the program for each element."""
        usable = [f for f in scope.functions if {*f.takes, f.gives} <= {*VECTOR_KINDS}]
        if not usable:
            return self._plain(scope)
        function, lines = self.chance.choice(usable), list[str]()
        length = self.chance.randrange(1, 6)
        given: list[View | Expr] = [
            self._view((kind,), length, lines) if at == 0 or self.chance.random() < 0.6
            else self._number(scope, (kind,))
            for at, kind in enumerate(function.takes)
        ]  # fmt: skip
        dest = self._view((function.gives,), length, lines)
        operands = ", ".join(item.text for item in (*given, dest))
        lines.append(f"@map({function.name}, {operands});")

        def run(memory: Memory) -> None:
            fixed = [item.value(memory) if isinstance(item, Expr) else 0 for item in given]
            for step, at in enumerate(dest.at):
                values = [
                    item.elements(memory)[item.at[step]] if isinstance(item, View) else fixed[k]
                    for k, item in enumerate(given)
                ]
                dest.elements(memory)[at] = function.call(memory, tuple(values))

        return Stmt(["{", *("  " + line for line in lines), "}"], run)

    def _number(self, scope: Scope, kinds: tuple[Kind, ...]) -> Expr:
        kind = self.chance.choice(kinds)
        if self.chance.random() < 0.3:
            return constant(scope, kind)
        return expression(scope, kind, 2)

    def _view(
        self, kinds: tuple[Kind, ...], length: int, lines: list[str], without: str = ""
    ) -> View:
        usable = [item for item in self.arrays.items() if item[1] in kinds and item[0] != without]
        array, kind = self.chance.choice(usable)
        self.number += 1
        name, where = f"d{self.number}", self.chance.random()
        if array in self.grids:
            text, at = grid(self.chance, array, length)
        elif where < 0.2:
            more, text, at = late(self.chance, array, length, name)
            lines += more
            return View(text, array, kind, at, is_flat=True)
        else:
            text, at = drawn(self.chance, array, length)
        text, at = self._changed(text, at, array, length)
        is_flat = "mem4d" not in text
        if where < 0.6:
            self.declared.append(f"const {name} = {text};")
            return View(name, array, kind, at, is_flat)
        if where < 0.8:
            lines.append(f"{self.chance.choice(('const', 'var'))} {name} = {text};")
            return View(name, array, kind, at, is_flat)
        return View(text, array, kind, at, is_flat)

    def _changed(self, text: str, at: list[int], array: str, length: int) -> tuple[str, list[int]]:
        """Perhaps the DSD with another offset or base."""
        if self.chance.random() < 0.7:
            return text, at
        low, high = -min(at), SIZE - 1 - max(at)
        by = self.chance.randrange(low, high + 1)
        kind = self.arrays[array]
        return f"@increment_dsd_offset({text}, {by}, {kind.name})", [x + by for x in at]


def _run(operation: Operation, dest: View, sources: list[View | Expr]) -> Callable[[Memory], None]:
    def run(memory: Memory) -> None:
        fixed = [item.value(memory) if isinstance(item, Expr) else 0 for item in sources]
        elements = dest.elements(memory)
        for step, at in enumerate(dest.at):
            values = [
                item.elements(memory)[item.at[step]] if isinstance(item, View) else fixed[k]
                for k, item in enumerate(sources)
            ]
            value = operation.compute(values)
            elements[at] = value if dest.kind.is_float else n.wrapped(int(value), dest.kind)

    return run
