"""The 16-bit formats: rounding of float32 containers to the numbers a format can represent.

Every rounding is to nearest, ties to even. A magnitude that rounds beyond the largest finite number
becomes infinite, one below half the smallest subnormal becomes zero with its sign kept; infinities
and NaN stay what they are.

cbfloat16 has 1 sign, 6 exponent and 9 fraction bits. We assume the IEEE 754 scheme with these
widths, so bias 31, subnormals, and exponent 63 for infinities and NaN: largest finite number
(2 - 2^-9) * 2^31, smallest normal 2^-30, smallest subnormal 2^-39. The vendor's public
documentation of the format gives the widths and the bias, but neither subnormals nor overflow.

Source: Cerebras Systems, "Data formats" (CB16 half-precision), developer documentation; IEEE
754-2019, section 3.4 for the scheme.
"""

import torch

from appliance.core.ir.tensors import DType

_CB16_DROPPED_BITS = 23 - 9
_CB16_MIN_NORMAL = 2.0**-30
_CB16_OVERFLOW = 2.0**32
_CB16_SUBNORMAL_SHIFT = 1.5 * 2.0 ** (23 - 39)
"""A float32 number whose unit in the last place is the subnormal quantum 2^-39: adding and
subtracting it rounds a small number to that quantum, to nearest even."""


def round_to(dtype: DType, values: torch.Tensor) -> torch.Tensor:
    """Round float32 values to a 16-bit format.

    Args:
        dtype: The format; for any type that is not a 16-bit format nothing happens.
        values: float32, any shape.

    Returns:
        float32 values that the format represents; the argument itself if nothing happens. One
        element that stands for all, as in a splat, still does.
    """
    if values.numel() > 1 and not any(values.stride()):
        return round_to(dtype, values[(0,) * values.dim()]).expand(values.shape)
    match dtype:
        case DType.F16:
            return values.to(torch.float16).to(torch.float32)
        case DType.BF16:
            return values.to(torch.bfloat16).to(torch.float32)
        case DType.CB16:
            return _round_to_cb16(values)
        case _:
            return values


def _round_to_cb16(values: torch.Tensor) -> torch.Tensor:
    bits = values.contiguous().view(torch.int32)
    half_minus_one = (1 << (_CB16_DROPPED_BITS - 1)) - 1
    last_kept = (bits >> _CB16_DROPPED_BITS) & 1
    kept = (bits + half_minus_one + last_kept) & ~((1 << _CB16_DROPPED_BITS) - 1)
    normal = kept.view(torch.float32)
    shifted = (values + _CB16_SUBNORMAL_SHIFT) - _CB16_SUBNORMAL_SHIFT
    subnormal = torch.copysign(shifted, values)
    magnitude = values.abs()
    rounded = torch.where(magnitude < _CB16_MIN_NORMAL, subnormal, normal)
    infinite = torch.copysign(torch.full_like(values, torch.inf), values)
    rounded = torch.where(rounded.abs() >= _CB16_OVERFLOW, infinite, rounded)
    return torch.where(torch.isfinite(values), rounded, values)
