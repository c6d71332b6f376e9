"""How the dims of an operation's operands and results correspond: the rules of batch sharding.

The analysis of a loop over positions (`workers.csx.generation.rows`) follows them, too.

Dims that go together carry the same label. If a system holds only a part of the indices of one
label, then it can compute the matching part of every result that has the label; a result that
lacks the label comes out as a partial sum if the operation adds up over it, and cannot be computed
locally otherwise. A dim without a label (`None`) must be whole everywhere.

`MatMul(a, b)` has operands (0, 1) and (1, 2), result (0, 2), and adds up over 1. One such table
answers all three questions: which results are sharded, which operands must be, and what is partial.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from appliance.core.ir.attributes import flag, integer, integers, text
from appliance.core.ir.graph import Node
from appliance.core.ir.ops import ELEMENTWISE
from appliance.core.ir.shapes import channel_dim, takes_single_elements
from appliance.core.ir.tensors import TensorType

Labels = tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DimMap:
    """Labels of the dims of one node.

    Attributes:
        operands: For each operand, one label for each dim.
        results: For each result, one label for each dim.
        sums: Labels that the operation adds up over.
    """

    operands: tuple[Labels, ...]
    results: tuple[Labels, ...]
    sums: frozenset[int] = frozenset()


def find_dim_map(node: Node, types: Sequence[TensorType]) -> DimMap | None:
    """Return how a node's dims correspond; None for an operation without a rule.

    Args:
        node: A node in normal form. `Reshape` has no rule here, since it merges and splits dims.
        types: Types of its operands.
    """
    rule = _RULES.get(node.op)
    if rule is None:
        return None
    if node.op == "Gather" and takes_single_elements(node, types):
        return _gather_elements(node, [type_.shape for type_ in types])
    return rule(node, [type_.shape for type_ in types])


_Shapes = Sequence[tuple[int, ...]]


def _all(rank: int) -> Labels:
    return tuple(range(rank))


def _without(rank: int, *dims: int) -> Labels:
    return tuple(None if dim in dims else dim for dim in range(rank))


def _none(rank: int) -> Labels:
    return (None,) * rank


def _elementwise(node: Node, shapes: _Shapes) -> DimMap:
    return DimMap(
        operands=tuple(_all(len(shape)) for shape in shapes),
        results=(_all(len(node.types[0].shape)),),
    )


def _source(node: Node, shapes: _Shapes) -> DimMap:
    return DimMap(operands=(), results=(_all(len(node.types[0].shape)),))


def _broadcast(node: Node, shapes: _Shapes) -> DimMap:
    result = node.types[0].shape
    dims = integers(node, "broadcast_dimensions")
    operand = tuple(
        dim if size == result[dim] else None for size, dim in zip(shapes[0], dims, strict=True)
    )
    return DimMap(operands=(operand,), results=(_all(len(result)),))


def _transpose(node: Node, shapes: _Shapes) -> DimMap:
    return DimMap(operands=(_all(len(shapes[0])),), results=(integers(node, "permutation"),))


def _whole_axis(attribute: str) -> Callable[[Node, _Shapes], DimMap]:
    """Make the rule for operations that mix the indices of one dim and leave the others alone."""

    def rule(node: Node, shapes: _Shapes) -> DimMap:
        labels = _without(len(shapes[0]), integer(node, attribute))
        return DimMap(operands=(labels,) * len(shapes), results=(labels,) * len(node.results))

    return rule


def _where_whole(is_whole: Callable[[Node, int], bool]) -> Callable[[Node, _Shapes], DimMap]:
    """Make the rule for operations that leave some dims as they are."""

    def rule(node: Node, shapes: _Shapes) -> DimMap:
        labels = tuple(dim if is_whole(node, dim) else None for dim in range(len(shapes[0])))
        return DimMap(operands=(labels,), results=(labels,))

    def checked(node: Node, shapes: _Shapes) -> DimMap:
        found = rule(node, shapes)
        same = tuple(
            label if label is None or shapes[0][label] == node.types[0].shape[label] else None
            for label in found.results[0]
        )
        return DimMap(operands=(same,), results=(same,))

    return checked


def _is_full_slice(node: Node, dim: int) -> bool:
    return integers(node, "begin")[dim] == 0 and integers(node, "stride")[dim] == 1


def _is_repeated_once(node: Node, dim: int) -> bool:
    return integers(node, "repeats")[dim] == 1


def _is_unpadded(node: Node, dim: int) -> bool:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return all(integers(node, name)[dim] == 0 for name in names)


def _is_uncut(node: Node, dim: int) -> bool:
    return integers(node, "edge_unpadding_high")[dim] == 0


def _band_part(node: Node, shapes: _Shapes) -> DimMap:
    rank = len(shapes[0])
    labels = _without(rank, rank - 1, rank - 2)
    return DimMap(operands=(labels,), results=(labels,))


def _matmul(node: Node, shapes: _Shapes) -> DimMap:
    a = (1, 0) if flag(node, "transpose_a") else (0, 1)
    b = (2, 1) if flag(node, "transpose_b") else (1, 2)
    return DimMap(operands=(a, b), results=((0, 2),), sums=frozenset({1}))


def _dot_general(node: Node, shapes: _Shapes) -> DimMap:
    batch_a, sum_a = (
        integers(node, f"lhs_{kind}_dimensions") for kind in ("batching", "contracting")
    )
    batch_b, sum_b = (
        integers(node, f"rhs_{kind}_dimensions") for kind in ("batching", "contracting")
    )
    rank_a = len(shapes[0])
    a = _all(rank_a)
    shared = dict(zip(batch_b + sum_b, batch_a + sum_a, strict=True))
    b = tuple(shared.get(dim, rank_a + dim) for dim in range(len(shapes[1])))
    rest_a = tuple(dim for dim in a if dim not in batch_a + sum_a)
    rest_b = tuple(label for label in b if label >= rank_a)
    return DimMap(operands=(a, b), results=((*batch_a, *rest_a, *rest_b),), sums=frozenset(sum_a))


def _masked_rows(node: Node, shapes: _Shapes) -> DimMap:
    """Rows are independent of one another; so it is with `SparseMatMul`."""
    x, _, w = (len(shape) for shape in shapes)
    rows = _all(x - 1)
    return DimMap(operands=((*rows, None), rows, _none(w)), results=((*rows, None),))


def _masked_rows_grad(node: Node, shapes: _Shapes) -> DimMap:
    _, x, _, w = (len(shape) for shape in shapes)
    rows = _all(x - 1)
    each = (*rows, None)
    return DimMap(
        operands=(each, each, rows, _none(w)),
        results=(each, _none(w)),
        sums=frozenset(range(x - 1)),
    )


def _first_rows(node: Node, shapes: _Shapes) -> DimMap:
    sample = (0, None, None)
    return DimMap(operands=((None, None), sample, (0,)), results=(sample,))


def _first_rows_grad(node: Node, shapes: _Shapes) -> DimMap:
    sample = (0, None, None)
    return DimMap(operands=(sample, sample, (0,)), results=(_none(2),), sums=frozenset({0}))


def _convolution(node: Node, shapes: _Shapes) -> DimMap:
    rank = len(shapes[0])
    batch = (0, *_none(rank - 1))
    if text(node, "conv_pass_direction") == "BWD_KERNEL":
        return DimMap(operands=(batch, batch), results=(_none(rank),), sums=frozenset({0}))
    return DimMap(operands=(batch, _none(rank)), results=(batch,))


def _bias_add(node: Node, shapes: _Shapes) -> DimMap:
    labels = _all(len(shapes[0]))
    return DimMap(operands=(labels, (integer(node, "dim"),)), results=(labels,))


def _bias_add_grad(node: Node, shapes: _Shapes) -> DimMap:
    dim = integer(node, "dim")
    rank = len(shapes[0])
    sums = frozenset(range(rank)) - {dim}
    return DimMap(operands=(_all(rank),), results=((dim,),), sums=sums)


def _reduce(node: Node, shapes: _Shapes) -> DimMap:
    dims, kept = integers(node, "dimensions"), integers(node, "keep_dims")
    labels = _all(len(shapes[0]))
    result = tuple(None if dim in dims else dim for dim in labels if dim not in dims or dim in kept)
    adds = text(node, "reduce_kind") == "ADD"
    return DimMap(operands=(labels,), results=(result,), sums=frozenset(dims if adds else ()))


def _l2_norm(node: Node, shapes: _Shapes) -> DimMap:
    dims, labels = integers(node, "dims"), _all(len(shapes[0]))
    kept = dims if flag(node, "keepdim") else ()
    result = tuple(None if dim in dims else dim for dim in labels if dim not in dims or dim in kept)
    return DimMap(operands=(labels,), results=(result,))


def _layer_norm(node: Node, shapes: _Shapes) -> DimMap:
    rank, tail = len(shapes[0]), len(shapes[2])
    labels = (*_all(rank - tail), *_none(tail))
    return DimMap(operands=(labels, _none(tail), _none(tail)), results=(labels,))


def _layer_norm_grad(node: Node, shapes: _Shapes) -> DimMap:
    rank, tail = len(shapes[0]), len(shapes[3])
    labels = (*_all(rank - tail), *_none(tail))
    return DimMap(
        operands=(labels, labels, _none(tail), _none(tail)),
        results=(labels, _none(tail), _none(tail)),
        sums=frozenset(range(rank - tail)),
    )


def _group_norm(node: Node, shapes: _Shapes) -> DimMap:
    batch = (0, *_none(len(shapes[0]) - 1))
    return DimMap(operands=(batch, _none(2), _none(2)), results=(batch,))


def _group_norm_grad(node: Node, shapes: _Shapes) -> DimMap:
    batch = (0, *_none(len(shapes[0]) - 1))
    return DimMap(
        operands=(batch, batch, _none(2))[: len(shapes)],
        results=(batch, _none(2), _none(2))[: len(node.results)],
        sums=frozenset({0}),
    )


def _batch_norm(node: Node, shapes: _Shapes) -> DimMap:
    """In training only channels are independent; in evaluation every element is."""
    rank = len(shapes[0])
    channel = channel_dim(node, rank)
    others = [dim for dim in range(rank) if dim != channel]
    labels = _without(rank, *others) if flag(node, "is_training") else _all(rank)
    vectors = ((channel,),) * 4
    return DimMap(operands=(labels, *vectors), results=(labels, (channel,), (channel,)))


def _batch_norm_grad(node: Node, shapes: _Shapes) -> DimMap:
    rank = len(shapes[0])
    channel = channel_dim(node, rank)
    labels = _without(rank, *(dim for dim in range(rank) if dim != channel))
    return DimMap(operands=(labels, labels, (channel,)), results=(labels, (channel,), (channel,)))


def _pool(node: Node, shapes: _Shapes) -> DimMap:
    ksize, strides = integers(node, "ksize"), integers(node, "strides")
    padding = integers(node, "padding")
    labels = tuple(
        dim if ksize[dim] == strides[dim] == 1 and not any(padding[2 * dim : 2 * dim + 2]) else None
        for dim in range(len(shapes[0]))
    )
    return DimMap(operands=(labels, labels), results=(labels,))


def _cross_entropy(node: Node, shapes: _Shapes) -> DimMap:
    axis, rank = integer(node, "axis"), len(shapes[0])
    logits = _without(rank, axis)
    rows = tuple(label for label in logits if label is not None)
    labels = logits if len(shapes[1]) == rank else rows
    return DimMap(operands=(logits, labels), results=(rows, logits))


def _gather(node: Node, shapes: _Shapes) -> DimMap:
    axis, batch = integer(node, "axis"), integer(node, "batch_dims")
    rank = len(shapes[0])
    table = _without(rank, axis)
    indices = tuple(dim if dim < batch else rank + dim for dim in range(len(shapes[1])))
    result = table[:axis] + indices[batch:] + table[axis + 1 :]
    return DimMap(operands=(table, indices), results=(result,))


def _gather_elements(node: Node, shapes: _Shapes) -> DimMap:
    axis, (table, indices) = integer(node, "axis"), shapes
    labels = tuple(
        dim if dim != axis and table[dim] == size else None for dim, size in enumerate(indices)
    )
    return DimMap(operands=(labels, labels), results=(labels,))


def _gather_nd(node: Node, shapes: _Shapes) -> DimMap:
    start, (table_shape, index_shape) = integer(node, "start_dim"), shapes
    rank, depth = len(table_shape), index_shape[-1]
    table = _without(rank, *range(start, start + depth))
    rows = tuple(dim if dim < start else rank + dim for dim in range(len(index_shape) - 1))
    result = rows + table[start + depth :]
    return DimMap(operands=(table, (*rows, None)), results=(result,))


def _scatter(node: Node, shapes: _Shapes) -> DimMap:
    axis = integer(node, "axis")
    labels = tuple(
        dim if dim != axis and len({shape[dim] for shape in shapes}) == 1 else None
        for dim in range(len(shapes[0]))
    )
    return DimMap(operands=(labels,) * 3, results=(labels,))


def _scatter_nd(node: Node, shapes: _Shapes) -> DimMap:
    """Adds up over the index rows; exact only where the base is zero."""
    base_shape, index_shape, _ = shapes
    rank, depth = len(base_shape), index_shape[-1]
    base = _without(rank, *range(depth))
    rows = tuple(rank + dim for dim in range(len(index_shape) - 1))
    return DimMap(
        operands=(base, (*rows, None), rows + base[depth:]),
        results=(base,),
        sums=frozenset(rows),
    )


def _one_hot(node: Node, shapes: _Shapes) -> DimMap:
    axis, labels = integer(node, "axis"), _all(len(shapes[0]))
    return DimMap(operands=(labels,), results=((*labels[:axis], None, *labels[axis:]),))


def _rows(node: Node, shapes: _Shapes) -> DimMap:
    """Every row is computed on its own."""
    labels = tuple(_without(len(shape), len(shape) - 1) for shape in shapes)
    return DimMap(operands=labels, results=(_without(len(shapes[0]), len(shapes[0]) - 1),))


def _next_tokens(node: Node, shapes: _Shapes) -> DimMap:
    labels = tuple((0, *_none(len(shape) - 1)) for shape in shapes)
    return DimMap(operands=labels, results=labels[:1])


_Rule = Callable[[Node, _Shapes], DimMap]
_RULES: Mapping[str, _Rule] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(("Const", "RandomUniform", "RandomNormal", "wsc.Position"), _source),
    **dict.fromkeys(
        ("ConditionalArange", "FusedTopP", "FusedTopPDeinterleaved", "RandomMultinomial"), _rows
    ),
    **dict.fromkeys(("Softmax", "CumSum", "CumProd", "Concat", "Split"), _whole_axis("axis")),
    **dict.fromkeys(("TopK", "FusedTopK", "NthOrderStatistic"), _whole_axis("dimension")),
    **dict.fromkeys(("StridedSlice", "StridedSliceGrad"), _where_whole(_is_full_slice)),
    "Repeat": _where_whole(_is_repeated_once),
    "pad": _where_whole(_is_unpadded),
    "unpad": _where_whole(_is_uncut),
    "MatrixBandPart": _band_part,
    "BroadcastInDim": _broadcast,
    "Transpose": _transpose,
    "MatMul": _matmul,
    "DotGeneral": _dot_general,
    "Convolution": _convolution,
    **dict.fromkeys(("SparseActMatMul", "SparseMatMul"), _masked_rows),
    **dict.fromkeys(("SparseActMatMulGrad", "SparseMatMulGrad"), _masked_rows_grad),
    "RangedMatMul": _first_rows,
    "RangedDMatMul": _first_rows_grad,
    "BiasAdd": _bias_add,
    "BiasAddGrad": _bias_add_grad,
    "Reduce": _reduce,
    "L2Norm": _l2_norm,
    "LayerNorm": _layer_norm,
    "LayerNormGrad": _layer_norm_grad,
    "GroupNorm": _group_norm,
    "GroupNormGrad": _group_norm_grad,
    "FusedBatchNorm": _batch_norm,
    "FusedBatchNormGrad": _batch_norm_grad,
    "Pool": _pool,
    "SparseSoftmaxCrossEntropyWithLogits": _cross_entropy,
    "SoftmaxCrossEntropyWithLogits": _cross_entropy,
    "Gather": _gather,
    "GatherNd": _gather_nd,
    "Scatter": _scatter,
    "ScatterNd": _scatter_nd,
    "OneHot": _one_hot,
    "wsc.NextTokens": _next_tokens,
}
