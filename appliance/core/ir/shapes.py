"""Shape rules: the result shapes of an operation in normal form, from its operands' shapes.

One function for each rule of `appliance.core.ir.ops`. A rule raises ValueError with a clause that
says which shapes clash; it never guesses.
"""

from collections.abc import Sequence

from appliance.core.ir.attributes import flag, integer, integers, text
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import TensorType

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]


def channel_dim(node: Node, rank: int) -> int:
    """Return the channel dimension that a node's `data_format` names."""
    return rank - 1 if text(node, "data_format", "NCHW").endswith("C") else 1


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


def elementwise(node: Node, types: Sequence[TensorType]) -> Shapes:
    """All operands and the result have one shape."""
    shape = types[0].shape
    for type_ in types[1:]:
        _require(type_.shape == shape, f"{types[0]} and {type_}")
    return (shape,)


def first_operand(node: Node, types: Sequence[TensorType]) -> Shapes:
    """The result has the first operand's shape."""
    return (types[0].shape,)


def select(node: Node, types: Sequence[TensorType]) -> Shapes:
    """The condition may be a scalar; the other two operands have the result's shape."""
    condition, on_true, on_false = types
    _require(on_true == on_false, f"{on_true} and {on_false}")
    _require(condition.shape in ((), on_true.shape), f"{condition} chooses from {on_true}")
    return (on_true.shape,)


def clamp(node: Node, types: Sequence[TensorType]) -> Shapes:
    """The bounds may be scalars."""
    for bound in types[1:]:
        _require(bound.shape in ((), types[0].shape), f"{types[0]} and bound {bound}")
    return (types[0].shape,)


def reshape(node: Node, types: Sequence[TensorType]) -> Shapes:
    """The number of elements stays."""
    result = node.types[0]
    _require(types[0].num_elements == result.num_elements, f"{types[0]} to {result}")
    return (result.shape,)


def transpose(node: Node, types: Sequence[TensorType]) -> Shapes:
    """The permutation reorders the sizes."""
    permutation = integers(node, "permutation")
    shape = types[0].shape
    _require(sorted(permutation) == list(range(len(shape))), f"{types[0]} by {permutation}")
    return (tuple(shape[dim] for dim in permutation),)


def broadcast(node: Node, types: Sequence[TensorType]) -> Shapes:
    """Operand sizes equal the result's or are 1."""
    dims = integers(node, "broadcast_dimensions")
    shape, result = types[0].shape, node.types[0].shape
    _require(len(dims) == len(shape), f"{types[0]} along {dims}")
    _require(list(dims) == sorted(set(dims)), f"{types[0]} along {dims}")
    for size, dim in zip(shape, dims, strict=True):
        _require(0 <= dim < len(result) and size in (1, result[dim]), f"{types[0]} along {dims}")
    return (result,)


def concat(node: Node, types: Sequence[TensorType]) -> Shapes:
    """Sizes add up along one axis and agree along the others."""
    axis, first = integer(node, "axis"), types[0].shape
    _require(0 <= axis < len(first), f"axis {axis} of {types[0]}")
    for type_ in types[1:]:
        rest = type_.shape[:axis] + type_.shape[axis + 1 :]
        _require(rest == first[:axis] + first[axis + 1 :], f"{types[0]} and {type_}")
    total = sum(type_.shape[axis] for type_ in types)
    return ((*first[:axis], total, *first[axis + 1 :]),)


def split(node: Node, types: Sequence[TensorType]) -> Shapes:
    """The sizes of the parts add up to the operand's."""
    axis, sizes, shape = integer(node, "axis"), integers(node, "split_sizes"), types[0].shape
    _require(sum(sizes) == shape[axis], f"{types[0]} into {sizes}")
    return tuple((*shape[:axis], size, *shape[axis + 1 :]) for size in sizes)


