"""What one element of a DSD operation gives: bit patterns in, bit pattern out.

Floats are computed exactly, as fractions where a double is too short, and rounded once.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from appliance.fabric.floats import FORMATS, decode_float, encode_float, round_to_format

LOW = 0xFFFF
WORD = 0xFFFFFFFF
LONG = (1 << 64) - 1


def extend(value: int, bits: int, *, signed: bool) -> int:
    """Return the low bits of a value, extended by zeros or by their sign to 64 bits."""
    low = value & ((1 << bits) - 1)
    return (low - (1 << bits)) & LONG if signed and low >> (bits - 1) else low


def as_signed(value: int, bits: int = 64) -> int:
    """Return the signed number that a pattern means."""
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if low >> (bits - 1) else low


def truncated(value: float, bits: int, *, signed: bool) -> int:
    """Return a float as an integer: toward zero, at the type's ends; NaN gives 0."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return (high if value > 0 else low) & LONG
    return max(low, min(high, int(value))) & LONG


def fused(values: tuple[float, float, float], bits: int, fp16: str) -> int:
    """Return `a + b * x`, rounded once."""
    a, b, x = values
    if not all(map(math.isfinite, (a, b, x))):
        return encode_float(a + b * x, bits, fp16)
    exact = Fraction(a) + Fraction(b) * Fraction(x)
    layout = FORMATS["f32" if bits == 32 else fp16]
    negative = exact < 0 or (exact == 0 and math.copysign(1.0, a + b * x) < 0)
    return round_to_format(exact, layout, negative=negative)


def divided(a: float, b: float) -> float:
    """Return the quotient as IEEE has it."""
    if b == 0:
        sign = math.copysign(1.0, a) * math.copysign(1.0, b)
        return math.nan if a == 0 or math.isnan(a) else sign * math.inf
    return a / b


@dataclass(frozen=True, slots=True)
class Widths:
    """Bytes of an element of the destination and of both sources."""

    dest: int
    first: int
    second: int


_WIDTHS = {
    "faddhs": Widths(4, 2, 4),
    "faddsh": Widths(4, 4, 2),
    "fmachs": Widths(4, 4, 2),
    "fh2s": Widths(4, 2, 2),
    "fs2h": Widths(2, 4, 4),
    "fs2xp16": Widths(2, 4, 4),
    "xp162fs": Widths(4, 2, 2),
    "fscales": Widths(4, 4, 2),
}
_WIDE = {"mov32", "dfilt", "fmovs", "fadds", "fsubs", "fmuls", "fmaxs", "fmacs", "fnegs", "fabss"}
_WIDE |= {"fnorms"}


def widths_of(op: str) -> Widths:
    """Return the widths of an operation's operands."""
    return _WIDTHS.get(op, Widths(4, 4, 4) if op in _WIDE else Widths(2, 2, 2))


def takes_two_sources(op: str) -> bool:
    """Say whether an operation reads two sources (a fused one has a factor besides)."""
    stem = op.rstrip("hs") if op.startswith("f") else op
    return stem in _TWO


_TWO = {"add16", "addc16", "sub16", "and16", "or16", "xor16", "sll16", "slr16", "sar16"}
_TWO |= {"fadd", "fsub", "fmul", "fmax", "fmac", "fscale"}
_INTEGER: dict[str, Callable[[int, int], int]] = {
    "sub16": lambda a, b: a - b,
    "and16": lambda a, b: a & b,
    "or16": lambda a, b: a | b,
    "xor16": lambda a, b: a ^ b,
    "sll16": lambda a, b: a << b if b < 16 else 0,
    "slr16": lambda a, b: a >> b,
    "sar16": lambda a, b: as_signed(a, 16) >> min(b, 15),
    "mov16": lambda a, _: a,
    "fmovh": lambda a, _: a,
    "fnegh": lambda a, _: a ^ 0x8000,
    "fabsh": lambda a, _: a & 0x7FFF,
    "clz": lambda a, _: 16 - a.bit_length(),
    "ctz": lambda a, _: (a & -a).bit_length() - 1 if a else 16,
    "popcnt": lambda a, _: a.bit_count(),
}
_BITS: dict[str, Callable[[int], int]] = {
    "mov32": lambda a: a,
    "fmovs": lambda a: a,
    "fnegs": lambda a: a ^ 0x80000000,
    "fabss": lambda a: a & 0x7FFFFFFF,
}
_FLOAT: dict[str, Callable[[float, float], float]] = {
    "fadd": lambda a, b: a + b,
    "fsub": lambda a, b: a - b,
    "fmul": lambda a, b: a * b,
    "fmax": lambda a, b: a if a > b or math.isnan(b) else b,
}


