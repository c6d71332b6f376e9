"""Tensors on the client's wire: element types, and the bytes of each against our containers.

The wire carries row-major little-endian bytes in the element type of the client's own arrays; we
hold containers (`appliance.core.ir.tensors`): 16-bit floats as float32, booleans as one byte. The
client's bool takes two bytes. cbfloat16 exists only on the wafer: the client cannot read a tensor
of that type, so the values travel as IEEE float16.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from appliance.core.errors import UserError
from appliance.core.ir.tensors import DType, TensorType
from protos.appliance.rtfx_pb2 import RtFxProto

ElementType = RtFxProto.ElementType

_TO_WIRE: dict[DType, "ElementType.ValueType"] = {
    DType.I1: RtFxProto.T_I1,
    DType.I16: RtFxProto.T_I16,
    DType.I32: RtFxProto.T_I32,
    DType.I64: RtFxProto.T_I64,
    DType.U8: RtFxProto.T_U8,
    DType.U16: RtFxProto.T_U16,
    DType.U32: RtFxProto.T_U32,
    DType.U64: RtFxProto.T_U64,
    DType.F16: RtFxProto.T_F16,
    DType.BF16: RtFxProto.T_BF16,
    DType.CB16: RtFxProto.T_F16,
    DType.F32: RtFxProto.T_F32,
    DType.F64: RtFxProto.T_F64,
}

_ENCODED: dict[DType, np.dtype[np.generic]] = {
    DType.I1: np.dtype("<i2"),
    DType.F16: np.dtype("<f2"),
    DType.CB16: np.dtype("<f2"),
    DType.BF16: np.dtype("<u2"),
}


def element_type(dtype: DType) -> "ElementType.ValueType":
    """Return the wire's name of an element type.

    Raises:
        UserError: The wire has no such type.
    """
    if dtype not in _TO_WIRE:
        raise UserError(
            f"Tensors of element type {dtype.value} cannot cross the client's wire.",
            hint="Cast the tensor to a wider integer type in the model.",
        )
    return _TO_WIRE[dtype]


def element_type_name(dtype: DType) -> str:
    """Return the wire's name of an element type as text, as in `T_F32`."""
    return ElementType.Name(element_type(dtype))


def encoded_dtype(dtype: DType) -> np.dtype[np.generic]:
    """Return the numpy type of the wire's bytes; bfloat16 shows as its 16 bits."""
    return _ENCODED.get(dtype, dtype.container.newbyteorder("<"))


def encoded_bytes(type_: TensorType) -> int:
    """Return how many bytes a tensor of this type takes on the wire."""
    return type_.num_elements * encoded_dtype(type_.dtype).itemsize


def decode(raw: NDArray[np.generic], dtype: DType, out: NDArray[np.generic]) -> None:
    """Write wire values into a container, converting as needed.

    Args:
        raw: The wire's values, in `encoded_dtype(dtype)`; broadcast against `out`.
        dtype: Element type on the wire.
        out: Container to fill, of the type computed with; may be wider than the wire's.
    """
    if dtype is DType.BF16:
        widened = raw.astype(np.uint32) << np.uint32(16)
        np.copyto(out, widened.view(np.float32), casting="unsafe")
    elif dtype is DType.I1:
        np.copyto(out, raw != 0, casting="unsafe")
    else:
        np.copyto(out, raw, casting="unsafe")


def encode(container: NDArray[np.generic], dtype: DType) -> NDArray[np.generic]:
    """Return the wire's values of a container, contiguous, in `encoded_dtype(dtype)`.

    Floats are rounded to the nearest representable value, ties to even; what exceeds the format's
    range becomes infinity.
    """
    if dtype is DType.BF16:
        return _bfloat16_bits(np.ascontiguousarray(container, dtype=np.float32))
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(container).astype(encoded_dtype(dtype), copy=False)


def _bfloat16_bits(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet_nan = (bits >> np.uint32(16)) | np.uint32(0x40)
    result: NDArray[np.uint16] = np.where(np.isnan(values), quiet_nan, rounded).astype(np.uint16)
    return result


def check_announced(
    name: str,
    shape: Sequence[int] | None,
    dtype: "ElementType.ValueType",
    *,
    expected: TensorType,
) -> None:
    """Check that what the client announces is what the program needs.

    Args:
        name: The tensor, for the message.
        shape: Announced shape; None when one element stands for all.
        dtype: Announced element type.
        expected: Shape and wire element type that the program needs.

    Raises:
        UserError: Element type or shape differ.
    """
    if dtype != element_type(expected.dtype):
        given = ElementType.Name(dtype) if dtype in ElementType.values() else str(dtype)
        raise UserError(
            f"Tensor {name!r} arrives with element type {given}; the program needs "
            f"{element_type_name(expected.dtype)}.",
            hint="Load a checkpoint whose tensors have the model's types.",
        )
    if shape is not None and tuple(shape) != expected.shape:
        raise UserError(
            f"Tensor {name!r} arrives with shape {list(shape)}; the program needs "
            f"{list(expected.shape)}.",
            hint="Load a checkpoint of the same model.",
        )


def check_length(name: str, num_bytes: int, expected: TensorType, *, is_scalar: bool) -> None:
    """Check the number of bytes that arrived for a tensor.

    Raises:
        UserError: Too few or too many; the message has both numbers.
    """
    needed = encoded_dtype(expected.dtype).itemsize if is_scalar else encoded_bytes(expected)
    if num_bytes != needed:
        raise UserError(
            f"Tensor {name!r} ended after {num_bytes:,} bytes; {expected} takes {needed:,}.",
            hint="The stream was cut or the sender counts differently; send the tensor again.",
        )


def join(chunks: Iterable[bytes], dtype: DType) -> NDArray[np.generic]:
    """Return the values of a tensor's chunks, flat."""
    return np.frombuffer(b"".join(chunks), dtype=encoded_dtype(dtype))
