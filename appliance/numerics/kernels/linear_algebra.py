"""Matrix products: MatMul of two matrices, DotGeneral with any batching and contraction."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from appliance.core.ir.attributes import flag, integers
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import DType, TensorType
from appliance.numerics.choices import Implementation, Operation, Problem, choose
from appliance.numerics.elements import torch_dtype
from appliance.numerics.kernels.kernel import Builders, Kernel, Values
from appliance.numerics.onednn.products import Gemm, find_gemm, load_gemm
from appliance.numerics.openblas import OpenBlas, load_openblas

Axes = tuple[int, ...]


_LEAST_OPERATIONS_BY_LIBRARY = 1 << 22
"""Those of a product from which on another library than PyTorch may win in spite of what calling it
from Python costs."""


def _matmul(node: Node, types: Sequence[TensorType]) -> Kernel:
    transpose_a, transpose_b = flag(node, "transpose_a"), flag(node, "transpose_b")
    are_matrices = len(types[0].shape) == len(types[1].shape) == 2
    product = torch.mm if are_matrices else torch.matmul

    def into(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        product(a.mT if transpose_a else a, b.mT if transpose_b else b, out=out)

    if _is_native(node, types):
        return _native(_transposed(product, transpose_a, transpose_b), into)

    inner = types[0].shape[0 if transpose_a else -1]
    num_operations = 2 * math.prod(node.types[0].shape) * inner
    if are_matrices and num_operations >= _LEAST_OPERATIONS_BY_LIBRARY:
        if types[0].dtype is types[1].dtype is DType.BF16 and has_native_bfloat16():
            gemm = load_gemm()
            if gemm is not None:
                narrow = _narrow_by(gemm)
                return _by_library(narrow, transpose_a, transpose_b, takes_bfloat16=True)
        elif {torch_dtype(type_.dtype) for type_ in types} == {torch.float32}:
            rows, columns = node.types[0].shape
            multiply = _as_chosen(transpose_a, transpose_b, (rows, inner, columns))
            return _by_library(multiply, transpose_a, transpose_b, takes_bfloat16=False)

    return Kernel(call=_transposed(product, transpose_a, transpose_b), into=into)


_Multiply = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]
"""Writes to its first argument the product of the others: two matrices."""

_PRODUCTS = {
    (False, False): Operation.PRODUCT_NN,
    (False, True): Operation.PRODUCT_NT,
    (True, False): Operation.PRODUCT_TN,
    (True, True): Operation.PRODUCT_TT,
}


def _as_chosen(transpose_a: bool, transpose_b: bool, sizes: tuple[int, int, int]) -> _Multiply:
    """Return the product of float32 matrices by the library that is chosen for it.

    Layouts that this library cannot read are left to PyTorch.
    """
    by_rule = find_gemm(is_left_transposed=transpose_a)
    choice = choose(
        Problem(_PRODUCTS[transpose_a, transpose_b], sizes),
        Implementation.PYTORCH if by_rule is None else Implementation.ONEDNN,
    )

    def multiply(out: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
        library = _library(choice.implementation)
        if library is None or not library.try_into(out, left, right):
            torch.mm(left.to(out.dtype), right.to(out.dtype), out=out)

    return multiply


@functools.cache
def _library(implementation: Implementation) -> Gemm | OpenBlas | None:
    match implementation:
        case Implementation.PYTORCH:
            return None
        case Implementation.ONEDNN:
            return load_gemm()
        case Implementation.OPENBLAS:
            return load_openblas()


def _narrow_by(gemm: Gemm) -> _Multiply:
    """Return the product of bfloat16 matrices, which the processor multiplies faster.

    The result, such as a weight's gradient, is not rounded.
    """
    narrow = torch.bfloat16

    def multiply(out: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
        if not gemm.try_into(out, left.to(narrow), right.to(narrow)):
            torch.mm(left.to(out.dtype), right.to(out.dtype), out=out)

    return multiply


def _by_library(
    multiply: _Multiply, transpose_a: bool, transpose_b: bool, *, takes_bfloat16: bool
) -> Kernel:
    def into(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        multiply(out, a.mT if transpose_a else a, b.mT if transpose_b else b)

    def call(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        shape = (a.shape[int(transpose_a)], b.shape[int(not transpose_b)])
        out = a.new_empty(shape, dtype=torch.float32)
        into(out, a, b)
        return out

    return Kernel(call=call, into=into, takes_bfloat16=takes_bfloat16)


_LEAST_OPERATIONS_IN_PLACE = 1 << 20
"""Those of one sample's part of a product from which on copying its operands costs more than a
call for each sample."""


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


def _native(product: Callable[..., Values], product_into: Callable[..., object] | None) -> Kernel:
    """Return the kernel of a product in bfloat16.

    Args:
        product: Of bfloat16 tensors.
        product_into: The same, into a given bfloat16 tensor; None where there is none.
    """

    def narrow(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        result = product(a.to(torch.bfloat16), b.to(torch.bfloat16))
        assert isinstance(result, torch.Tensor)
        return result

    def call(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return narrow(a, b).to(torch.float32)

    def into(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        if product_into is None or out.dtype is not torch.bfloat16:
            out.copy_(narrow(a, b))
        else:
            product_into(out, a.to(torch.bfloat16), b.to(torch.bfloat16))

    return Kernel(call=call, into=into, is_rounded=True, takes_bfloat16=True)


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
    if (len(left_batch), len(left_free), len(left_dot), len(right_free)) == (2, 1, 1, 1):
        each = 2 * batch // max(1, left_shape[left_batch[0]]) * rows * inner * columns
        if each >= _LEAST_OPERATIONS_IN_PLACE:
            kernel = _product_in_place(left.order, right.order, node.types[0].shape)
    return _native(kernel.call, kernel.into) if _is_native(node, types) else kernel


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
        if not out.is_contiguous():
            out.copy_(call(a, b))
            return
        torch.bmm(
            a.permute(left_order).reshape(left_shape),
            b.permute(right_order).reshape(right_shape),
            out=out.view(stack),
        )

    return Kernel(call=call, into=into)


def _product_in_place(left_order: Axes, right_order: Axes, shape: Axes) -> Kernel:
    """Return the kernel of a product with two batch axes, as attention has them.

    If heads and samples are not adjacent in memory, the product is computed sample by sample: the
    heads' matrices then have a constant stride, and nothing is copied.
    """

    def into(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
        a, b = a.permute(left_order), b.permute(right_order)
        if out.dtype is torch.bfloat16:
            out, a, b = _fast_in_bfloat16(out, a, b)
        if _is_one_stack(a) and _is_one_stack(b) and _is_one_stack(out):
            torch.bmm(a.flatten(0, 1), b.flatten(0, 1), out=out.flatten(0, 1))
            return
        for left, right, result in zip(a.unbind(), b.unbind(), out.unbind(), strict=True):
            torch.bmm(left, right, out=result)

    def call(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        out = a.new_empty(shape)
        into(out, a, b)
        return out

    return Kernel(call=call, into=into)


def _fast_in_bfloat16(
    out: torch.Tensor, a: torch.Tensor, b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return a product as PyTorch computes it fast in bfloat16: by rows, in one stack if it can be.

    A result that lies by columns takes it a hundred times as long, and of copied operands, which
    are a few microseconds, one call is four times as fast as a call for each sample.
    """
    if out.stride(-1) != 1:
        out, a, b = out.mT, b.mT, a.mT
    return (out, _stacked(a), _stacked(b)) if _is_one_stack(out) else (out, a, b)


def _stacked(x: torch.Tensor) -> torch.Tensor:
    if _is_one_stack(x):
        return x
    return x.contiguous() if x.stride(-1) == 1 else x.mT.contiguous().mT


def _is_one_stack(x: torch.Tensor) -> bool:
    """Return whether the first two axes can be seen as one."""
    return x.shape[0] == 1 or x.stride(0) == x.shape[1] * x.stride(1)


BUILDERS: Builders = {"DotGeneral": _dot_general, "MatMul": _matmul}