@dataclass
class Unit:
    """The arithmetic of one PE: its 16-bit float format and the carry of `@addc16`."""

    fp16: str
    carry: int = 0

    def compute(self, op: str, a: int, b: int, x: int) -> int:
        """Return what an operation makes of one element of each source and its factor."""
        if op in ("add16", "addc16"):
            total = (a & LOW) + (b & LOW) + (self.carry if op == "addc16" else 0)
            self.carry = total >> 16
            return total & LOW
        if op in _INTEGER:
            return _INTEGER[op](a & LOW, b & LOW) & LOW
        if op in _BITS:
            return _BITS[op](a & WORD)
        return self._float(op, a, b, x)

    def half(self, pattern: int) -> float:
        """Return what 16 bits mean."""
        return decode_float(pattern & LOW, self.fp16)

    def single(self, pattern: int) -> float:
        """Return what 32 bits mean."""
        return decode_float(pattern & WORD, "f32")

    def of_half(self, value: float) -> int:
        """Round to 16 bits."""
        return encode_float(value, 16, self.fp16)

    def of_single(self, value: float) -> int:
        """Round to 32 bits."""
        return encode_float(value, 32)

    def _float(self, op: str, a: int, b: int, x: int) -> int:
        if op in _FUSED:
            first, other = _FUSED[op]
            values = (first(self, a), other(self, b), other(self, x))
            return fused(values, 16 if op == "fmach" else 32, self.fp16)
        if op in _CONVERSIONS:
            return _CONVERSIONS[op](self, a)
        if op == "faddhs":
            return self.of_single(self.half(a) + self.single(b))
        if op == "faddsh":
            return self.of_single(self.single(a) + self.half(b))
        read, write = (
            (Unit.half, Unit.of_half) if op.endswith("h") else (Unit.single, Unit.of_single)
        )
        if op.startswith(("fnorm", "fscale")):
            return write(self, _rescaled(op, read(self, a), as_signed(b, 16)))
        return write(self, _FLOAT[op[:-1]](read(self, a), read(self, b)))


_FUSED = {
    "fmach": (Unit.half, Unit.half),
    "fmacs": (Unit.single, Unit.single),
    "fmachs": (Unit.single, Unit.half),
}
_CONVERSIONS: dict[str, Callable[[Unit, int], int]] = {
    "fh2s": lambda unit, a: unit.of_single(unit.half(a)),
    "fs2h": lambda unit, a: unit.of_half(unit.single(a)),
    "fh2xp16": lambda unit, a: truncated(unit.half(a), 16, signed=True) & LOW,
    "fs2xp16": lambda unit, a: truncated(unit.single(a), 16, signed=True) & LOW,
    "xp162fh": lambda unit, a: unit.of_half(float(as_signed(a, 16))),
    "xp162fs": lambda unit, a: unit.of_single(float(as_signed(a, 16))),
}


def _rescaled(op: str, value: float, exponent: int) -> float:
    if value == 0 or not math.isfinite(value):
        return value
    significand, found = math.frexp(value)
    if op.startswith("fnorm"):
        return significand * 2
    return math.ldexp(significand, max(-1000, min(1000, found + exponent)))
