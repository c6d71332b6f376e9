"""What is no number, with its sign and payload: a Python float holds those of every format."""

import struct

_MANTISSA_BITS = 52
_EXPONENT = 0x7FF << _MANTISSA_BITS


def nan_bits(value: float, exponent_bits: int, mantissa_bits: int) -> int:
    """Return the bits of a NaN in a format; one that keeps none of its payload is quiet."""
    whole = int.from_bytes(struct.pack("<d", value), "little")
    payload = (whole & ((1 << _MANTISSA_BITS) - 1)) >> (_MANTISSA_BITS - mantissa_bits)
    top = ((1 << exponent_bits) - 1) << mantissa_bits
    sign = (whole >> 63) << (exponent_bits + mantissa_bits)
    return sign | top | (payload or 1 << (mantissa_bits - 1))


def nan_of_bits(bits: int, exponent_bits: int, mantissa_bits: int) -> float:
    """Return the NaN of which these are the bits in a format.

    Through `struct` and never by a conversion, which would make a signaling one quiet.
    """
    sign = bits >> (exponent_bits + mantissa_bits) & 1
    payload = bits & ((1 << mantissa_bits) - 1)
    whole = sign << 63 | _EXPONENT | payload << (_MANTISSA_BITS - mantissa_bits)
    (value,) = struct.unpack("<d", whole.to_bytes(8, "little"))
    return float(value)
