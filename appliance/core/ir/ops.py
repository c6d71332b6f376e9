"""The operations of a graph in normal form: the contract between compiler and numerics.

The importer takes a program as it is written; the pass `normalise` brings every node into the form
of this table, and everything after it (passes, plan, kernels, wafer simulator) may rely on it.
In normal form no operand is a mere parameter: permutations, slice bounds, shapes, ranges and
depths are attributes (`tuple[int, ...]` for vectors). Shapes are static; elementwise operands have
equal shapes (rank-0 operands broadcast only where the table says so).

Notation: `x[i..]` is a tensor; `-> ` gives results; `{a, b}` are attributes; the shape and element
type of a result are in `node.types` and are authoritative. A 16-bit operand with a float32 result
is legal in the ops marked (+): they add up, and their result is then not rounded.

Elementwise, all shapes equal
    Abs Ceil Cos Erf Exp Floor Log Not Reciprocal Relu Round Rsqrt Sigmoid Sign Sin Sqrt Tanh (x)
    Elu LeakyRelu (x) {alpha}            HardSigmoid (x)     Softplus (x) {beta, threshold}
    Gelu (x) {approximation: NONE|TANH}  GeluGrad (dy, x) {approximation}
    Add Sub Mul Div Pow Atan2 (a, b)     And Or Xor (a, b), logical on i1, bitwise on integers
    EluGrad LeakyReluGrad (dy, x) {alpha}  HardSigmoidGrad (dy, x)
    ReluGrad (dy, y)   SigmoidGrad (y, dy): the result y of Sigmoid comes first
    Compare (a, b) {comparison_direction: EQ|NE|LT|LE|GT|GE} -> i1
    Select (condition, a, b); condition may be rank 0
    Clamp (x, low, high); low and high may be rank 0
    Cast (x) to the result's element type; float to integer truncates toward zero; to i1 is x != 0
    ExtSI ExtUI (x) sign- and zero-extending integer casts (i1 true becomes -1 and 1)
    wsc.Copy (x) the same numbers in memory of their own (every other op may return a view)
Sources (no operands)
    Const {value: Constant}
    Arange {start, step, dim}: start + step * index along dim, computed in the result's type (in
        float64 for floats, then rounded)
    RandomUniform {low, high, seed, stream}   RandomNormal {mean, deviation, seed, stream}
        Element i (row-major index in `global_shape`, absent: the result's shape) is a function of
        (seed, stream, training step, i) alone. `stream` tells the random ops of a program apart.
        After `localise` of a sharded one: {global_shape, axis, start}: the result is the part of
        the global tensor that begins at `start` along `axis`.
Shape
    Reshape (x)     Transpose (x) {permutation}: result dim i is operand dim permutation[i]
    BroadcastInDim (x) {broadcast_dimensions}: operand dim i becomes result dim
        broadcast_dimensions[i]; size-1 dims stretch; strictly increasing. A stride-0 view will do.
    Concat (x...) {axis}          Split (x) {axis, split_sizes} -> one result for each size
    StridedSlice (x) {begin, end, stride}: one entry for each dim, 0 <= begin <= end, stride >= 1;
        rank is kept (a Reshape follows where the program drops dims)
    StridedSliceGrad (dy) {begin, end, stride}: dy placed into zeros of the result's shape
    Repeat (x) {repeats}: tiles whole copies, one count for each dim
    pad (x) {edge_padding_low, edge_padding_high, interior_padding, padding_mode:
        CONSTANT|REFLECT|SYMMETRIC|CIRCULAR, value: the number of CONSTANT padding}
    unpad (x) {edge_unpadding_high}: drops so many elements at the end of each dim
    MatrixBandPart (x) {num_lower, num_upper}: keeps the band of the last two dims; negative: all
Contraction
    MatMul (a, b) {transpose_a, transpose_b}, rank 2 (+)
    DotGeneral (a, b) {lhs_batching_dimensions, rhs_batching_dimensions,
        lhs_contracting_dimensions, rhs_contracting_dimensions}; result dims: batching, rest of a,
        rest of b (+)
    Convolution {conv_pass_direction, data_format: NCHW|NCDHW|NHWC|NDHWC, stride, padding, dilation,
        groups, transposed} (+); padding is symmetric, one entry for each spatial dim; stride
        etc. are those of the forward convolution. Weights are [O, I/groups, spatial...].
        FWD (x, w) -> y;  BWD_INPUT (dy, w) -> dx;  BWD_KERNEL (x, dy) -> dw
    BiasAdd (x, bias) {dim}    BiasAddGrad (dy) {dim} -> sum over all dims but dim (+)
    SparseActMatMul (x[.., n], mask[..], w[k, n]) -> x w^T for the rows whose mask is not 0, zeros
        for the others; only the former are computed
    SparseActMatMulGrad (dy[.., k], x, mask, w) -> dx[.., n], dw (+ for dw)
        Both may have {active_share}: the part of the rows that the program expects to compute
    SparseMatMul (x[.., s, n], indices[.., s], w[k, experts, n]) -> each row times the matrix
        w[:, its index, :], transposed: [.., s, k]; no index comes twice along s
    SparseMatMulGrad (dy[.., s, k], x, indices, w) -> dx, dw (+ for dw)
    RangedMatMul (w[k, n], x[b, s, n], counts[b]) -> x w^T for the first counts[b] rows of sample b,
        zeros for the others
    RangedDMatMul (dy[b, s, k], x[b, s, n], counts[b]) -> dw[k, n] over those rows (+)
Reduction
    Reduce (x) {dimensions, keep_dims, reduce_kind: ADD|MUL|MAX|MIN|AND|OR|MEAN|ARGMAX|ARGMIN};
        keep_dims is the subset of dimensions that stay with size 1; ADD (+)
    L2Norm (x) {dims, keepdim}: sqrt(sum(x * x))
    Softmax (x) {axis}    CumSum CumProd (x) {axis, exclusive, reverse}
    TopK (x) {k, dimension, largest, sorted} -> values, indices (ties: the lowest index first)
    NthOrderStatistic (x) {k, dimension} -> 1 where an element is among the k largest along a
        dimension (ties: the lowest index first), else 0
Normalisation; statistics in float32 whatever the element type
    LayerNorm (x, beta, gamma) {epsilon}; normalised over the trailing dims of gamma
    LayerNormGrad (dy, x, beta, gamma) {epsilon} -> dx, dbeta, dgamma (+ for the last two)
    GroupNorm (x, gamma, beta) {epsilon, num_groups, affine, data_format}; gamma (first, unlike
        LayerNorm) and beta have the shape [groups, channels / groups]
    GroupNormGrad (dy, x, gamma | dy, x) {as GroupNorm} -> dx, dgamma, dbeta | dx (+ for the
        gradients of gamma and beta)
    FusedBatchNorm (x, scale, offset, mean, variance) {epsilon, exponential_avg_factor, data_format,
        is_training} -> y, batch_mean, batch_variance; the vectors may be float32 where x is 16-bit.
        The last two results are the blended running values (1 - factor) * old + factor * new, the
        new variance with Bessel's correction
    FusedBatchNormGrad (dy, x, scale) {epsilon, data_format, is_training} -> dx, dscale, doffset
        (+ for the last two); is_training is true
    Pool (x, x) {pool_type: MAX|AVERAGE, data_format: NCDHW|NDHWC, ksize, strides, padding (low and
        high for each of 5 dims, interleaved), dilation}; AVERAGE counts the padding. The front end
        loses default strides, ceil mode and dilation: the shapes say which reading is meant
    Pool (x, dy) {..., gradient: true} -> dx
    Pool {..., adaptive: true} has PyTorch's windows: that of place i of n begins at i * size // n
        and ends before the ceiling of (i + 1) * size / n
Loss
    SparseSoftmaxCrossEntropyWithLogits (logits, labels) {axis} -> loss, softmax - onehot; both
        are zero where the label is IGNORED_LABEL
    SoftmaxCrossEntropyWithLogits (logits, labels) {axis} -> loss, softmax - labels
Indexing
    Gather (table, indices) {axis, batch_dims}: result dims: table dims before axis, indices dims
        after batch_dims, table dims after axis. Where table, indices and result all have the same
        rank above 1, it is torch.gather: one element for each index
    GatherNd (table, indices) {start_dim}: leading start_dim dims are batch; the last dim of
        indices addresses the next dims of table
    Scatter (base, indices, updates) {axis, reduce_kind: NONE|ADD|MUL|MAX|MIN}: as torch.scatter
    ScatterNd (base, indices[n.., d], updates): adds updates[n..] at base[indices[n..]] (+)
    OneHot (indices) {axis, on, off}: result dim axis is the depth
Sampling (tokens from probabilities)
    FusedTopK (x) {k, dimension} -> int32, twice k along `dimension`: the k largest, each as its
        float32's bits followed by its index
    FusedTopP (fused, p, u, k) -> the index drawn from the smallest set of the first k whose sum is
        at least p: the first whose running sum exceeds u times the set's sum
    FusedTopPDeinterleaved (values, indices, p, u, k): the same of what TopK gives
    RandomMultinomial (weights) {num_samples, replacement, seed, stream} -> indices drawn along the
        last dim
    ConditionalArange (mask) {start, step}: the place of each true element among those of its row,
        times step, plus start; 0 where the mask is false
Ours (a loop over positions; see `appliance.compiler.passes.position_loop`)
    wsc.Position () -> the index that the loop is at, everywhere the same; the step outside of one
    wsc.NextTokens (tokens, index, update, stop_sequences) {loop_dim, start_tokens, max_tokens}: the
        tokens after the loop. One evaluation gives the tokens with the update behind the index
Ours (batch sharding; see `appliance.core.ir.sharding`)
    wsc.Sum (partial) -> total: crosses SwarmX; an identity where one system holds the whole batch.
        Only in graphs between passes, never among the nodes of a plan.
    wsc.ShardSlice (x) {axis, outer}: a system's part of a replicated tensor
    wsc.ShardPad (x) {axis, outer}: a system's part placed into zeros of the global shape
        `localise` adds {start, size, global_size}. Dim `axis` of the whole tensor, of size
        outer * global_size, is seen as [outer, global_size]; the part is [:, start:start + size].
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from appliance.core.errors import InternalError
from appliance.core.ir import routed_shapes, shapes
from appliance.core.ir.graph import Graph, Node
from appliance.core.ir.tensors import DType, TensorType

Infer = Callable[[Node, Sequence[TensorType]], tuple[tuple[int, ...], ...]]
"""Computes the result shapes of a node from the types of its operands; ValueError if impossible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpSpec:
    """Signature of one operation in normal form.

    Attributes:
        num_operands: Allowed numbers of operands; empty for any number from one on.
        num_results: Number of results; None for any.
        attributes: Names that must be present.
        infer: Shape rule; None where the result's shape cannot be derived from the operands.
        dtype: `same` as the first operand (or float32 for a 16-bit one), `any`, or an element type.
        is_view: Whether the result may share memory with the first operand.
        is_random: Whether the result differs from step to step, whatever the operands.
    """

    num_operands: tuple[int, ...]
    num_results: int | None = 1
    attributes: tuple[str, ...] = ()
    infer: Infer | None = None
    dtype: str = "same"
    is_view: bool = False
    is_random: bool = False


