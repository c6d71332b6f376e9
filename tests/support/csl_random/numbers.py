"""Numbers of CSL as the model sees them: unbounded integers and exact fractions, then rounded."""

import math
import struct
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction

Number = int | float | bool
"""What a value of a number, enum or bool is; floats are exact values of their type."""


@dataclass(frozen=True, slots=True)
class Half:
    """A format of 16-bit floats: its bits of mantissa, and what is added to exponents."""

    name: str
    mantissa: int
    bias: int

    @property
    def top(self) -> int:
        """The exponent of infinities."""
        return (1 << (15 - self.mantissa)) - 1

    def pattern(self, value: float) -> int:
        """The bits of a value that the format has."""
        sign = 0x8000 if math.copysign(1.0, value) < 0 else 0
        if math.isinf(value):
            return sign | self.top << self.mantissa
        if value == 0:
            return sign
        exponent = max(math.frexp(abs(value))[1] - 1, 1 - self.bias)
        units = int(math.ldexp(abs(value), self.mantissa - exponent))
        is_normal = units >> self.mantissa
        return sign | (units + ((exponent + self.bias - 1) << self.mantissa if is_normal else 0))

    def value(self, bits: int) -> float:
        """The value of bits."""
        sign = -1.0 if bits & 0x8000 else 1.0
        exponent, units = bits >> self.mantissa & self.top, bits & ((1 << self.mantissa) - 1)
        if exponent == self.top:
            return math.nan if units else sign * math.inf
        units |= (1 << self.mantissa) if exponent else 0
        return sign * math.ldexp(units, max(exponent, 1) - self.bias - self.mantissa)


HALVES = {
    each.name: each for each in (Half("f16", 10, 15), Half("bf16", 7, 127), Half("cb16", 9, 42))
}
HALF: ContextVar[Half] = ContextVar("HALF", default=HALVES["f16"])
"""The format that a program's 16-bit floats have."""


class UnspecifiedError(Exception):
    """The program does something whose result no document gives."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of number: `i`, `u`, `f` or `b` (bool), and its bits."""

    letter: str
    bits: int

    @property
    def name(self) -> str:
        """What the language calls it."""
        if self.letter == "f" and self.bits == 16:
            return HALF.get().name
        return "bool" if self.letter == "b" else f"{self.letter}{self.bits}"

    @property
    def is_float(self) -> bool:
        """Whether it is a float."""
        return self.letter == "f"

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer."""
        return self.letter in "iu"

    @property
    def low(self) -> int:
        """The least integer."""
        return -(1 << (self.bits - 1)) if self.letter == "i" else 0

    @property
    def high(self) -> int:
        """The greatest integer."""
        return (1 << (self.bits - (self.letter == "i"))) - 1


BOOL, F16, F32, U16 = Kind("b", 1), Kind("f", 16), Kind("f", 32), Kind("u", 16)
_WORDS = (8, 16, 32, 64)
_ODD = (1, 3, 5, 7, 12, 17, 24, 31, 33, 40, 63)
WIDE = tuple(Kind(letter, bits) for bits in _WORDS for letter in "iu")
ODD = tuple(Kind(letter, bits) for bits in _ODD for letter in "iu")
COMMON = (*WIDE, *WIDE, *ODD, F16, F32, F16, F32)
"""Types of numbers as often as they are drawn."""


def wrapped(value: int, kind: Kind) -> int:
    """An integer cut to the bits of its type."""
    value &= (1 << kind.bits) - 1
    return value - (1 << kind.bits) if value > kind.high else value


def rounded(value: Fraction | float, kind: Kind) -> float:
    """The nearest float of a type, the even one of two."""
    if isinstance(value, float) and (value == 0 or not math.isfinite(value)):
        return value
    exact = Fraction(value)
    if exact == 0:
        return 0.0
    half = HALF.get()
    digits, least, most = 24, -149, 128
    if kind.bits == 16:
        digits, least = half.mantissa + 1, 1 - half.bias - half.mantissa
        most = half.top - half.bias
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - digits + 1, least)
    steps = round(size / unit) * unit
    found = math.inf if steps >= Fraction(2) ** most else float(steps)
    return math.copysign(found, exact)


def _divided(a: int, b: int) -> int:
    if b == 0:
        raise UnspecifiedError("division by zero")
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divided,
    "%": lambda a, b: a - b * _divided(a, b),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << min(b, 200),
    ">>": lambda a, b: a >> b,
}
BITWISE = frozenset("&|^")
COMPARISONS: dict[str, Callable[[Number, Number], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}


def binary(op: str, a: Number, b: Number, kind: Kind) -> Number:
    """`a op b` in a type."""
    if not kind.is_float:
        return wrapped(_INTEGERS[op](int(a), int(b)), kind)
    return float_binary(op, float(a), float(b), kind)


def float_binary(op: str, a: float, b: float, kind: Kind) -> float:
    """The same in floats: IEEE 754, rounded once."""
    if op == "/" and b == 0 and not math.isnan(a):
        sign = math.copysign(1.0, a) * math.copysign(1.0, b)
        return math.nan if a == 0 else math.copysign(math.inf, sign)
    # One operation in doubles, then a rounding, is one rounding: 53 bits are twice 24 and two more.
    quick = {"+": a + b, "-": a - b, "*": a * b, "/": a / b if b else math.nan}[op]
    return rounded(quick, kind)


def fused(a: float, b: float, c: float, kind: Kind) -> float:
    """`a + b * c`, rounded once."""
    if all(map(math.isfinite, (a, b, c))) and (b and c) and a:
        exact = Fraction(a) + Fraction(b) * Fraction(c)
        return rounded(exact, kind) if exact else 0.0
    return rounded(a + b * c, kind)


def converted(value: Number, before: Kind, after: Kind) -> Number:
    """`@as(after, value)`."""
    if after == BOOL:
        return value != 0
    if after.is_float:
        return rounded(float(value) if before.is_float else Fraction(int(value)), after)
    if before.is_float:
        return _integer(float(value), after)
    return wrapped(int(value), after)


def _integer(value: float, kind: Kind) -> int:
    if not math.isfinite(value) or not kind.low <= int(value) <= kind.high:
        raise UnspecifiedError("a float beyond an integer type")
    return int(value)


def pattern_of(value: Number, kind: Kind) -> int:
    """The bits of a number."""
    if kind.is_float:
        if math.isnan(value):
            raise UnspecifiedError("the bits of a NaN")
        if kind.bits == 16:
            return HALF.get().pattern(float(value))
        return int.from_bytes(struct.pack("<f", value), "little")
    return int(value) & ((1 << kind.bits) - 1)


def of_pattern(bits: int, kind: Kind) -> Number:
    """The number that bits are."""
    bits &= (1 << kind.bits) - 1
    if kind.is_float:
        if kind.bits == 16:
            return HALF.get().value(bits)
        found: float = struct.unpack("<f", bits.to_bytes(4, "little"))[0]
        return found
    return bool(bits) if kind == BOOL else wrapped(bits, kind)


def text_of(value: Number, kind: Kind) -> str:
    """A literal of the language."""
    if kind == BOOL:
        return "true" if value else "false"
    return repr(float(value)) if kind.is_float else str(int(value))
