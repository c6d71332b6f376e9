"""Rounding to the 16-bit formats inside a loop, with the bits of `numerics.float_formats`."""

from appliance.core.ir.tensors import DType
from appliance.numerics.loops.functions import Floats, Writer

_CB16_DROPPED_BITS = 23 - 9
_CB16_MIN_NORMAL, _CB16_OVERFLOW = 2.0**-30, 2.0**32
_CB16_SUBNORMAL_SHIFT = 1.5 * 2.0 ** (23 - 39)
_BF16_DROPPED_BITS = 16


def rounded(writer: Writer, dtype: DType, x: str) -> str:
    """Write a float32 register rounded to a 16-bit format, to nearest, ties to even."""
    match dtype:
        case DType.BF16:
            return _unless_nan(writer, x, _without_low_bits(writer, x, _BF16_DROPPED_BITS))
        case DType.CB16:
            return _unless_nan(writer, x, _to_cb16(writer, x))
        case _:
            return _to_f16(writer, x)


def _to_f16(writer: Writer, x: str) -> str:
    wide = writer.type(DType.F32)
    narrow = wide.replace("float", "half")
    return writer.assign(
        f"fpext {narrow} {writer.assign(f'fptrunc {wide} {x} to {narrow}')} to {wide}"
    )


def _without_low_bits(writer: Writer, x: str, count: int) -> str:
    """Write the nearest number whose last bits are zero."""
    wide, integers = writer.type(DType.F32), writer.type(DType.I32)

    def step(op: str, a: str, b: int) -> str:
        return writer.assign(f"{op} {integers} {a}, {writer.constant(b, DType.I32)}")

    bits = writer.assign(f"bitcast {wide} {x} to {integers}")
    last_kept = step("and", step("lshr", bits, count), 1)
    up = writer.assign(f"add {integers} {step('add', bits, (1 << (count - 1)) - 1)}, {last_kept}")
    return writer.assign(f"bitcast {integers} {step('and', up, -(1 << count))} to {wide}")


def _to_cb16(writer: Writer, x: str) -> str:
    f = Floats(writer)
    normal = _without_low_bits(writer, x, _CB16_DROPPED_BITS)
    shifted = f.sub(f.add(x, _CB16_SUBNORMAL_SHIFT), _CB16_SUBNORMAL_SHIFT)
    subnormal = writer.intrinsic("copysign", shifted, x)
    magnitude = writer.intrinsic("fabs", x)
    small = f.select(f.compare("olt", magnitude, _CB16_MIN_NORMAL), subnormal, normal)
    infinite = writer.intrinsic("copysign", f.number(float("inf")), x)
    return f.select(
        f.compare("oge", writer.intrinsic("fabs", small), _CB16_OVERFLOW), infinite, small
    )


def _unless_nan(writer: Writer, x: str, result: str) -> str:
    f = Floats(writer)
    return f.select(f.compare("uno", x, x), x, result)