def _unary(*attributes: str) -> OpSpec:
    return OpSpec(num_operands=(1,), attributes=attributes, infer=shapes.elementwise)


def _binary(*attributes: str, dtype: str = "same") -> OpSpec:
    return OpSpec(num_operands=(2,), attributes=attributes, infer=shapes.elementwise, dtype=dtype)


IGNORED_LABEL = -100
"""The label of a row that is left out: PyTorch's default, for which the client writes no mask."""

UNARY = frozenset(
    {
        *("Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "Log", "Not", "Reciprocal", "Relu", "Round"),
        *("Rsqrt", "Sigmoid", "Sign", "Sin", "Sqrt", "Tanh", "HardSigmoid", "Elu", "LeakyRelu"),
        *("Softplus", "Gelu", "Cast", "ExtSI", "ExtUI", "wsc.Copy"),
    }
)
BINARY = frozenset(
    {
        *("Add", "Sub", "Mul", "Div", "Pow", "Atan2", "And", "Or", "Xor", "Compare", "GeluGrad"),
        *("EluGrad", "LeakyReluGrad", "HardSigmoidGrad", "ReluGrad", "SigmoidGrad"),
    }
)
ELEMENTWISE = UNARY | BINARY | {"Select", "Clamp"}
"""Ops whose result element depends on the operands' elements at the same place only."""

_POOL = ("pool_type", "data_format", "ksize", "strides", "padding", "dilation")
_CONVOLUTION = ("conv_pass_direction", "data_format", "stride", "padding", "dilation", "groups")
_DOT = tuple(
    f"{side}_{kind}_dimensions" for side in ("lhs", "rhs") for kind in ("batching", "contracting")
)

SPECS: Mapping[str, OpSpec] = {
    **{op: _unary() for op in UNARY},
    **{op: _binary() for op in BINARY},
    "Gelu": _unary("approximation"),
    "GeluGrad": _binary("approximation"),
    "Elu": _unary("alpha"),
    "LeakyRelu": _unary("alpha"),
    "EluGrad": _binary("alpha"),
    "LeakyReluGrad": _binary("alpha"),
    "Softplus": _unary("beta", "threshold"),
    "Cast": OpSpec(num_operands=(1,), infer=shapes.elementwise, dtype="any", is_view=True),
    "ExtSI": OpSpec(num_operands=(1,), infer=shapes.elementwise, dtype="any"),
    "ExtUI": OpSpec(num_operands=(1,), infer=shapes.elementwise, dtype="any"),
    "Compare": _binary("comparison_direction", dtype=DType.I1),
    "Select": OpSpec(num_operands=(3,), infer=shapes.select, dtype="any"),
    "Clamp": OpSpec(num_operands=(3,), infer=shapes.clamp),
    "Const": OpSpec(num_operands=(0,), attributes=("value",), dtype="any"),
    "Arange": OpSpec(num_operands=(0,), attributes=("start", "step", "dim"), dtype="any"),
    "RandomUniform": OpSpec(
        num_operands=(0,),
        attributes=("low", "high", "seed", "stream"),
        dtype="any",
        is_random=True,
    ),
    "RandomNormal": OpSpec(
        num_operands=(0,),
        attributes=("mean", "deviation", "seed", "stream"),
        dtype="any",
        is_random=True,
    ),
    "Reshape": OpSpec(num_operands=(1,), infer=shapes.reshape, is_view=True),
    "Transpose": OpSpec(
        num_operands=(1,), attributes=("permutation",), infer=shapes.transpose, is_view=True
    ),
    "BroadcastInDim": OpSpec(
        num_operands=(1,),
        attributes=("broadcast_dimensions",),
        infer=shapes.broadcast,
        is_view=True,
    ),
    "Concat": OpSpec(num_operands=(), attributes=("axis",), infer=shapes.concat),
    "Split": OpSpec(
        num_operands=(1,),
        num_results=None,
        attributes=("axis", "split_sizes"),
        infer=shapes.split,
        is_view=True,
    ),
    "StridedSlice": OpSpec(
        num_operands=(1,),
        attributes=("begin", "end", "stride"),
        infer=shapes.strided_slice,
        is_view=True,
    ),
    "StridedSliceGrad": OpSpec(
        num_operands=(1,), attributes=("begin", "end", "stride"), infer=shapes.strided_slice_grad
    ),
    "Repeat": OpSpec(num_operands=(1,), attributes=("repeats",), infer=shapes.repeat),
    "pad": OpSpec(
        num_operands=(1,),
        attributes=("edge_padding_low", "edge_padding_high", "interior_padding", "padding_mode"),
        infer=shapes.pad,
    ),
    "unpad": OpSpec(
        num_operands=(1,), attributes=("edge_unpadding_high",), infer=shapes.unpad, is_view=True
    ),
    "MatrixBandPart": _unary("num_lower", "num_upper"),
    "MatMul": OpSpec(
        num_operands=(2,), attributes=("transpose_a", "transpose_b"), infer=shapes.matmul
    ),
    "DotGeneral": OpSpec(num_operands=(2,), attributes=_DOT, infer=shapes.dot_general),
    "Convolution": OpSpec(num_operands=(2,), attributes=_CONVOLUTION, infer=shapes.convolution),
    "BiasAdd": OpSpec(num_operands=(2,), attributes=("dim",), infer=shapes.bias_add),
    "BiasAddGrad": OpSpec(num_operands=(1,), attributes=("dim",), infer=shapes.bias_add_grad),
    "SparseActMatMul": OpSpec(num_operands=(3,), infer=routed_shapes.masked_rows),
    "SparseActMatMulGrad": OpSpec(
        num_operands=(4,), num_results=2, infer=routed_shapes.masked_rows_grad
    ),
    "SparseMatMul": OpSpec(num_operands=(3,), infer=routed_shapes.chosen_matrix),
    "SparseMatMulGrad": OpSpec(
        num_operands=(4,), num_results=2, infer=routed_shapes.chosen_matrix_grad
    ),
    "RangedMatMul": OpSpec(num_operands=(3,), infer=routed_shapes.first_rows),
    "RangedDMatMul": OpSpec(num_operands=(3,), infer=routed_shapes.first_rows_grad),
    "Reduce": OpSpec(
        num_operands=(1,),
        attributes=("dimensions", "keep_dims", "reduce_kind"),
        infer=shapes.reduce,
        dtype="any",
    ),
    "L2Norm": OpSpec(num_operands=(1,), attributes=("dims", "keepdim"), infer=shapes.l2_norm),
    "Softmax": _unary("axis"),
    "CumSum": _unary("axis", "exclusive", "reverse"),
    "CumProd": _unary("axis", "exclusive", "reverse"),
    "TopK": OpSpec(
        num_operands=(1,),
        num_results=2,
        attributes=("k", "dimension", "largest", "sorted"),
        infer=shapes.top_k,
        dtype="any",
    ),
    "NthOrderStatistic": OpSpec(
        num_operands=(1,),
        attributes=("k", "dimension"),
        infer=shapes.order_statistic,
        dtype="any",
    ),
    "LayerNorm": OpSpec(num_operands=(3,), attributes=("epsilon",), infer=shapes.layer_norm),
    "LayerNormGrad": OpSpec(
        num_operands=(4,), num_results=3, attributes=("epsilon",), infer=shapes.layer_norm_grad
    ),
    "GroupNorm": OpSpec(
        num_operands=(3,),
        attributes=("epsilon", "num_groups", "affine", "data_format"),
        infer=shapes.group_norm,
    ),
    "GroupNormGrad": OpSpec(
        num_operands=(2, 3),
        num_results=None,
        attributes=("epsilon", "num_groups", "affine", "data_format"),
        infer=shapes.group_norm_grad,
    ),
    "FusedBatchNorm": OpSpec(
        num_operands=(5,),
        num_results=3,
        attributes=("epsilon", "exponential_avg_factor", "data_format", "is_training"),
        infer=shapes.batch_norm,
    ),
    "FusedBatchNormGrad": OpSpec(
        num_operands=(3,),
        num_results=3,
        attributes=("epsilon", "data_format", "is_training"),
        infer=shapes.channel_norm_grad,
    ),
    "Pool": OpSpec(num_operands=(2,), attributes=_POOL, infer=shapes.pool),
    "SparseSoftmaxCrossEntropyWithLogits": OpSpec(
        num_operands=(2,), num_results=2, attributes=("axis",), infer=shapes.cross_entropy
    ),
    "SoftmaxCrossEntropyWithLogits": OpSpec(
        num_operands=(2,), num_results=2, attributes=("axis",), infer=shapes.cross_entropy
    ),
    "Gather": OpSpec(num_operands=(2,), attributes=("axis", "batch_dims"), infer=shapes.gather),
    "GatherNd": OpSpec(num_operands=(2,), attributes=("start_dim",), infer=shapes.gather_nd),
    "Scatter": OpSpec(
        num_operands=(3,), attributes=("axis", "reduce_kind"), infer=shapes.first_operand
    ),
    "ScatterNd": OpSpec(num_operands=(3,), infer=shapes.first_operand),
    "OneHot": OpSpec(
        num_operands=(1,), attributes=("axis", "on", "off"), infer=shapes.one_hot, dtype="any"
    ),
    "ConditionalArange": OpSpec(
        num_operands=(1,),
        attributes=("start", "step"),
        infer=shapes.elementwise,
        dtype="any",
    ),
    "FusedTopK": OpSpec(
        num_operands=(1,), attributes=("k", "dimension"), infer=shapes.fused_top_k, dtype=DType.I32
    ),
    "FusedTopP": OpSpec(num_operands=(4,), infer=shapes.fused_top_p, dtype=DType.I32),
    "FusedTopPDeinterleaved": OpSpec(num_operands=(5,), infer=shapes.fused_top_p, dtype=DType.I32),
    "RandomMultinomial": OpSpec(
        num_operands=(1,),
        attributes=("num_samples", "replacement", "seed", "stream"),
        infer=shapes.multinomial,
        dtype="any",
        is_random=True,
    ),
    "wsc.Position": OpSpec(num_operands=(0,), dtype=DType.I32, is_random=True),
    "wsc.NextTokens": OpSpec(
        num_operands=(4,),
        attributes=("loop_dim", "start_tokens", "max_tokens"),
        infer=shapes.next_tokens,
    ),
    "wsc.Sum": OpSpec(num_operands=(1,), infer=shapes.elementwise),
    "wsc.ShardSlice": OpSpec(
        num_operands=(1,), attributes=("axis", "outer"), infer=shapes.elementwise, is_view=True
    ),
    "wsc.ShardPad": OpSpec(
        num_operands=(1,), attributes=("axis", "outer"), infer=shapes.elementwise
    ),
}

VIEW_OPS = frozenset(op for op, spec in SPECS.items() if spec.is_view)
"""Ops whose result may share memory with their operand."""

RANDOM_OPS = frozenset(op for op, spec in SPECS.items() if spec.is_random)
"""Ops whose result differs from step to step, whatever their operands."""


def check_node(node: Node, operand_types: Sequence[TensorType]) -> str:
    """Compare a node with its signature.

    Args:
        node: A node in normal form, its shapes those of the global batch.

    Returns:
        What is wrong, as a clause to follow the node's name; empty if nothing is.
    """
    spec = SPECS.get(node.op)
    if spec is None:
        return "is not supported"
    count = len(node.operands)
    if spec.num_operands and count not in spec.num_operands:
        allowed = " or ".join(map(str, spec.num_operands))
        return f"has {count} operands, not {allowed}"
    if not spec.num_operands and node.op != "Const" and count < 1:
        return "has no operands"
    if spec.num_results is not None and len(node.results) != spec.num_results:
        return f"has {len(node.results)} results, not {spec.num_results}"
    missing = [name for name in spec.attributes if name not in node.attributes]
    if missing:
        return f"lacks attribute {missing[0]!r}"
    return _check_types(node, spec, operand_types)


def _check_types(node: Node, spec: OpSpec, operand_types: Sequence[TensorType]) -> str:
    if spec.infer is not None:
        try:
            expected = spec.infer(node, operand_types)
        except (ValueError, IndexError) as error:
            return f"has operands that do not fit: {error}"
        found = tuple(type_.shape for type_ in node.types)
        if expected != found:
            return f"has results of shapes {found}, not {expected}"
    if spec.dtype == "same" and operand_types:
        first = operand_types[0].dtype
        allowed = {first, DType.F32} if first.is_half else {first}
        if node.types[0].dtype not in allowed:
            return f"turns {first.value} into {node.types[0].dtype.value}"
    elif spec.dtype not in ("same", "any") and node.types[0].dtype != spec.dtype:
        return f"has a result of {node.types[0].dtype.value}, not {spec.dtype}"
    return ""


def verify_ops(graph: Graph) -> None:
    """Check every node of a normalised graph against its signature.

    Args:
        graph: The graph; single assignment and order are taken for granted.

    Raises:
        InternalError: A node breaks its signature; the message names it and says how.
    """
    types = graph.types()
    for node in graph.nodes:
        problem = check_node(node, [types[name] for name in node.operands])
        if problem:
            raise InternalError(f"{node.op} at {node.location} {problem}.")
