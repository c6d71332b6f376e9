"""Functions that a loop computes itself, because the processor has no instruction for them.

They agree with torch's to a few units in the last place, not to the bit. Everything rests on the
exponential: GELU's tanh form is x * sigmoid(2u), with u = sqrt(2 / pi) * (x + 0.044715 x^3), since
(1 + tanh(u)) / 2 = sigmoid(2u); that has no cancellation where tanh is near -1.

Source: S. Moshier, Cephes Mathematical Library, 1992, expf.c, for the polynomial and the split of
ln 2; D. Hendrycks and K. Gimpel, Gaussian Error Linear Units, 2016, section 2, arXiv:1606.08415.
"""

import math
from typing import Protocol

from appliance.core.ir.tensors import DType

_POLYNOMIAL = (
    1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
    5.0000001201e-1,
)  # fmt: skip
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_ROUNDER = 1.5 * 2.0**23
"""Added to a small number it leaves the nearest integer in the low bits."""

_ROUNDER_BITS = 0x4B400000
_SMALLEST, _LARGEST = -104.0, 89.0
"""Beyond these the exponential is zero or infinite in float32."""

_SLOPE, _CUBIC = math.sqrt(2.0 / math.pi), 0.044715


class Writer(Protocol):
    """Where the instructions go; see `llvm_text`."""

    def type(self, dtype: DType) -> str:
        """Return the register type of an element type."""

    def assign(self, expression: str) -> str:
        """Write an instruction; return its register."""

    def constant(self, value: float | int, dtype: DType) -> str:
        """Return a literal."""

    def intrinsic(self, name: str, *operands: str) -> str:
        """Call a float function of LLVM's own; return its register."""


class Floats:
    """Float32 arithmetic, one instruction a call; numbers may stand for registers."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._type = writer.type(DType.F32)

    def add(self, a: str | float, b: str | float) -> str:
        """Write a + b."""
        return self._two("fadd", a, b)

    def sub(self, a: str | float, b: str | float) -> str:
        """Write a - b."""
        return self._two("fsub", a, b)

    def mul(self, a: str | float, b: str | float) -> str:
        """Write a * b."""
        return self._two("fmul", a, b)

    def div(self, a: str | float, b: str | float) -> str:
        """Write a / b."""
        return self._two("fdiv", a, b)

    def mul_add(self, a: str | float, b: str | float, c: str | float) -> str:
        """Write a * b + c, rounded once where the processor can."""
        return self._writer.intrinsic("fmuladd", self.number(a), self.number(b), self.number(c))

    def clamp(self, x: str, low: float, high: float) -> str:
        """Write x within bounds; NaN stays."""
        x = self.select(self.compare("olt", x, low), low, x)
        return self.select(self.compare("ogt", x, high), high, x)

    def compare(self, how: str, a: str | float, b: str | float) -> str:
        """Write a comparison, named as LLVM does."""
        return self._two(f"fcmp {how}", a, b)

    def select(self, condition: str, a: str | float, b: str | float) -> str:
        """Write a where the condition holds, else b."""
        truth, kind = self._writer.type(DType.I1), self._type
        chosen = f"{truth} {condition}, {kind} {self.number(a)}, {kind} {self.number(b)}"
        return self._writer.assign(f"select {chosen}")

    def power_of_two(self, exponent: str) -> str:
        """Write 2^n for an integer register n in the range of normal numbers."""
        writer, integers = self._writer, self._writer.type(DType.I32)
        biased = writer.assign(f"add {integers} {exponent}, {writer.constant(127, DType.I32)}")
        bits = writer.assign(f"shl {integers} {biased}, {writer.constant(23, DType.I32)}")
        return writer.assign(f"bitcast {integers} {bits} to {self._type}")

    def _two(self, op: str, a: str | float, b: str | float) -> str:
        return self._writer.assign(f"{op} {self._type} {self.number(a)}, {self.number(b)}")

    def number(self, x: str | float) -> str:
        """Return a register, or a number as a literal."""
        return x if isinstance(x, str) else self._writer.constant(x, DType.F32)


def exponential(writer: Writer, x: str) -> str:
    """Write e^x."""
    f, integers, floats = Floats(writer), writer.type(DType.I32), writer.type(DType.F32)
    x = f.clamp(x, _SMALLEST, _LARGEST)
    shifted = f.mul_add(x, math.log2(math.e), _ROUNDER)
    whole = f.sub(shifted, _ROUNDER)
    rest = f.mul_add(whole, -_LN2_HIGH, x)
    rest = f.mul_add(whole, -_LN2_LOW, rest)
    sum_: str | float = _POLYNOMIAL[0]
    for coefficient in _POLYNOMIAL[1:]:
        sum_ = f.mul_add(sum_, rest, coefficient)
    fraction = f.add(f.mul_add(sum_, f.mul(rest, rest), rest), 1.0)
    bits = writer.assign(f"bitcast {floats} {shifted} to {integers}")
    exponent = writer.assign(f"sub {integers} {bits}, {writer.constant(_ROUNDER_BITS, DType.I32)}")
    # In two factors, so that neither leaves the range of normal numbers.
    half = writer.assign(f"ashr {integers} {exponent}, {writer.constant(1, DType.I32)}")
    other = writer.assign(f"sub {integers} {exponent}, {half}")
    return f.mul(f.mul(fraction, f.power_of_two(half)), f.power_of_two(other))


def sigmoid(writer: Writer, x: str) -> str:
    """Write 1 / (1 + e^-x)."""
    f = Floats(writer)
    return f.div(1.0, f.add(1.0, exponential(writer, f.mul(x, -1.0))))


def gelu(writer: Writer, x: str) -> str:
    """Write the tanh form of GELU."""
    f = Floats(writer)
    return f.mul(x, sigmoid(writer, _twice_u(f, x)))


def gelu_gradient(writer: Writer, dy: str, x: str) -> str:
    """Write dy times the derivative of the tanh form: s + x s (1 - s) 2u'."""
    f = Floats(writer)
    s = sigmoid(writer, _twice_u(f, x))
    slope = f.mul_add(f.mul(x, x), 2.0 * _SLOPE * 3.0 * _CUBIC, 2.0 * _SLOPE)
    steepness = f.mul(f.mul(x, s), f.sub(1.0, s))
    # Where s is exactly 0 or 1 the slope may be infinite, and does not matter.
    return f.mul(dy, f.mul_add(f.clamp(slope, 0.0, 1e30), steepness, s))


def _twice_u(f: Floats, x: str) -> str:
    return f.mul(x, f.mul_add(f.mul(x, x), 2.0 * _SLOPE * _CUBIC, 2.0 * _SLOPE))
