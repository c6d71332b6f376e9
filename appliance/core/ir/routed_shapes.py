"""Shape rules of products that compute some of their rows only, as routed experts do."""

from collections.abc import Sequence

from appliance.core.ir.graph import Node
from appliance.core.ir.shapes import Shapes
from appliance.core.ir.tensors import TensorType


def _require(condition: bool, *types: TensorType) -> None:
    if not condition:
        raise ValueError(" and ".join(map(str, types)))


def masked_rows(_node: Node, types: Sequence[TensorType]) -> Shapes:
    """One mask for each row, one matrix for all."""
    x, mask, w = (type_.shape for type_ in types)
    _require(len(x) > 1 and x[:-1] == mask and len(w) == 2 and w[1] == x[-1], *types)
    return ((*mask, w[0]),)


def masked_rows_grad(_node: Node, types: Sequence[TensorType]) -> Shapes:
    """The gradients have the shapes of what was multiplied."""
    dy, x, mask, w = (type_.shape for type_ in types)
    _require(len(w) == 2 and dy == (*mask, w[0]) and x == (*mask, w[1]), *types)
    return (x, w)


def chosen_matrix(_node: Node, types: Sequence[TensorType]) -> Shapes:
    """One index for each row, into the second dim of the matrices."""
    x, indices, w = (type_.shape for type_ in types)
    _require(len(x) > 1 and x[:-1] == indices and len(w) == 3 and w[2] == x[-1], *types)
    return ((*indices, w[0]),)


def chosen_matrix_grad(_node: Node, types: Sequence[TensorType]) -> Shapes:
    """The gradients have the shapes of what was multiplied."""
    dy, x, indices, w = (type_.shape for type_ in types)
    _require(len(w) == 3 and dy == (*indices, w[0]) and x == (*indices, w[2]), *types)
    return (x, w)


def first_rows(_node: Node, types: Sequence[TensorType]) -> Shapes:
    """One count for each sample."""
    w, x, counts = (type_.shape for type_ in types)
    _require(len(w) == 2 and len(x) == 3 and w[1] == x[2] and counts == x[:1], *types)
    return ((*x[:2], w[0]),)


def first_rows_grad(_node: Node, types: Sequence[TensorType]) -> Shapes:
    """Both operands have the same rows."""
    dy, x, counts = (type_.shape for type_ in types)
    _require(len(dy) == len(x) == 3 and dy[:2] == x[:2] and counts == x[:1], *types)
    return ((dy[2], x[2]),)
