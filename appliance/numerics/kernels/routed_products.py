"""Products that compute some of their rows only, as routed experts do.

The selected rows are gathered, multiplied as one matrix, and scattered back. Rows keep their order,
so equal operands give equal bits.
"""

import math
from collections.abc import Iterator, Sequence

import torch

from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import TensorType
from appliance.numerics.kernels.kernel import Builders, Kernel


def _masked_rows(_node: Node, _types: Sequence[TensorType]) -> Kernel:
    def call(x: torch.Tensor, mask: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        rows = _rows_of(mask)
        return _put(_take(x, rows) @ w.mT, rows, mask.shape)

    return Kernel(call=call)


def _masked_rows_grad(_node: Node, _types: Sequence[TensorType]) -> Kernel:
    def call(
        dy: torch.Tensor, x: torch.Tensor, mask: torch.Tensor, w: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        rows = _rows_of(mask)
        taken = _take(dy, rows)
        return _put(taken @ w, rows, mask.shape), taken.mT @ _take(x, rows)

    return Kernel(call=call)


def _rows_of(mask: torch.Tensor) -> torch.Tensor:
    return mask.reshape(-1).nonzero().squeeze(-1)


def _take(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1, x.shape[-1]).index_select(0, rows)


def _put(values: torch.Tensor, rows: torch.Tensor, leading: Sequence[int]) -> torch.Tensor:
    """Return values in their rows, and zeros in the others."""
    whole = values.new_zeros(math.prod(leading), values.shape[-1])
    return whole.index_copy_(0, rows, values).view(*leading, -1)


def _chosen_matrix(_node: Node, _types: Sequence[TensorType]) -> Kernel:
    def call(x: torch.Tensor, indices: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        result = x.new_empty(indices.numel(), w.shape[0])
        for index, rows in _rows_by_matrix(indices, w.shape[1]):
            result.index_copy_(0, rows, _take(x, rows) @ w[:, index].mT)
        return result.view(*indices.shape, -1)

    return Kernel(call=call)


def _chosen_matrix_grad(_node: Node, _types: Sequence[TensorType]) -> Kernel:
    def call(
        dy: torch.Tensor, x: torch.Tensor, indices: torch.Tensor, w: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        dx, dw = x.new_empty(indices.numel(), x.shape[-1]), torch.zeros_like(w)
        for index, rows in _rows_by_matrix(indices, w.shape[1]):
            taken = _take(dy, rows)
            dx.index_copy_(0, rows, taken @ w[:, index])
            dw[:, index] = taken.mT @ _take(x, rows)
        return dx.view(x.shape), dw

    return Kernel(call=call)


def _rows_by_matrix(indices: torch.Tensor, num_matrices: int) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield each matrix that is used, with its rows in ascending order.

    Raises:
        ValueError: An index is negative or too large.
    """
    flat = indices.reshape(-1).long()
    outside = (flat < 0) | (flat >= num_matrices)
    if bool(outside.any()):
        index = int(flat[outside][0])
        raise ValueError(f"index {index} is out of range for {num_matrices} matrices")
    rows = flat.argsort(stable=True)
    counts = flat.bincount(minlength=num_matrices).tolist()
    for index, part in enumerate(torch.split_with_sizes(rows, counts)):
        if part.numel():
            yield index, part


def _first_rows(_node: Node, _types: Sequence[TensorType]) -> Kernel:
    def call(w: torch.Tensor, x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        rows = _first_of_each(counts, x.shape[1])
        return _put(_take(x, rows) @ w.mT, rows, x.shape[:2])

    return Kernel(call=call)


def _first_rows_grad(_node: Node, _types: Sequence[TensorType]) -> Kernel:
    def call(dy: torch.Tensor, x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        rows = _first_of_each(counts, x.shape[1])
        return _take(dy, rows).mT @ _take(x, rows)

    return Kernel(call=call)


def _first_of_each(counts: torch.Tensor, length: int) -> torch.Tensor:
    return _rows_of(torch.arange(length, device=counts.device) < counts[:, None])


BUILDERS: Builders = {
    "RangedDMatMul": _first_rows_grad,
    "RangedMatMul": _first_rows,
    "SparseActMatMul": _masked_rows,
    "SparseActMatMulGrad": _masked_rows_grad,
    "SparseMatMul": _chosen_matrix,
    "SparseMatMulGrad": _chosen_matrix_grad,
}
