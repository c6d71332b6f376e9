"""Element types as torch knows them: the containers of `appliance.core.ir.tensors`."""

import torch

from appliance.core.ir.attributes import number
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import Constant, DType

TORCH_DTYPES: dict[DType, torch.dtype] = {
    DType.I1: torch.bool,
    DType.I8: torch.int8,
    DType.I16: torch.int16,
    DType.I32: torch.int32,
    DType.I64: torch.int64,
    DType.U8: torch.uint8,
    DType.U16: torch.uint16,
    DType.U32: torch.uint32,
    DType.U64: torch.uint64,
    DType.F16: torch.float32,
    DType.BF16: torch.float32,
    DType.CB16: torch.float32,
    DType.F32: torch.float32,
    DType.F64: torch.float64,
}
"""Container of each element type."""


def torch_dtype(dtype: DType) -> torch.dtype:
    """Return the torch element type of a container."""
    return TORCH_DTYPES[dtype]


def torch_constant(constant: Constant) -> torch.Tensor:
    """Return a constant as a tensor; a splat is a stride-0 view of one element."""
    container = torch_dtype(constant.type.dtype)
    flat = torch.frombuffer(bytearray(constant.data), dtype=container) if constant.data else None
    if flat is None:
        return torch.empty(constant.type.shape, dtype=container)
    if constant.is_splat:
        return flat.reshape(()).expand(constant.type.shape)
    return flat.reshape(constant.type.shape)


def scalar_attribute(node: Node, name: str, default: float | None = None) -> float:
    """Return a number that may be written as a constant of one element."""
    value = node.attributes.get(name)
    if isinstance(value, Constant):
        return float(value.to_numpy().reshape(-1)[0])
    return number(node, name, default)
