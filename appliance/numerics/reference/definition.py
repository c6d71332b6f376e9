"""What a reference definition looks like, and the rounding of its result to the node's type."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import DType, TensorType

Array = NDArray[Any]  # element types are a matter of the node, not of the definition
"""Floating-point operands arrive as float64, others in their container type."""

Definition = Callable[..., Array | tuple[Array, ...]]
"""Called with the node and its operands; returns the results before they are rounded."""

_FORMATS: dict[DType, tuple[int, int, int]] = {
    DType.F16: (10, -14, 15),
    DType.BF16: (7, -126, 127),
    DType.CB16: (9, -30, 31),
}
"""Fraction bits, exponent of the smallest normal number, exponent of the largest number."""


def formula(function: Callable[..., Array]) -> Definition:
    """Return the definition of an operation that has no attributes."""

    def definition(_node: Node, *operands: Array) -> Array:
        return function(*operands)

    return definition


def as_operand(value: Array) -> Array:
    """Return a container as a definition wants it."""
    return value.astype(np.float64) if np.issubdtype(value.dtype, np.floating) else value


def as_result(value: Array, type_: TensorType) -> Array:
    """Round a value once to its type and return the container.

    Raises:
        ValueError: The definition gave another shape than the node's type.
    """
    if value.shape != type_.shape:
        raise ValueError(f"the definition gives shape {value.shape} for {type_}")
    contained = np.asarray(value).astype(type_.dtype.container)
    return round_to_format(contained, type_.dtype) if type_.dtype.is_half else contained


def round_to_format(x: Array, dtype: DType) -> Array:
    """Round float32 numbers to a 16-bit format, to nearest, ties to even.

    A number is a multiple of its *quantum*: the distance of neighbours in the format, two to the
    power of (exponent - fraction bits), where the exponent does not go below the smallest normal
    number's. `appliance.numerics.float_formats` says what is assumed of each format.
    """
    fraction_bits, smallest, largest = _FORMATS[dtype]
    wide = x.astype(np.float64)
    _, exponent = np.frexp(wide)
    quantum = np.exp2(np.maximum(exponent - 1, smallest) - fraction_bits)
    rounded = np.rint(wide / quantum) * quantum
    overflows = np.abs(rounded) >= 2.0 ** (largest + 1)
    rounded = np.where(overflows, np.copysign(np.inf, wide), rounded)
    return np.where(np.isfinite(wide), rounded, wide).astype(np.float32)
