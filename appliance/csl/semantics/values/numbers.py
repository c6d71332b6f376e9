"""Arithmetic on known numbers, with the rounding and range of their types."""

import math
import struct
from collections.abc import Callable
from typing import Any

from appliance.csl.program.nans import nan_bits, nan_of_bits
from appliance.csl.semantics.values import types as t
from appliance.csl.semantics.values.types import FloatType, IntType, Type


class ArithmeticProblemError(Exception):
    """A known operation that has no result; the text says why."""


Number = int | float
MAX_INT_BITS = 1 << 20
"""Widest `comptime_int` that an operation may make."""


def round_float(value: float, type_: Type) -> float:
    """The nearest value of a float type (even if two are)."""
    if not isinstance(type_, FloatType):
        return value
    if math.isnan(value):
        return _nan_of_bits(_nan_bits(value, type_), type_)
    code = _IEEE.get(type_.format)
    if code is not None:
        return _through(f"<{code}", value)
    return _from_short_bits(_short_bits(value, type_), type_)


def _through(code: str, value: float) -> float:
    try:
        packed: float = struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return packed


def wrap(value: int, type_: IntType) -> int:
    """An integer cut to a type's bits."""
    value &= (1 << type_.bits) - 1
    if type_.signed and value >> (type_.bits - 1):
        value -= 1 << type_.bits
    return value


def truncate_quotient(a: int, b: int) -> int:
    """`a / b` toward zero."""
    if b == 0:
        raise ArithmeticProblemError("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(a: int, b: int) -> int:
    return a - b * truncate_quotient(a, b)


def _shift_left(a: int, b: int) -> int:
    if b < 0:
        raise ArithmeticProblemError(f"shift by a negative count ({b})")
    if b > MAX_INT_BITS:
        raise ArithmeticProblemError(f"shift by {b} bits")
    return a << b


def _shift_right(a: int, b: int) -> int:
    if b < 0:
        raise ArithmeticProblemError(f"shift by a negative count ({b})")
    return a >> b


def _multiply(a: int, b: int) -> int:
    if a.bit_length() + b.bit_length() > MAX_INT_BITS:
        raise ArithmeticProblemError("the product is too long a number")
    return a * b


def _float_divide(a: float, b: float) -> float:
    if b == 0:
        if a == 0 or math.isnan(a):
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    return a / b


def _float_remainder(a: float, b: float) -> float:
    try:
        return math.fmod(a, b)
    except ValueError:
        return math.nan


INT_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": _multiply,
    "/": truncate_quotient,
    "%": _remainder,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": _shift_left,
    ">>": _shift_right,
}
FLOAT_OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _float_divide,
    "%": _float_remainder,
}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
}


def _of_literals(op: str, a: float, b: float) -> float:
    """Of numbers without a format, which are never divided by zero nor become none."""
    if op == "/" and b == 0:
        raise ArithmeticProblemError("division by zero")
    found = FLOAT_OPERATIONS[op](a, b)
    if math.isnan(found):
        raise ArithmeticProblemError(f"{a:g} {op} {b:g} is no number")
    return found


def arithmetic(op: str, type_: Type, a: Any, b: Any) -> Number:  # noqa: ANN401 - int or float
    """`a op b` in a numeric type; fixed integers wrap.

    Raises:
        ArithmeticProblemError: There is no result.
    """
    if type_.__class__ is IntType:
        if op == "<<" and b >= type_.bits:
            return 0
        value = INT_OPERATIONS[op](a, b)
        if value < type_.low or value > type_.high:
            return wrap(value, type_)
        return value
    if type_ is t.COMPTIME_INT:
        return INT_OPERATIONS[op](a, b)
    if type_ is t.COMPTIME_FLOAT:
        return _of_literals(op, a, b)
    try:
        return round_float(FLOAT_OPERATIONS[op](a, b), type_)
    except OverflowError:
        return math.inf


