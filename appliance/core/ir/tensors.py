"""Element types, tensor types and constants: what is known of a tensor without its bytes.

16-bit floating-point formats have no common machine type (one of them exists only on the wafer),
so a value of such a type is held in a float32 *container* whose numbers are representable in the
format. Everything that moves or stores tensors deals in containers; only `numerics` knows about
rounding.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


class DType(StrEnum):
    """Element type of a tensor."""

    I1 = "i1"
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    F16 = "f16"
    """IEEE binary16: 1 sign, 5 exponent, 10 fraction bits."""
    BF16 = "bf16"
    """bfloat16: 1 sign, 8 exponent, 7 fraction bits."""
    CB16 = "cb16"
    """cbfloat16: 1 sign, 6 exponent, 9 fraction bits."""
    F32 = "f32"
    F64 = "f64"

    @property
    def is_float(self) -> bool:
        """Whether this is a floating-point format."""
        return self in _FLOATS

    @property
    def is_half(self) -> bool:
        """Whether this is one of the 16-bit floating-point formats."""
        return self in _HALVES

    @property
    def container(self) -> np.dtype[np.generic]:
        """The numpy element type that holds values of this type in memory and on streams."""
        return _CONTAINERS[self]


_HALVES = frozenset({DType.F16, DType.BF16, DType.CB16})
_FLOATS = _HALVES | {DType.F32, DType.F64}
_CONTAINERS: dict[DType, np.dtype[np.generic]] = {
    DType.I1: np.dtype(np.bool_),
    DType.I8: np.dtype(np.int8),
    DType.I16: np.dtype(np.int16),
    DType.I32: np.dtype(np.int32),
    DType.I64: np.dtype(np.int64),
    DType.U8: np.dtype(np.uint8),
    DType.U16: np.dtype(np.uint16),
    DType.U32: np.dtype(np.uint32),
    DType.U64: np.dtype(np.uint64),
    DType.F16: np.dtype(np.float32),
    DType.BF16: np.dtype(np.float32),
    DType.CB16: np.dtype(np.float32),
    DType.F32: np.dtype(np.float32),
    DType.F64: np.dtype(np.float64),
}


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and element type of a tensor.

    Attributes:
        shape: Sizes, outermost first; empty for a scalar.
        dtype: Element type.
    """

    shape: tuple[int, ...]
    dtype: DType

    @property
    def num_elements(self) -> int:
        """Number of elements; 1 for a scalar."""
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        """Bytes of the row-major container."""
        return self.num_elements * self.dtype.container.itemsize

    def __str__(self) -> str:
        return "tensor<" + "".join(f"{size}x" for size in self.shape) + f"{self.dtype.value}>"


@dataclass(frozen=True, slots=True)
class Constant:
    """A tensor known at compile time.

    Attributes:
        type: Shape and element type.
        data: Row-major little-endian container bytes; one element alone means that every element
            has its value (a *splat*), whatever the shape.
    """

    type: TensorType
    data: bytes

    def __post_init__(self) -> None:
        itemsize = self.type.dtype.container.itemsize
        if len(self.data) not in (itemsize, self.type.num_bytes):
            raise ValueError(f"constant {self.type} holds {len(self.data)} bytes")

    @property
    def is_splat(self) -> bool:
        """Whether one element stands for all."""
        return len(self.data) == self.type.dtype.container.itemsize

    def to_numpy(self) -> NDArray[np.generic]:
        """Return the values as a read-only array of the full shape (a splat is a stride-0 view)."""
        flat = np.frombuffer(self.data, dtype=self.type.dtype.container)
        if self.is_splat:
            return np.broadcast_to(flat.reshape(()), self.type.shape)
        return flat.reshape(self.type.shape)
