"""Matrix products: MatMul of two matrices, DotGeneral with any batching and contraction."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from appliance.core.attributes import flag, integers
from appliance.core.graph import Node
from appliance.core.tensors import DType, TensorType
from appliance.numerics.kernels.kernel import Builders, Kernel, Values

Axes = tuple[int, ...]


def _matmul(node: Node, types: Sequence[TensorType]) -> Kernel:
    transpose_a, transpose_b = flag(node, "transpose_a"), flag(node, "transpose_b")
    product = torch.mm if len(types[0].shape) == len(types[1].shape) == 2 else torch.matmul

    if _is_native(node, types):
        return _native(_transposed(product, transpose_a, transpose_b))

    def into(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        product(a.mT if transpose_a else a, b.mT if transpose_b else b, out=out)

    return Kernel(call=_transposed(product, transpose_a, transpose_b), into=into)


@functools.cache
def has_native_bfloat16() -> bool:
    """Return whether the processor multiplies bfloat16 matrices faster than float32 ones."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _is_native(node: Node, types: Sequence[TensorType]) -> bool:
    """Return whether a product may be computed in bfloat16 throughout.

    The products of bfloat16 numbers are exact in float32, sums are kept in float32, and the result
    is rounded once: only the order of the additions is the processor's own. A product of which the
    result stays float32, such as a weight's gradient, is not rounded and computed in float32.
    """
    dtypes = {types[0].dtype, types[1].dtype, node.types[0].dtype}
    return dtypes == {DType.BF16} and has_native_bfloat16()


def _native(product: Callable[..., Values]) -> Kernel:
    narrow, wide = torch.bfloat16, torch.float32

    def call(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        result = product(a.to(narrow), b.to(narrow))
        assert isinstance(result, torch.Tensor)
        return result.to(wide)

    return Kernel(call=call, is_rounded=True)


def _transposed(
    product: Callable[..., torch.Tensor], transpose_a: bool, transpose_b: bool
) -> Callable[..., torch.Tensor]:
    match transpose_a, transpose_b:
        case False, False:
            return product
        case True, False:
            return lambda a, b: product(a.mT, b)
        case False, True:
            return lambda a, b: product(a, b.mT)
        case _:
            return lambda a, b: product(a.mT, b.mT)


@dataclass(frozen=True, slots=True)
class _Side:
    """How one operand becomes a stack of matrices: (batch, free, contracted) or the mirror."""

    order: Axes
    shape: Axes

    @property
    def is_sorted(self) -> bool:
        return self.order == tuple(range(len(self.order)))


def _dot_general(node: Node, types: Sequence[TensorType]) -> Kernel:
    left_batch = integers(node, "lhs_batching_dimensions", ())
    left_dot = integers(node, "lhs_contracting_dimensions", ())
    right_batch = integers(node, "rhs_batching_dimensions", ())
    right_dot = integers(node, "rhs_contracting_dimensions", ())
    left_shape, right_shape = types[0].shape, types[1].shape
    left_free = _others(len(left_shape), left_batch + left_dot)
    right_free = _others(len(right_shape), right_batch + right_dot)
    batch = math.prod(left_shape[axis] for axis in left_batch)
    inner = math.prod(left_shape[axis] for axis in left_dot)
    rows = math.prod(left_shape[axis] for axis in left_free)
    columns = math.prod(right_shape[axis] for axis in right_free)
    left = _Side(left_batch + left_free + left_dot, (batch, rows, inner))
    right = _Side(right_batch + right_dot + right_free, (batch, inner, columns))
    kernel = _batched_product(left, right, node.types[0].shape)
    return _native(kernel.call) if _is_native(node, types) else kernel


def _others(rank: int, used: Axes) -> Axes:
    return tuple(axis for axis in range(rank) if axis not in used)


def _batched_product(left: _Side, right: _Side, shape: Axes) -> Kernel:
    left_order, left_shape = left.order, left.shape
    right_order, right_shape = right.order, right.shape
    stack = (left_shape[0], left_shape[1], right_shape[2])

    def call(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        product = torch.bmm(
            a.permute(left_order).reshape(left_shape), b.permute(right_order).reshape(right_shape)
        )
        return product.view(shape)

    def into(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        torch.bmm(
            a.permute(left_order).reshape(left_shape),
            b.permute(right_order).reshape(right_shape),
            out=out.view(stack),
        )

    return Kernel(call=call, into=into)


BUILDERS: Builders = {"DotGeneral": _dot_general, "MatMul": _matmul}
