"""Floats as the machine writes them: encoding, and what a pattern means. The slow reference.

f16 and f32 are IEEE formats; bf16 is f32 without its low half; cb16 has a sign, six bits of
exponent with bias 42 and nine of mantissa.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from appliance.csl.program.nans import nan_bits


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary format with gradual underflow, infinities and NaN."""

    exponent_bits: int
    mantissa_bits: int
    bias: int


FORMATS = {
    "f16": FloatFormat(5, 10, 15),
    "bf16": FloatFormat(8, 7, 127),
    "cb16": FloatFormat(6, 9, 42),
    "f32": FloatFormat(8, 23, 127),
}


def encode_float(value: float, bits: int, fp16_format: str = "f16") -> int:
    """Return the pattern of a number in a float type of 16 or 32 bits, rounded to nearest even."""
    layout = FORMATS["f32" if bits == 32 else fp16_format]
    negative = math.copysign(1.0, value) < 0
    special = ((1 << layout.exponent_bits) - 1) << layout.mantissa_bits
    sign = int(negative) << (layout.exponent_bits + layout.mantissa_bits)
    if math.isnan(value):
        return nan_bits(value, layout.exponent_bits, layout.mantissa_bits)
    if math.isinf(value):
        return sign | special
    return round_to_format(Fraction(value), layout, negative=negative)


def round_to_format(value: Fraction, layout: FloatFormat, *, negative: bool) -> int:
    """Round an exact value to nearest even; too large ones become infinite.

    Args:
        value: What to round; its sign must agree with `negative` unless it is 0.
        negative: Sign of the result, which a zero needs too.
    """
    sign = int(negative) << (layout.exponent_bits + layout.mantissa_bits)
    magnitude = abs(value)
    if magnitude == 0:
        return sign
    exponent = _exponent(magnitude)
    least = 1 - layout.bias
    unit = Fraction(2) ** (max(exponent, least) - layout.mantissa_bits)
    steps = _round_half_even(magnitude / unit)
    top = ((1 << layout.exponent_bits) - 1) << layout.mantissa_bits
    if exponent < least:
        return sign | steps
    pattern = steps + ((exponent + layout.bias - 1) << layout.mantissa_bits)
    return sign | min(pattern, top)


def _exponent(magnitude: Fraction) -> int:
    guess = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return guess if Fraction(2) ** guess <= magnitude else guess - 1


def _round_half_even(value: Fraction) -> int:
    whole, rest = divmod(value.numerator, value.denominator)
    double = 2 * rest
    up = double > value.denominator or (double == value.denominator and whole % 2 == 1)
    return whole + int(up)


def decode_float(pattern: int, format_name: str) -> float:
    """Return the number that a pattern means."""
    layout = FORMATS[format_name]
    mantissa = pattern & ((1 << layout.mantissa_bits) - 1)
    field = pattern >> layout.mantissa_bits & ((1 << layout.exponent_bits) - 1)
    sign = -1.0 if pattern >> (layout.mantissa_bits + layout.exponent_bits) & 1 else 1.0
    if field == (1 << layout.exponent_bits) - 1:
        return math.nan if mantissa else sign * math.inf
    if field == 0:
        return sign * math.ldexp(mantissa, 1 - layout.bias - layout.mantissa_bits)
    whole = mantissa | 1 << layout.mantissa_bits
    return sign * math.ldexp(whole, field - layout.bias - layout.mantissa_bits)
