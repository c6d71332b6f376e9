"""The loop over a region's elements, as LLVM assembly.

The function takes the first element, the end of the range, and a pointer for each operand and
result. Values of one element are computed once, before the loops; the others in a loop over vectors
and a scalar loop over the remainder. Several threads may call the second function at once: each
takes one piece of the elements after the other until none is left. A result may share the memory of
an operand of equal size, because each element is read before it is written.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from appliance.core.ir.attributes import text
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import DType, TensorType
from appliance.numerics.loops import functions, packing, rounding

VECTOR_WIDTH = 16
"""Elements of a vector: one 512-bit register of float32; LLVM splits it for smaller ones."""

ENTRY_POINT = "region"
PART_ENTRY_POINT = "part"
PART_WORDS = 3
"""What `part` finds in front of the pointers: pieces taken, elements, elements of a piece."""

REGISTER_TYPES: Mapping[DType, str] = {
    DType.F32: "float",
    DType.F16: "float",
    DType.BF16: "float",
    DType.CB16: "float",
    DType.I1: "i1",
    DType.I32: "i32",
    DType.I64: "i64",
}
"""Element types that regions compute with; 16-bit formats in float32, as everywhere."""

_MEMORY_TYPES = {**REGISTER_TYPES, DType.I1: "i8"}
_SIZES = {dtype: dtype.container.itemsize for dtype in REGISTER_TYPES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """What a region reads from outside.

    Attributes:
        name: Name of the value.
        dtype: Element type.
        is_single: Whether it is one element that stands for all.
        value: The element, where it never changes; then it is no argument of the function.
        period: Number of elements that are repeated over and over, a multiple of `VECTOR_WIDTH`; 0
            if there are as many as the loop has.
    """

    name: str
    dtype: DType
    is_single: bool
    value: float | int | bool | None = None
    period: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Elementwise nodes over so many elements, or over one.

    Attributes:
        operands: What is read from outside.
        nodes: The computation, in order.
        results: Names of the values to be stored.
        singles: Names of the values, of operands and nodes, that have one element only.
        types: Type of every value.
        is_narrow: Whether bfloat16 values lie in two bytes each, instead of float32 containers.
        packed: Names of the operands and results of 16-bit types that do so beside those.
    """

    operands: tuple[Operand, ...]
    nodes: tuple[Node, ...]
    results: tuple[str, ...]
    singles: frozenset[str]
    types: Mapping[str, TensorType]
    is_narrow: bool = False
    packed: frozenset[str] = frozenset()

    def is_packed(self, name: str) -> bool:
        """Return whether the elements of an operand or a result lie in two bytes each."""
        return name in self.packed or (self.is_narrow and self.types[name].dtype is DType.BF16)


def write_function(region: Region) -> str:
    """Return the module's text; values are numbered, so that alike regions have the same text."""
    return _Writer(region).write()


@dataclass(frozen=True, slots=True)
class _Value:
    """A register or literal with its element type."""

    text: str
    dtype: DType


@dataclass(slots=True)
class _Scope:
    """Values known at one place: in front of the loops, or in the body of one.

    Attributes:
        width: Elements of a register here.
        known: Values by name.
    """

    width: int
    known: dict[str, _Value] = field(default_factory=dict)

    def type(self, element: str) -> str:
        return element if self.width == 1 else f"<{self.width} x {element}>"


