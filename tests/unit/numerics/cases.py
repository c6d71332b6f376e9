"""Nodes with operands, made from little, and the comparison of kernel and definition."""

import zlib
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from appliance.core.ir.graph import Attribute, Node
from appliance.core.ir.ops import SPECS
from appliance.core.ir.tensors import DType, TensorType
from appliance.numerics import reference
from appliance.numerics.kernels import compile_node

Array = NDArray[Any]

DTYPES = {
    np.dtype(np.bool_): DType.I1,
    np.dtype(np.int8): DType.I8,
    np.dtype(np.int16): DType.I16,
    np.dtype(np.int32): DType.I32,
    np.dtype(np.int64): DType.I64,
    np.dtype(np.uint8): DType.U8,
    np.dtype(np.float32): DType.F32,
    np.dtype(np.float64): DType.F64,
}

SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -0.5, np.inf, -np.inf, np.nan, 1e-30, 3e38]
)


def shapes(*, min_rank: int = 0, max_rank: int = 4, min_size: int = 0, max_size: int = 4):
    """Return a strategy for small shapes, empty ones included."""
    sizes = st.integers(min_size, max_size)
    return st.lists(sizes, min_size=min_rank, max_size=max_rank).map(tuple)


def examples(count: int) -> settings:
    """Return settings for so many examples, the same ones in every run."""
    return settings(max_examples=count, deadline=None, derandomize=True)


seeds = st.integers(0, 2**32 - 1)


def numbers(seed: int, shape: tuple[int, ...], *, special: bool = False) -> Array:
    """Return float32 numbers around 1; a third of them special ones if asked for."""
    generator = np.random.default_rng(seed)
    values = generator.normal(size=shape) * 1.5
    if special:
        picked = generator.choice(SPECIAL, size=shape)
        values = np.where(generator.random(shape) < 0.34, picked, values)
    return np.asarray(values, dtype=np.float32)


def whole_numbers(
    seed: int, shape: tuple[int, ...], low: int = -9, high: int = 10, dtype: Any = np.int64
) -> Array:
    """Return integers in [low, high)."""
    generator = np.random.default_rng(seed)
    return np.asarray(generator.integers(low, high, size=shape), dtype=dtype)


def type_of(x: Array, half: DType | None = None) -> TensorType:
    dtype = DTYPES[x.dtype]
    return TensorType(x.shape, half if half is not None and dtype == DType.F32 else dtype)


def make_node(
    op: str,
    *operands: Array,
    shape: tuple[int, ...] | None = None,
    dtype: DType | None = None,
    half: DType | None = None,
    **attributes: Attribute,
) -> Node:
    """Return a node for these operands; its shapes by the op table, its types by the first one.

    Args:
        op: Name of the operation.
        operands: Containers of the operands.
        shape: Shape of the result where the table has no rule.
        dtype: Element type of the results.
        half: The 16-bit format that float32 operands and results are in.
        attributes: Attributes of the node.
    """
    types = [type_of(x, half) for x in operands]
    result = dtype if dtype is not None else types[0].dtype
    names = tuple(f"operand{index}" for index in range(len(operands)))
    stub = TensorType(shape if shape is not None else (), result)
    node = Node(op=op, operands=names, results=("result",), types=(stub,), attributes=attributes)
    infer = SPECS[op].infer
    if shape is not None or infer is None:
        return node
    result_types = tuple(TensorType(found, result) for found in infer(node, types))
    results = tuple(f"result{index}" for index in range(len(result_types)))
    return replace(node, results=results, types=result_types)


def run_reference(node: Node, *operands: Array, step: int = 0) -> tuple[Array, ...]:
    return reference.evaluate(node, operands, step=step)


def run_kernel(
    node: Node, *operands: Array, step: int = 0, half: DType | None = None
) -> tuple[Array, ...]:
    """Run a node's kernel; also through `into` and `fill`, whose bits must be the same."""
    kernel = compile_node(node, [type_of(x, half) for x in operands])
    tensors = [torch.from_numpy(np.array(x)) for x in operands]
    if kernel.reads_step:
        tensors.append(torch.tensor(step))
    before = [x.clone() for x in tensors]
    found = kernel.call(*tensors)
    results = (found,) if isinstance(found, torch.Tensor) else found
    if kernel.into is not None:
        out = torch.empty(node.types[0].shape, dtype=results[0].dtype)
        kernel.into(out, *tensors)
        np.testing.assert_array_equal(out.numpy(), results[0].numpy())
    if kernel.fill is not None:
        outs = [torch.full_like(result, 7) for result in results]
        kernel.fill(outs, tensors)
        for out, result in zip(outs, results, strict=True):
            np.testing.assert_array_equal(out.numpy(), result.numpy())
    for x, y in zip(tensors, before, strict=True):
        np.testing.assert_array_equal(x.numpy(), y.numpy(), err_msg="an operand was overwritten")
    return tuple(result.numpy() for result in results)


def assert_agree(
    node: Node, *operands: Array, rtol: float = 2e-5, atol: float = 1e-6, step: int = 0
) -> tuple[Array, ...]:
    """Check that the kernel gives what the definition says; return that."""
    expected = run_reference(node, *operands, step=step)
    found = run_kernel(node, *operands, step=step)
    assert len(found) == len(expected) == len(node.types)
    for value, reference_value, type_ in zip(found, expected, node.types, strict=True):
        assert value.dtype == reference_value.dtype == type_.dtype.container
        assert value.shape == reference_value.shape == type_.shape
        np.testing.assert_allclose(value, reference_value, rtol=rtol, atol=atol, equal_nan=True)
    return expected


def seed_of(name: str) -> int:
    """Return a seed that depends on a name alone."""
    return zlib.crc32(name.encode())