def convert(value: Any, to: Type) -> Any:  # noqa: ANN401 - int, float or bool
    """`@as(to, value)` for numbers, booleans and enums.

    Raises:
        ArithmeticProblemError: A float becomes an integer of a type that does not have it. (At run
            time it becomes the nearest that the type has.)
    """
    if to is t.BOOL:
        return value != 0
    if isinstance(to, FloatType) or to is t.COMPTIME_FLOAT:
        try:
            return round_float(float(value), to)
        except OverflowError:
            return math.copysign(math.inf, value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ArithmeticProblemError(f"{value} is no integer")
        whole = int(value)
        if isinstance(to, IntType) and not to.low <= whole <= to.high:
            range_ = f"{to.low} to {to.high}"
            raise ArithmeticProblemError(f"{value} is no integer of type '{to}' ({range_})")
        value = whole
    if isinstance(to, IntType):
        return wrap(int(value), to)
    return int(value)


def bits_of(value: Any, type_: Type) -> int:  # noqa: ANN401 - int, float or bool
    """The bits of a number, enum or packed value: as many as `t.bit_width` says."""
    if isinstance(type_, t.PackedType):
        bits: int = value
        return bits
    return to_bits(value, type_.base if isinstance(type_, t.EnumType) else type_)


def of_bits(bits: int, type_: Type) -> Any:  # noqa: ANN401 - int, float or bool
    """The number, enum or packed value that these bits are; higher ones do not count."""
    if isinstance(type_, t.PackedType):
        return bits & ((1 << type_.bits) - 1)
    return from_bits(bits, type_.base if isinstance(type_, t.EnumType) else type_)


def known_field(type_: t.PackedType, at: int, whole: int) -> Any:  # noqa: ANN401 - as above
    """A field of a packed value."""
    return of_bits(whole >> type_.shifts[at], type_.field_types[at])


def to_bits(value: Any, type_: Type) -> int:  # noqa: ANN401 - int, float or bool
    """The bits of a number, as an unsigned integer."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        bits = type_.bits if isinstance(type_, IntType) else 16
        return value & ((1 << bits) - 1)
    assert isinstance(type_, FloatType), "no other number is a Python float"
    if math.isnan(value):
        return _nan_bits(value, type_)
    code = _IEEE.get(type_.format)
    if code is None:
        return _short_bits(value, type_)
    try:
        packed = struct.pack(f"<{code}", value)
    except OverflowError:
        packed = struct.pack(f"<{code}", math.copysign(math.inf, value))
    return int.from_bytes(packed, "little")


def from_bits(bits: int, type_: Type) -> Any:  # noqa: ANN401 - int, float or bool
    """The number of a type that these bits are."""
    if type_ is t.BOOL:
        return bool(bits & 1)
    if isinstance(type_, IntType):
        return wrap(bits, type_)
    if isinstance(type_, FloatType):
        code = _IEEE.get(type_.format)
        if code is None:
            return _from_short_bits(bits, type_)
        raw = (bits & ((1 << type_.bits) - 1)).to_bytes(type_.bits // 8, "little")
        value: float = struct.unpack(f"<{code}", raw)[0]
        return _nan_of_bits(bits, type_) if math.isnan(value) else value
    return bits & 0xFFFF


_IEEE = {"f32": "f", "f16": "e"}
"""Formats that Python packs, and how it calls them."""
_EXPONENT_BITS = {"f32": 8, "f16": 5, "cb16": 6, "bf16": 8}
_SHORT_LAYOUTS = {"cb16": (9, 42), "bf16": (7, 127)}
"""Mantissa bits and exponent bias of the others."""


def _nan_bits(value: float, type_: FloatType) -> int:
    exponent_bits = _EXPONENT_BITS[type_.format]
    return nan_bits(value, exponent_bits, type_.bits - 1 - exponent_bits)


def _nan_of_bits(bits: int, type_: FloatType) -> float:
    exponent_bits = _EXPONENT_BITS[type_.format]
    return nan_of_bits(bits, exponent_bits, type_.bits - 1 - exponent_bits)


def _short_bits(value: float, type_: FloatType) -> int:
    mantissa, bias = _SHORT_LAYOUTS[type_.format]
    top = (1 << (15 - mantissa)) - 1
    sign = 0x8000 if math.copysign(1.0, value) < 0 else 0
    if math.isinf(value):
        return sign | (top << mantissa)
    if value == 0:
        return sign
    fraction, exponent = math.frexp(abs(value))
    field = max(0, exponent - 1 + bias)
    scaled = (
        math.ldexp(fraction, 1 + mantissa) if field else abs(value) * 2.0 ** (bias - 1 + mantissa)
    )
    return sign | min(
        top << mantissa, (field << mantissa) + round(scaled) - ((1 << mantissa) if field else 0)
    )


def _from_short_bits(bits: int, type_: FloatType) -> float:
    mantissa, bias = _SHORT_LAYOUTS[type_.format]
    top = (1 << (15 - mantissa)) - 1
    sign = -1.0 if bits & 0x8000 else 1.0
    field, fraction = (bits >> mantissa) & top, bits & ((1 << mantissa) - 1)
    if field == top:
        return _nan_of_bits(bits, type_) if fraction else sign * math.inf
    if field == 0:
        return sign * math.ldexp(fraction, 1 - bias - mantissa)
    return sign * math.ldexp(fraction + (1 << mantissa), field - bias - mantissa)