class _Writer:
    """Writes one function."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._lines: list[str] = []
        self._declared: set[str] = set()
        self._count = 0
        arguments = [o.name for o in region.operands if o.value is None]
        self._pointers = {name: f"%p{index}" for index, name in enumerate(arguments)}
        self._targets = {name: f"%q{index}" for index, name in enumerate(region.results)}

    def write(self) -> str:
        region = self._region
        front = _Scope(1)
        for operand in region.operands:
            if operand.value is not None:
                front.known[operand.name] = _Value(
                    _literal(operand.value, operand.dtype), operand.dtype
                )
            elif operand.is_single:
                front.known[operand.name] = self._load(front, operand, "0")
        self._compute(front, single=True)
        self._store(front, "0", single=True)
        if any(name not in region.singles for name in region.results):
            self._line(f"%full = and i64 %n, -{VECTOR_WIDTH}")
            self._loop(front, "vectors", "%begin", "%full", VECTOR_WIDTH)
            self._loop(front, "rest", "%full", "%n", 1)
        self._line("ret void")
        pointers = [*self._pointers.values(), *self._targets.values()]
        arguments = ", ".join(["i64 %begin, i64 %n", *(f"ptr {name}" for name in pointers)])
        head = f"define void @{ENTRY_POINT}({arguments}) {{\nentry:\n"
        body = "\n".join(self._lines) + "\n}\n"
        return "\n".join(sorted(self._declared)) + "\n" + head + body + _part(len(pointers))

    def _loop(self, front: _Scope, name: str, start: str, stop: str, width: int) -> None:
        scope = _Scope(width)
        # Splats of what is computed in front; LLVM drops those that nobody reads.
        scope.known = {key: self._splat(value, scope) for key, value in front.known.items()}
        self._line(f"br label %{name}.before\n{name}.before:\nbr label %{name}.test")
        index, following = f"%{name}.i", f"%{name}.next"
        self._line(f"{name}.test:")
        self._line(f"{index} = phi i64 [{start}, %{name}.before], [{following}, %{name}.body]")
        self._line(f"%{name}.more = icmp slt i64 {index}, {stop}")
        self._line(f"br i1 %{name}.more, label %{name}.body, label %{name}.after")
        self._line(f"{name}.body:")
        for operand in self._region.operands:
            if operand.name not in scope.known:
                scope.known[operand.name] = self._load(scope, operand, index)
        self._compute(scope, single=False)
        self._store(scope, index, single=False)
        self._line(f"{following} = add i64 {index}, {width}")
        self._line(f"br label %{name}.test\n{name}.after:")

    def _compute(self, scope: _Scope, *, single: bool) -> None:
        for node in self._region.nodes:
            name = node.results[0]
            if (name in self._region.singles) is single:
                operands = [scope.known[operand] for operand in node.operands]
                target = node.types[0].dtype
                place = _Place(self, scope, node)
                value = LOWERINGS[node.op](place, operands, target)
                if target.is_half and node.op not in NEVER_ROUNDED:
                    value = _Value(rounding.rounded(place, target, value.text), target)
                scope.known[name] = value

    def _store(self, scope: _Scope, index: str, *, single: bool) -> None:
        for name in self._region.results:
            if (name in self._region.singles) is not single:
                continue
            value = scope.known[name]
            dtype = self._region.types[name].dtype
            stored, element = value.text, _MEMORY_TYPES[value.dtype]
            if self._region.is_packed(name):
                place = _Place(self, scope, self._region.nodes[0])
                stored, element = packing.packed(place, dtype, stored, scope.type("i16")), "i16"
            if value.dtype is DType.I1:
                stored = self.assign(f"zext {scope.type('i1')} {stored} to {scope.type('i8')}")
            address = self._address(self._targets[name], element, index)
            self._line(f"store {scope.type(element)} {stored}, ptr {address}, align 1")

    def _load(self, scope: _Scope, operand: Operand, index: str) -> _Value:
        is_packed = self._region.is_packed(operand.name)
        element = "i16" if is_packed else _MEMORY_TYPES[operand.dtype]
        if operand.period:
            index = self.assign(f"urem i64 {index}, {operand.period}")
        address = self._address(self._pointers[operand.name], element, index)
        size = 2 if is_packed else _SIZES[operand.dtype]
        loaded = self.assign(f"load {scope.type(element)}, ptr {address}, align {size}")
        if is_packed:
            place = _Place(self, scope, self._region.nodes[0])
            loaded = packing.unpacked(place, operand.dtype, loaded, scope.type("i16"))
        if operand.dtype is DType.I1:
            loaded = self.assign(f"icmp ne {scope.type('i8')} {loaded}, zeroinitializer")
            if scope.width == 1:
                self._lines[-1] = self._lines[-1].replace("zeroinitializer", "0")
        return _Value(loaded, operand.dtype)

    def _address(self, pointer: str, element: str, index: str) -> str:
        return self.assign(f"getelementptr {element}, ptr {pointer}, i64 {index}")

    def _splat(self, value: _Value, scope: _Scope) -> _Value:
        element = REGISTER_TYPES[value.dtype]
        if scope.width == 1:
            return value
        if not value.text.startswith("%"):
            return _Value(f"splat ({element} {value.text})", value.dtype)
        vector = scope.type(element)
        one = self.assign(f"insertelement {vector} poison, {element} {value.text}, i32 0")
        all_ = self.assign(
            f"shufflevector {vector} {one}, {vector} poison, <{scope.width} x i32> zeroinitializer"
        )
        return _Value(all_, value.dtype)

    def assign(self, expression: str) -> str:
        """Write an instruction; return its register."""
        self._count += 1
        self._line(f"%v{self._count} = {expression}")
        return f"%v{self._count}"

    def declare(self, declaration: str) -> None:
        """Declare a function of LLVM's own."""
        self._declared.add(declaration)

    def _line(self, line: str) -> None:
        self._lines.append(line)