def _slice_sizes(node: Node) -> Shape:
    bounds = zip(
        integers(node, "begin"), integers(node, "end"), integers(node, "stride"), strict=True
    )
    return tuple(-(-(end - begin) // stride) for begin, end, stride in bounds)


def strided_slice(node: Node, types: Sequence[TensorType]) -> Shapes:
    """One size for each begin, end and stride."""
    for size, end in zip(types[0].shape, integers(node, "end"), strict=True):
        _require(end <= size, f"{types[0]} up to {integers(node, 'end')}")
    return (_slice_sizes(node),)


def strided_slice_grad(node: Node, types: Sequence[TensorType]) -> Shapes:
    """The operand has the size of the slice; the result's shape is given."""
    ends = zip(node.types[0].shape, integers(node, "end"), strict=True)
    fits = all(end <= size for size, end in ends) and _slice_sizes(node) == types[0].shape
    _require(fits, f"{types[0]} into {node.types[0]}")
    return (node.types[0].shape,)


def repeat(node: Node, types: Sequence[TensorType]) -> Shapes:
    """Sizes are multiplied."""
    counts = zip(types[0].shape, integers(node, "repeats"), strict=True)
    return (tuple(size * count for size, count in counts),)


def pad(node: Node, types: Sequence[TensorType]) -> Shapes:
    """Sizes grow by edge and interior padding."""
    sizes = zip(
        types[0].shape,
        integers(node, "edge_padding_low"),
        integers(node, "edge_padding_high"),
        integers(node, "interior_padding"),
        strict=True,
    )
    return (tuple(n + low + high + max(n - 1, 0) * inner for n, low, high, inner in sizes),)


def unpad(node: Node, types: Sequence[TensorType]) -> Shapes:
    """Sizes shrink at the end."""
    cut = integers(node, "edge_unpadding_high")
    return (tuple(size - high for size, high in zip(types[0].shape, cut, strict=True)),)


def matmul(node: Node, types: Sequence[TensorType]) -> Shapes:
    """Rank 2, either operand transposed."""
    a, b = types[0].shape, types[1].shape
    _require(len(a) == len(b) == 2, f"{types[0]} and {types[1]}")
    if flag(node, "transpose_a"):
        a = (a[1], a[0])
    if flag(node, "transpose_b"):
        b = (b[1], b[0])
    _require(a[1] == b[0], f"{types[0]} and {types[1]}")
    return ((a[0], b[1]),)


def dot_general(node: Node, types: Sequence[TensorType]) -> Shapes:
    """Batching dims, the rest of a, the rest of b."""
    a, b = types[0].shape, types[1].shape
    batch_a, batch_b = (integers(node, f"{side}_batching_dimensions") for side in ("lhs", "rhs"))
    sum_a, sum_b = (integers(node, f"{side}_contracting_dimensions") for side in ("lhs", "rhs"))
    message = f"{types[0]} and {types[1]}"
    _require([a[dim] for dim in batch_a] == [b[dim] for dim in batch_b], message)
    _require([a[dim] for dim in sum_a] == [b[dim] for dim in sum_b], message)
    rest_a = [size for dim, size in enumerate(a) if dim not in batch_a + sum_a]
    rest_b = [size for dim, size in enumerate(b) if dim not in batch_b + sum_b]
    return ((*(a[dim] for dim in batch_a), *rest_a, *rest_b),)


def convolution(node: Node, types: Sequence[TensorType]) -> Shapes:
    """Check ranks and, for the forward pass, the output sizes."""
    rank = len(types[0].shape)
    stride, padding = integers(node, "stride"), integers(node, "padding")
    dilation = integers(node, "dilation")
    _require(
        len(types[1].shape) == rank == len(stride) + 2 == len(padding) + 2 == len(dilation) + 2,
        f"{types[0]} and {types[1]}, stride {stride}, padding {padding}, dilation {dilation}",
    )
    if text(node, "conv_pass_direction") != "FWD" or flag(node, "transposed"):
        return (node.types[0].shape,)
    channel = channel_dim(node, rank)
    spatial = [dim for dim in range(1, rank) if dim != channel]
    result = [types[0].shape[0]] + [0] * (rank - 1)
    result[channel] = types[1].shape[0]
    for index, dim in enumerate(spatial):
        kernel = dilation[index] * (types[1].shape[2 + index] - 1) + 1
        result[dim] = (types[0].shape[dim] + 2 * padding[index] - kernel) // stride[index] + 1
    return (tuple(result),)


def bias_add(node: Node, types: Sequence[TensorType]) -> Shapes:
    """The bias has the size of one dim."""
    dim = integer(node, "dim")
    _require(types[1].shape == (types[0].shape[dim],), f"{types[0]} and bias {types[1]}")
    return (types[0].shape,)


def bias_add_grad(node: Node, types: Sequence[TensorType]) -> Shapes:
    """One size is left."""
    return ((types[0].shape[integer(node, "dim")],),)


def reduce(node: Node, types: Sequence[TensorType]) -> Shapes:
    """Reduced dims vanish or stay with size 1."""
    dims, kept = integers(node, "dimensions"), integers(node, "keep_dims")
    _require(all(0 <= dim < len(types[0].shape) for dim in dims), f"{types[0]} over {dims}")
    return (_reduced(types[0].shape, dims, kept),)


def _reduced(shape: Shape, dims: Shape, kept: Shape) -> Shape:
    sizes = ((dim, 1 if dim in dims else size) for dim, size in enumerate(shape))
    return tuple(size for dim, size in sizes if dim not in dims or dim in kept)


def l2_norm(node: Node, types: Sequence[TensorType]) -> Shapes:
    """As a reduction that keeps all dims or none."""
    dims = integers(node, "dims")
    return (_reduced(types[0].shape, dims, dims if flag(node, "keepdim") else ()),)


def top_k(node: Node, types: Sequence[TensorType]) -> Shapes:
    """One dim shrinks to k."""
    dim, k, shape = integer(node, "dimension"), integer(node, "k"), types[0].shape
    result = (*shape[:dim], k, *shape[dim + 1 :])
    return (result, result)


def order_statistic(node: Node, types: Sequence[TensorType]) -> Shapes:
    """The mask has the operand's shape, and the dim has so many elements."""
    k, size = integer(node, "k"), types[0].shape[integer(node, "dimension")]
    _require(0 < k <= size, f"{types[0]}, the {k} largest of {size}")
    return (types[0].shape,)


def layer_norm(node: Node, types: Sequence[TensorType]) -> Shapes:
    """Beta and gamma have the trailing sizes of x."""
    x, beta, gamma = types
    tail = x.shape[len(x.shape) - len(gamma.shape) :]
    _require(beta.shape == gamma.shape == tail, f"{x}, {beta} and {gamma}")
    return (x.shape,)


def layer_norm_grad(node: Node, types: Sequence[TensorType]) -> Shapes:
    """Gradients of x, beta and gamma."""
    dy, x, beta, gamma = types
    _require(dy.shape == x.shape, f"{dy} and {x}")
    layer_norm(node, types[1:])
    return (x.shape, beta.shape, gamma.shape)


def channel_norm_grad(node: Node, types: Sequence[TensorType]) -> Shapes:
    """Gradients of x and of two vectors of channels."""
    dy, x = types[:2]
    _require(dy.shape == x.shape, f"{dy} and {x}")
    channels = (x.shape[channel_dim(node, len(x.shape))],)
    return (x.shape, channels, channels)


def group_norm(node: Node, types: Sequence[TensorType]) -> Shapes:
    """Gamma and beta have a row for each group."""
    x, gamma, beta = types
    channels = x.shape[channel_dim(node, len(x.shape))]
    groups = integer(node, "num_groups")
    _require(gamma.shape == beta.shape == (groups, channels // groups), f"{x}, {gamma} and {beta}")
    return (x.shape,)


def group_norm_grad(node: Node, types: Sequence[TensorType]) -> Shapes:
    """Gradients of x and, if there is a gamma, of gamma and beta."""
    dy, x = types[:2]
    _require(dy.shape == x.shape, f"{dy} and {x}")
    return (x.shape, types[2].shape, types[2].shape) if len(types) > 2 else (x.shape,)


def batch_norm(node: Node, types: Sequence[TensorType]) -> Shapes:
    """Everything but x is a vector of channels."""
    x = types[0]
    channels = (x.shape[channel_dim(node, len(x.shape))],)
    for vector in types[1:]:
        _require(vector.shape == channels, f"{x} and {vector}")
    return (x.shape, channels, channels)


def pool(node: Node, types: Sequence[TensorType]) -> Shapes:
    """Batch and channels stay; what the windows leave of the rest only the result tells."""
    x, y = types[0], types[1] if flag(node, "gradient") else node.types[0]
    channel = channel_dim(node, len(x.shape))
    _require(len(x.shape) == len(y.shape) == 5, f"{x} and {y}")
    _require((x.shape[0], x.shape[channel]) == (y.shape[0], y.shape[channel]), f"{x} and {y}")
    return (types[0].shape if flag(node, "gradient") else node.types[0].shape,)


def cross_entropy(node: Node, types: Sequence[TensorType]) -> Shapes:
    """A loss for each row, and the gradient of the logits."""
    axis, logits = integer(node, "axis"), types[0].shape
    rows = logits[:axis] + logits[axis + 1 :]
    _require(types[1].shape in (rows, logits), f"{types[0]} and {types[1]}")
    return (rows, logits)


def takes_single_elements(node: Node, types: Sequence[TensorType]) -> bool:
    """Whether a Gather takes one element for each index, as torch.gather does."""
    rank = len(types[0].shape)
    return rank > 1 and len(types[1].shape) == rank == len(node.types[0].shape)


def gather(node: Node, types: Sequence[TensorType]) -> Shapes:
    """Dims of the indices take the place of the axis."""
    axis, batch = integer(node, "axis"), integer(node, "batch_dims")
    table, indices = types[0].shape, types[1].shape
    _require(table[:batch] == indices[:batch], f"{types[0]} and {types[1]}")
    if takes_single_elements(node, types):
        return (indices,)
    return (table[:axis] + indices[batch:] + table[axis + 1 :],)


def gather_nd(node: Node, types: Sequence[TensorType]) -> Shapes:
    """The last dim of the indices addresses dims of the table."""
    start = integer(node, "start_dim")
    table, indices = types[0].shape, types[1].shape
    _require(table[:start] == indices[:start], f"{types[0]} and {types[1]}")
    return (indices[:-1] + table[start + indices[-1] :],)


def one_hot(node: Node, types: Sequence[TensorType]) -> Shapes:
    """The depth, which only the result tells, is inserted at the axis."""
    axis, shape, result = integer(node, "axis"), types[0].shape, node.types[0].shape
    return ((*shape[:axis], result[axis], *shape[axis:]),)


def fused_top_k(node: Node, types: Sequence[TensorType]) -> Shapes:
    """One dim becomes values and indices of the k largest."""
    dim, k, shape = integer(node, "dimension"), integer(node, "k"), types[0].shape
    _require(k <= shape[dim], f"k is {k} and the dim has {shape[dim]} elements")
    return ((*shape[:dim], 2 * k, *shape[dim + 1 :]),)


def fused_top_p(node: Node, types: Sequence[TensorType]) -> Shapes:
    """The last dim of what is drawn from shrinks to 1; the parameters are one for each row."""
    rows = types[0].shape[:-1]
    for type_ in types[-3:]:
        _require(type_.shape == (*rows, 1), f"a parameter is {type_.shape}, the rows are {rows}")
    return ((*rows, 1),)


def multinomial(node: Node, types: Sequence[TensorType]) -> Shapes:
    """The last dim becomes that of the samples."""
    return ((*types[0].shape[:-1], integer(node, "num_samples")),)


def next_tokens(node: Node, types: Sequence[TensorType]) -> Shapes:
    """The update is one slice of the tokens, the index one number for each row of it."""
    tokens, index, update = (type_.shape for type_ in types[:3])
    dim = integer(node, "loop_dim")
    _require(0 < dim < len(tokens), f"the loop is over dim {dim} of {tokens}")
    _require(update == (*tokens[:dim], 1, *tokens[dim + 1 :]), f"{update} is no slice of {tokens}")
    _require(index == (*tokens[:dim], 1), f"the index is {index} for {tokens}")
    return (tokens,)
