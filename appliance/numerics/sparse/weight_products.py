"""Kernels of a program's matrix products whose weight comes as its non-zeros.

A weight called W then is three tensors in the table, named by `parts_of`: values, row offsets and
columns of its pattern (see `Pattern`). The sum for its gradient, if it is to hold no more than the
pattern does, is a tensor of as many values.
"""

from collections.abc import Collection, Mapping

import torch

from appliance.core.ir.attributes import flag
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import DType, TensorType
from appliance.numerics.groups import Group
from appliance.numerics.kernels import Kernel
from appliance.numerics.sparse.crossover import Form, is_sparse_faster
from appliance.numerics.sparse.matrices import Pattern, SparseMatrix, values_at
from appliance.numerics.sparse.sparse_products import product, sampled_product

Types = Mapping[str, TensorType]


def parts_of(name: str) -> tuple[str, str, str]:
    """Return the names of a weight's values, offsets and columns."""
    return f"{name}@values", f"{name}@offsets", f"{name}@columns"


def reads_sparse(node: Node, types: Types, name: str) -> bool:
    """Return whether a node can read a weight as its non-zeros: x W^T or x W of float32."""
    return (
        node.op == "MatMul"
        and node.operands[1] == name
        and node.operands[0] != name
        and not flag(node, "transpose_a")
        and _are_float32_matrices(node, types)
    )


def gives_sparse(node: Node, types: Types) -> bool:
    """Return whether a node can give a weight's gradient at a pattern: dy^T x of float32."""
    return (
        node.op == "MatMul"
        and flag(node, "transpose_a")
        and not flag(node, "transpose_b")
        and _are_float32_matrices(node, types)
    )


def _are_float32_matrices(node: Node, types: Types) -> bool:
    found = [*(types[name] for name in node.operands), *node.types]
    return all(type_.dtype is DType.F32 and len(type_.shape) == 2 for type_ in found)


def sparse_group(
    node: Node, types: Types, *, sparse: Collection[str], gradients: Mapping[str, str]
) -> Group | None:
    """Return the group of a node that reads a weight's non-zeros, or gives its gradient there.

    Args:
        types: Type of every value.
        sparse: Weights that come as non-zeros.
        gradients: Results that are wanted at a pattern, and the weight that has it.
    """
    weight = gradients.get(node.results[0])
    if weight is not None:
        _, *pattern = parts_of(weight)
        kernel, operands = _gradient(types[weight]), (*node.operands, *pattern)
    elif node.operands and node.operands[-1] in sparse:
        weight = node.operands[-1]
        kernel = _product(types[weight], is_transposed=flag(node, "transpose_b"))
        operands = (node.operands[0], *parts_of(weight))
    else:
        return None
    return Group(
        nodes=(node,),
        kernel=kernel,
        operands=operands,
        results=node.results,
        types=node.types,
        memory_of_its_own=True,
    )


def part_types(names: Collection[str], types: Types) -> dict[str, TensorType]:
    """Return the types of weights' parts, at the most values that they can have."""
    found: dict[str, TensorType] = {}
    for name in names:
        values, offsets, columns = parts_of(name)
        rows, size = types[name].shape[0], types[name].num_elements
        is_short = types[name].shape[1] <= 1 << 16
        found[values] = TensorType((size,), DType.F32)
        found[offsets] = TensorType((rows + 1,), DType.I64)
        found[columns] = TensorType((size,), DType.U16 if is_short else DType.U32)
    return found


def _pattern(type_: TensorType, offsets: torch.Tensor, columns: torch.Tensor) -> Pattern:
    num_rows, num_columns = type_.shape
    return Pattern(num_rows=num_rows, num_columns=num_columns, offsets=offsets, columns=columns)


def _product(type_: TensorType, *, is_transposed: bool) -> Kernel:
    """Return the kernel of x W^T, or of x W where W is not transposed."""
    form = Form.PRODUCT if is_transposed else Form.TRANSPOSED
    width = type_.shape[0 if is_transposed else 1]

    def into(
        out: torch.Tensor,
        x: torch.Tensor,
        values: torch.Tensor,
        offsets: torch.Tensor,
        columns: torch.Tensor,
    ) -> None:
        matrix = SparseMatrix(pattern=_pattern(type_, offsets, columns), values=values)
        if not is_sparse_faster(form, matrix.pattern, len(x)):
            dense = matrix.dense()
            torch.mm(x, dense.mT if is_transposed else dense, out=out)
            return
        used = matrix if is_transposed else matrix.transposed()
        if out.is_contiguous():
            product(x, used, out=out)
        else:
            out.copy_(product(x, used))

    def call(x: torch.Tensor, *parts: torch.Tensor) -> torch.Tensor:
        out = x.new_empty((len(x), width))
        into(out, x, *parts)
        return out

    return Kernel(call=call, into=into)


def _gradient(type_: TensorType) -> Kernel:
    """Return the kernel of dy^T x at a pattern."""

    def into(
        out: torch.Tensor,
        dy: torch.Tensor,
        x: torch.Tensor,
        offsets: torch.Tensor,
        columns: torch.Tensor,
    ) -> None:
        pattern = _pattern(type_, offsets, columns)
        if is_sparse_faster(Form.GRADIENT, pattern, len(x)):
            sampled_product(dy, x, pattern, out=out)
        else:
            values_at(torch.mm(dy.mT, x), pattern, out)

    def call(dy: torch.Tensor, x: torch.Tensor, *pattern: torch.Tensor) -> torch.Tensor:
        out = x.new_empty(pattern[1].numel())
        into(out, dy, x, *pattern)
        return out

    return Kernel(call=call, into=into)