def _part(num_pointers: int) -> str:
    """Return the function that takes pieces of the elements until none is left."""
    loads = ["%n.at = getelementptr i64, ptr %words, i64 1", "%n = load i64, ptr %n.at"]
    loads += ["%size.at = getelementptr i64, ptr %words, i64 2", "%size = load i64, ptr %size.at"]
    for index in range(num_pointers):
        loads.append(f"%a{index} = getelementptr ptr, ptr %words, i64 {PART_WORDS + index}")
        loads.append(f"%p{index} = load ptr, ptr %a{index}")
    pointers = "".join(f", ptr %p{index}" for index in range(num_pointers))
    lines = [
        f"define void @{PART_ENTRY_POINT}(ptr %words) {{\nentry:",
        *loads,
        "br label %next\nnext:",
        "%piece = atomicrmw add ptr %words, i64 1 monotonic",
        "%begin = mul i64 %piece, %size",
        "%more = icmp slt i64 %begin, %n",
        "br i1 %more, label %work, label %done\nwork:",
        "%behind = add i64 %begin, %size",
        "%whole = icmp slt i64 %behind, %n",
        "%end = select i1 %whole, i64 %behind, i64 %n",
        f"call void @{ENTRY_POINT}(i64 %begin, i64 %end{pointers})",
        "br label %next\ndone:\nret void\n}",
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node is being written."""

    writer: _Writer
    scope: _Scope
    node: Node

    def type(self, dtype: DType) -> str:
        """Return the register type of an element type."""
        return self.scope.type(REGISTER_TYPES[dtype])

    def assign(self, expression: str) -> str:
        """Write an instruction; return its register."""
        return self.writer.assign(expression)

    def constant(self, value: float | int, dtype: DType) -> str:
        """Return a literal of the width at hand."""
        literal = _literal(value, dtype)
        if self.scope.width == 1:
            return literal
        return f"splat ({REGISTER_TYPES[dtype]} {literal})"

    def intrinsic(self, name: str, *operands: str) -> str:
        """Call a float function of LLVM's own; return its register."""
        vector = self.type(DType.F32)
        suffix = "f32" if self.scope.width == 1 else f"v{self.scope.width}f32"
        given = ", ".join(f"{vector} {operand}" for operand in operands)
        types = ", ".join([vector] * len(operands))
        self.writer.declare(f"declare {vector} @llvm.{name}.{suffix}({types})")
        return self.assign(f"call {vector} @llvm.{name}.{suffix}({given})")


def _literal(value: float | int | bool, dtype: DType) -> str:
    """Return a constant as LLVM writes it: floats as the bits of the double they are."""
    if dtype.is_float:
        single = struct.unpack("<f", struct.pack("<f", float(value)))[0]
        return f"0x{struct.unpack('<Q', struct.pack('<d', single))[0]:016X}"
    if dtype is DType.I1:
        return "true" if value else "false"
    return str(int(value))


Lowering = Callable[[_Place, Sequence[_Value], DType], _Value]
"""Writes a node, given its operands and the element type of its result."""


def _arithmetic(float_op: str, integer_op: str | None) -> Lowering:
    def lower(place: _Place, operands: Sequence[_Value], target: DType) -> _Value:
        a, b = operands
        op = float_op if a.dtype.is_float else integer_op
        return _Value(place.assign(f"{op} {place.type(a.dtype)} {a.text}, {b.text}"), target)

    return lower


def _function(name: str) -> Lowering:
    return lambda place, operands, target: _Value(place.intrinsic(name, operands[0].text), target)


def _written(write: Callable[..., str]) -> Lowering:
    return lambda place, operands, target: _Value(
        write(place, *[operand.text for operand in operands]), target
    )


def _same(_place: _Place, operands: Sequence[_Value], _target: DType) -> _Value:
    return operands[0]


_FLOAT_COMPARISONS = {"EQ": "oeq", "NE": "une", "GT": "ogt", "GE": "oge", "LT": "olt", "LE": "ole"}
_INTEGER_COMPARISONS = {"EQ": "eq", "NE": "ne", "GT": "sgt", "GE": "sge", "LT": "slt", "LE": "sle"}


def _compare(place: _Place, operands: Sequence[_Value], target: DType) -> _Value:
    a, b = operands
    direction = text(place.node, "comparison_direction")
    if a.dtype.is_float:
        op = f"fcmp {_FLOAT_COMPARISONS[direction]}"
    else:
        op = f"icmp {_INTEGER_COMPARISONS[direction]}"
    return _Value(place.assign(f"{op} {place.type(a.dtype)} {a.text}, {b.text}"), target)


def _select(place: _Place, operands: Sequence[_Value], target: DType) -> _Value:
    condition, a, b = operands
    kind = place.type(a.dtype)
    chosen = f"{place.type(DType.I1)} {condition.text}, {kind} {a.text}, {kind} {b.text}"
    return _Value(place.assign(f"select {chosen}"), target)


def _cast(place: _Place, operands: Sequence[_Value], target: DType) -> _Value:
    (x,) = operands
    source, kind = place.type(x.dtype), place.type(target)
    match x.dtype, target:
        case a, b if a is b or (a.is_float and b.is_float):
            return _Value(x.text, target)
        case a, DType.I1 if a.is_float:
            zero = place.constant(0.0, DType.F32)
            return _Value(place.assign(f"fcmp une {source} {x.text}, {zero}"), target)
        case _, DType.I1:
            zero = place.constant(0, x.dtype)
            return _Value(place.assign(f"icmp ne {source} {x.text}, {zero}"), target)
        case DType.I1, b if b.is_float:
            return _Value(place.assign(f"uitofp {source} {x.text} to {kind}"), target)
        case DType.I1, _:
            return _Value(place.assign(f"zext {source} {x.text} to {kind}"), target)
        case _, b if b.is_float:
            return _Value(place.assign(f"sitofp {source} {x.text} to {kind}"), target)
        case DType.I32, _:
            return _Value(place.assign(f"sext {source} {x.text} to {kind}"), target)
        case _:
            return _Value(place.assign(f"trunc {source} {x.text} to {kind}"), target)


def _not(place: _Place, operands: Sequence[_Value], target: DType) -> _Value:
    (x,) = operands
    ones = place.constant(True if x.dtype is DType.I1 else -1, x.dtype)
    return _Value(place.assign(f"xor {place.type(x.dtype)} {x.text}, {ones}"), target)


def _reciprocal(place: _Place, operands: Sequence[_Value], target: DType) -> _Value:
    one = place.constant(1.0, DType.F32)
    return _Value(place.assign(f"fdiv {place.type(target)} {one}, {operands[0].text}"), target)


def _rsqrt(place: _Place, operands: Sequence[_Value], target: DType) -> _Value:
    root = _Value(place.intrinsic("sqrt", operands[0].text), target)
    return _reciprocal(place, [root], target)


NEVER_ROUNDED = frozenset({"Abs", "BroadcastInDim", "Reshape", "Select"})
"""Operations whose results are elements of their operands, hence already representable."""

LOWERINGS: Mapping[str, Lowering] = {
    "Abs": _function("fabs"),
    "Add": _arithmetic("fadd", "add"),
    "And": _arithmetic("", "and"),
    "BroadcastInDim": _same,
    "Cast": _cast,
    "Ceil": _function("ceil"),
    "Compare": _compare,
    "Div": _arithmetic("fdiv", None),
    "Exp": _written(functions.exponential),
    "Floor": _function("floor"),
    "Gelu": _written(functions.gelu),
    "GeluGrad": _written(functions.gelu_gradient),
    "Mul": _arithmetic("fmul", "mul"),
    "Not": _not,
    "Or": _arithmetic("", "or"),
    "Reciprocal": _reciprocal,
    "Reshape": _same,
    "Round": _function("roundeven"),
    "Rsqrt": _rsqrt,
    "Select": _select,
    "Sigmoid": _written(functions.sigmoid),
    "Sqrt": _function("sqrt"),
    "Sub": _arithmetic("fsub", "sub"),
    "Xor": _arithmetic("", "xor"),
}
"""How each operation is written. All of them are exact or correctly rounded, but those of
`APPROXIMATE`; Gelu and GeluGrad in their tanh form only."""

APPROXIMATE = frozenset({"Exp", "Gelu", "GeluGrad", "Sigmoid"})
"""Operations that agree with torch's to a few units in the last place."""
