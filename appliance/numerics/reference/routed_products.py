"""Products that compute some of their rows only, as routed experts do."""

import numpy as np

from appliance.core.ir.graph import Node
from appliance.numerics.reference.definition import Array, Definition


def masked_rows(_node: Node, x: Array, mask: Array, w: Array) -> Array:
    """The product of the rows whose mask is not zero; zeros elsewhere."""
    return np.where(mask[..., None] != 0, x @ w.T, 0.0)


def masked_rows_grad(
    _node: Node, dy: Array, x: Array, mask: Array, w: Array
) -> tuple[Array, Array]:
    """Gradients of `masked_rows` for x and w."""
    masked = np.where(mask[..., None] != 0, dy, 0.0)
    rows = np.where(mask[..., None] != 0, x, 0.0)
    return masked @ w, _matrix(masked).T @ _matrix(rows)


def _matrix(x: Array) -> Array:
    return np.asarray(x.reshape(-1, x.shape[-1]))


def chosen_matrix(_node: Node, x: Array, indices: Array, w: Array) -> Array:
    """Each row times the matrix that its index names."""
    result = np.zeros((*indices.shape, w.shape[0]))
    for place in np.ndindex(indices.shape):
        result[place] = w[:, _checked(int(indices[place]), w), :] @ x[place]
    return result


def chosen_matrix_grad(
    _node: Node, dy: Array, x: Array, indices: Array, w: Array
) -> tuple[Array, Array]:
    """Gradients of `chosen_matrix` for x and w."""
    dx, dw = np.zeros(x.shape), np.zeros(w.shape)
    for place in np.ndindex(indices.shape):
        index = _checked(int(indices[place]), w)
        dx[place] = dy[place] @ w[:, index, :]
        dw[:, index, :] += np.outer(dy[place], x[place])
    return dx, dw


def _checked(index: int, w: Array) -> int:
    if not 0 <= index < w.shape[1]:
        raise ValueError(f"index {index} is out of range for {w.shape[1]} matrices")
    return index


def first_rows(_node: Node, w: Array, x: Array, counts: Array) -> Array:
    """The product of the first rows of each sample; zeros elsewhere."""
    return np.where(_is_within(x, counts)[..., None], x @ w.T, 0.0)


def first_rows_grad(_node: Node, dy: Array, x: Array, counts: Array) -> Array:
    """Gradient of `first_rows` for w."""
    within = _is_within(x, counts)[..., None]
    masked, rows = np.where(within, dy, 0.0), np.where(within, x, 0.0)
    return np.asarray(np.einsum("bsk,bsn->kn", masked, rows))


def _is_within(x: Array, counts: Array) -> Array:
    return np.asarray(np.arange(x.shape[1]) < counts[:, None])


DEFINITIONS: dict[str, Definition] = {
    "RangedDMatMul": first_rows_grad,
    "RangedMatMul": first_rows,
    "SparseActMatMul": masked_rows,
    "SparseActMatMulGrad": masked_rows_grad,
    "SparseMatMul": chosen_matrix,
    "SparseMatMulGrad": chosen_matrix_grad,
}
