"""16-bit numbers as 16 bits inside a loop: float32 registers to 16-bit integers and back.

What is packed has been rounded before, so nothing is lost: unpacking gives the same numbers. Of
float16 and bfloat16 the bits are those that processors and torch know them by. cbfloat16 has its
sign, 6 bits of exponent with bias 31, and 9 of fraction, as `numerics.float_formats` describes.
"""

from appliance.core.ir.tensors import DType
from appliance.numerics.loops.functions import Floats, Writer

_BF16_DROPPED_BITS = 16
_QUIET_BIT = 1 << 22
_CB16_DROPPED_BITS = 23 - 9
_CB16_SCALE = 2.0 ** (127 - 31)
"""A number divided by it has the exponent of float32 that cbfloat16 writes, subnormals included."""
_CB16_SIGN, _CB16_MAGNITUDE = 1 << 15, (1 << 15) - 1
_CB16_NOT_FINITE = 63 << 23
"""Least bits of a shifted magnitude that stand for infinity or NaN."""
_NOT_FINITE = 255 << 23


def packed(writer: Writer, dtype: DType, x: str, halves: str) -> str:
    """Write the 16 bits of float32 numbers that a 16-bit format represents.

    Args:
        writer: Where the instructions go.
        dtype: The format.
        x: The numbers' register.
        halves: Register type of as many 16-bit integers.
    """
    match dtype:
        case DType.BF16:
            return _packed_bf16(writer, x, halves)
        case DType.CB16:
            return _packed_cb16(writer, x, halves)
        case _:
            wide = writer.type(DType.F32)
            narrow = wide.replace("float", "half")
            number = writer.assign(f"fptrunc {wide} {x} to {narrow}")
            return writer.assign(f"bitcast {narrow} {number} to {halves}")


def unpacked(writer: Writer, dtype: DType, x: str, halves: str) -> str:
    """Write the float32 numbers whose 16 bits are given; arguments as for `packed`."""
    match dtype:
        case DType.BF16:
            bits = _Bits(writer)
            upper = bits.step("shl", bits.widened(x, halves), _BF16_DROPPED_BITS)
            return bits.as_floats(upper)
        case DType.CB16:
            return _unpacked_cb16(writer, x, halves)
        case _:
            wide = writer.type(DType.F32)
            narrow = wide.replace("float", "half")
            number = writer.assign(f"bitcast {halves} {x} to {narrow}")
            return writer.assign(f"fpext {narrow} {number} to {wide}")


class _Bits:
    """Arithmetic on 32-bit integers, one instruction a call."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._type, self._floats = writer.type(DType.I32), writer.type(DType.F32)

    def of_floats(self, x: str) -> str:
        """Write the bits of float32 numbers."""
        return self._writer.assign(f"bitcast {self._floats} {x} to {self._type}")

    def as_floats(self, x: str) -> str:
        """Write the float32 numbers that have these bits."""
        return self._writer.assign(f"bitcast {self._type} {x} to {self._floats}")

    def widened(self, x: str, halves: str) -> str:
        """Write 16-bit integers as wide ones."""
        return self._writer.assign(f"zext {halves} {x} to {self._type}")

    def narrowed(self, x: str, halves: str) -> str:
        """Write the lower 16 bits."""
        return self._writer.assign(f"trunc {self._type} {x} to {halves}")

    def step(self, op: str, x: str, number: int) -> str:
        """Write an operation with a number."""
        return self.both(op, x, self._writer.constant(number, DType.I32))

    def both(self, op: str, x: str, y: str) -> str:
        """Write an operation of two registers."""
        return self._writer.assign(f"{op} {self._type} {x}, {y}")

    def select(self, condition: str, x: str, y: str) -> str:
        """Write a choice between two registers."""
        truth = self._writer.type(DType.I1)
        chosen = f"{truth} {condition}, {self._type} {x}, {self._type} {y}"
        return self._writer.assign(f"select {chosen}")


def _packed_bf16(writer: Writer, x: str, halves: str) -> str:
    bits = _Bits(writer)
    whole = bits.of_floats(x)
    # A NaN may have all of its payload in the half that is dropped, and would be infinite then.
    quiet = bits.step("or", whole, _QUIET_BIT)
    chosen = bits.select(Floats(writer).compare("uno", x, x), quiet, whole)
    return bits.narrowed(bits.step("lshr", chosen, _BF16_DROPPED_BITS), halves)


def _packed_cb16(writer: Writer, x: str, halves: str) -> str:
    """Scaled, the number's sign, exponent and fraction are what is wanted; only the sign moves.

    Infinity and NaN keep an exponent of ones, and a NaN is quiet after the multiplication.
    """
    bits, f = _Bits(writer), Floats(writer)
    scaled = bits.of_floats(f.mul(x, 1 / _CB16_SCALE))
    magnitude = bits.step("lshr", scaled, _CB16_DROPPED_BITS)
    sign = bits.step("and", bits.step("lshr", scaled, 16), _CB16_SIGN)
    whole = bits.both("or", bits.step("and", magnitude, _CB16_MAGNITUDE), sign)
    return bits.narrowed(whole, halves)


def _unpacked_cb16(writer: Writer, x: str, halves: str) -> str:
    bits, f = _Bits(writer), Floats(writer)
    wide = bits.widened(x, halves)
    magnitude = bits.step("shl", bits.step("and", wide, _CB16_MAGNITUDE), _CB16_DROPPED_BITS)
    finite = bits.of_floats(f.mul(bits.as_floats(magnitude), _CB16_SCALE))
    limit = writer.constant(_CB16_NOT_FINITE, DType.I32)
    is_finite = writer.assign(f"icmp ult {writer.type(DType.I32)} {magnitude}, {limit}")
    chosen = bits.select(is_finite, finite, bits.step("or", magnitude, _NOT_FINITE))
    sign = bits.step("shl", bits.step("and", wide, _CB16_SIGN), 16)
    return bits.as_floats(bits.both("or", chosen, sign))
