"""Operations over the whole batch, written as simpler ones that a system can do for its share.

Each function returns nodes that compute the same results as the given node, in float32. The sums
over the batch in them become partial sums in batch sharding; everything else follows from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from appliance.compiler.passes.rewriting import Names, constant_node
from appliance.core.errors import ProgramError
from appliance.core.ir.attributes import flag, integers, number, text
from appliance.core.ir.graph import Attribute, Graph, Node
from appliance.core.ir.shapes import channel_dim
from appliance.core.ir.tensors import DType, TensorType


@dataclass(slots=True)
class _Builder:
    """Collects the nodes that replace one node."""

    node: Node
    names: Names
    nodes: list[Node] = field(default_factory=list)
    types: dict[str, TensorType] = field(default_factory=dict)

    def emit(
        self,
        op: str,
        *operands: str,
        shape: tuple[int, ...] | None = None,
        name: str = "",
        dtype: DType = DType.F32,
        **attributes: Attribute,
    ) -> str:
        """Add a node; its shape is that of the first operand unless given."""
        type_ = TensorType(self.types[operands[0]].shape if shape is None else shape, dtype)
        result = name or self.names.fresh(f"{self.node.results[0]}.{op.lower()}")
        self.nodes.append(
            Node(
                op=op,
                operands=operands,
                results=(result,),
                types=(type_,),
                attributes=attributes,
                location=self.node.location,
            )
        )
        self.types[result] = type_
        return result

    def constant(self, value: float, shape: tuple[int, ...] = ()) -> str:
        """Add a float32 constant."""
        name = self.names.fresh(f"{self.node.results[0]}.constant")
        type_ = TensorType(shape, DType.F32)
        self.nodes.append(constant_node(name, value, type_, self.node.location))
        self.types[name] = type_
        return name

    def wide(self, operand: str) -> str:
        """Cast to float32, unless it is."""
        if self.types[operand].dtype is DType.F32:
            return operand
        return self.emit("Cast", operand)

    def finish(self, value: str, index: int) -> None:
        """Make `value`, which the last node computes, the node's result number `index`."""
        name, type_ = self.node.results[index], self.node.types[index]
        if self.types[value] != type_:
            self.emit("Cast", value, name=name, dtype=type_.dtype)
            return
        self.nodes[-1] = replace(self.nodes[-1], results=(name,))
        self.types[name] = type_


def _builder(node: Node, types: Sequence[TensorType], names: Names) -> _Builder:
    return _Builder(node, names, types=dict(zip(node.operands, types, strict=True)))


@dataclass(slots=True)
class BatchStatistics:
    """Means and reciprocal deviations that the forward pass has computed, for the backward pass.

    Keys are the normalised value and epsilon; values are the names of mean and reciprocal deviation
    for each channel.
    """

    known: dict[tuple[str, float], tuple[str, str]] = field(default_factory=dict)


class _Channels:
    """Sums over everything but channels, and broadcasts back."""

    def __init__(self, builder: _Builder, shape: tuple[int, ...]) -> None:
        self.builder = builder
        self.shape = shape
        self.channel = channel_dim(builder.node, len(shape))
        self.count = 1
        for dim, size in enumerate(shape):
            self.count *= 1 if dim == self.channel else size

    def total(self, value: str) -> str:
        """Sum over all dims but channels."""
        dims = tuple(dim for dim in range(len(self.shape)) if dim != self.channel)
        return self.builder.emit(
            "Reduce",
            value,
            shape=(self.shape[self.channel],),
            dimensions=dims,
            keep_dims=(),
            reduce_kind="ADD",
        )

    def mean(self, value: str) -> str:
        """Mean over all dims but channels."""
        total = self.total(value)
        return self.builder.emit("Div", total, self.vector(float(self.count)))

    def vector(self, value: float) -> str:
        """Return a constant for each channel."""
        return self.builder.constant(value, (self.shape[self.channel],))

    def spread(self, vector: str) -> str:
        """Broadcast a vector of channels to the whole shape."""
        return self.builder.emit(
            "BroadcastInDim",
            vector,
            shape=self.shape,
            broadcast_dimensions=(self.channel,),
        )

    def statistics(self, x: str, epsilon: float) -> tuple[str, str, str]:
        """Return mean, biased variance and reciprocal deviation, from two careful sums."""
        builder = self.builder
        mean = self.mean(x)
        centred = builder.emit("Sub", x, self.spread(mean))
        variance = self.mean(builder.emit("Mul", centred, centred))
        shifted = builder.emit("Add", variance, self.vector(epsilon))
        scale = builder.emit("Rsqrt", shifted)
        return mean, variance, scale


def decompose_batch_norm(
    node: Node, types: Sequence[TensorType], names: Names, known: BatchStatistics
) -> list[Node]:
    """Write training batch norm with two sums over the batch: the mean, then centred squares."""
    builder = _builder(node, types, names)
    channels = _Channels(builder, types[0].shape)
    epsilon, factor = number(node, "epsilon"), number(node, "exponential_avg_factor")
    x = builder.wide(node.operands[0])
    mean, variance, deviation = channels.statistics(x, epsilon)
    known.known[node.operands[0], epsilon] = (mean, deviation)
    gain = builder.emit("Mul", deviation, builder.wide(node.operands[1]))
    centred = builder.emit("Sub", x, channels.spread(mean))
    scaled = builder.emit("Mul", centred, channels.spread(gain))
    offset = channels.spread(builder.wide(node.operands[2]))
    builder.finish(builder.emit("Add", scaled, offset), 0)
    bessel = channels.vector(channels.count / max(channels.count - 1, 1))
    unbiased = builder.emit("Mul", variance, bessel)
    for index, (old, new) in enumerate(zip(node.operands[3:5], (mean, unbiased), strict=True), 1):
        kept = builder.emit("Mul", builder.wide(old), channels.vector(1.0 - factor))
        added = builder.emit("Mul", new, channels.vector(factor))
        builder.finish(builder.emit("Add", kept, added), index)
    return builder.nodes


def decompose_batch_norm_grad(
    node: Node, types: Sequence[TensorType], names: Names, known: BatchStatistics
) -> list[Node]:
    """Write the gradient of training batch norm with the sums of dy and of dy * (x - mean).

    Source: Ioffe and Szegedy, Batch Normalization, 2015, section 3, arXiv:1502.03167; the terms are
    gathered so that only two sums over the batch remain.
    """
    builder = _builder(node, types, names)
    channels = _Channels(builder, types[0].shape)
    epsilon = number(node, "epsilon")
    dy, x = builder.wide(node.operands[0]), builder.wide(node.operands[1])
    found = known.known.get((node.operands[1], epsilon))
    if found is None:
        mean, _, deviation = channels.statistics(x, epsilon)
    else:
        mean, deviation = found
        vector = TensorType((types[0].shape[channels.channel],), DType.F32)
        builder.types.update({mean: vector, deviation: vector})
    centred = builder.emit("Sub", x, channels.spread(mean))
    product = channels.total(builder.emit("Mul", dy, centred))
    total = channels.total(dy)
    share = builder.emit("Mul", total, channels.vector(1.0 / channels.count))
    builder.finish(builder.emit("Mul", product, deviation), 1)
    builder.finish(builder.emit("wsc.Copy", total), 2)
    square = builder.emit("Mul", deviation, deviation)
    slope = builder.emit(
        "Mul", builder.emit("Mul", product, square), channels.vector(1.0 / channels.count)
    )
    gain = builder.emit("Mul", deviation, builder.wide(node.operands[2]))
    level = builder.emit("Sub", dy, channels.spread(share))
    tilt = builder.emit("Mul", centred, channels.spread(slope))
    builder.finish(builder.emit("Mul", builder.emit("Sub", level, tilt), channels.spread(gain)), 0)
    return builder.nodes


def decompose_frozen_batch_norm_grad(
    node: Node, types: Sequence[TensorType], names: Names, mean: str, variance: str
) -> list[Node]:
    """Write the gradient of batch norm in evaluation: its statistics are constants.

    Args:
        node: A `FusedBatchNormGrad`.
        types: Of its operands.
        names: For new values.
        mean: The running mean that the forward pass has used.
        variance: The running variance.
    """
    builder = _builder(node, types, names)
    channels = _Channels(builder, types[0].shape)
    builder.types.update({mean: types[2], variance: types[2]})
    dy, x = builder.wide(node.operands[0]), builder.wide(node.operands[1])
    shifted = builder.emit("Add", builder.wide(variance), channels.vector(number(node, "epsilon")))
    deviation = builder.emit("Rsqrt", shifted)
    centred = builder.emit("Sub", x, channels.spread(builder.wide(mean)))
    product = channels.total(builder.emit("Mul", dy, centred))
    builder.finish(builder.emit("Mul", product, deviation), 1)
    builder.finish(channels.total(dy), 2)
    gain = builder.emit("Mul", deviation, builder.wide(node.operands[2]))
    builder.finish(builder.emit("Mul", dy, channels.spread(gain)), 0)
    return builder.nodes


def decompose_l2_norm(node: Node, types: Sequence[TensorType], names: Names) -> list[Node]:
    """Write the norm as the root of a sum of squares."""
    builder = _builder(node, types, names)
    x = builder.wide(node.operands[0])
    dims = integers(node, "dims")
    squares = builder.emit("Mul", x, x)
    total = builder.emit(
        "Reduce",
        squares,
        shape=node.types[0].shape,
        dimensions=dims,
        keep_dims=dims if flag(node, "keepdim") else (),
        reduce_kind="ADD",
    )
    builder.finish(builder.emit("Sqrt", total), 0)
    return builder.nodes


def decompose_mean(node: Node, types: Sequence[TensorType], names: Names) -> list[Node]:
    """Write a mean as a sum and a division by the count."""
    builder = _builder(node, types, names)
    shape, dims = types[0].shape, integers(node, "dimensions")
    count = 1
    for dim in dims:
        count *= shape[dim]
    total = builder.emit(
        "Reduce",
        builder.wide(node.operands[0]),
        shape=node.types[0].shape,
        dimensions=dims,
        keep_dims=integers(node, "keep_dims"),
        reduce_kind="ADD",
    )
    divisor = builder.constant(float(count), node.types[0].shape)
    builder.finish(builder.emit("Div", total, divisor), 0)
    return builder.nodes


def decompose_any(node: Node, types: Sequence[TensorType], names: Names) -> list[Node]:
    """Write the sum of truth values, which is true where any of them is, as a count."""
    builder = _builder(node, types, names)
    total = builder.emit(
        "Reduce",
        builder.emit("Cast", node.operands[0], dtype=DType.I32),
        shape=node.types[0].shape,
        dtype=DType.I32,
        dimensions=integers(node, "dimensions"),
        keep_dims=integers(node, "keep_dims"),
        reduce_kind="ADD",
    )
    builder.finish(total, 0)
    return builder.nodes


def decompose_reduce(
    node: Node, types: Sequence[TensorType], names: Names, batch_axis: int
) -> list[Node]:
    """Reduce over all dims but the batch first, so that little has to be gathered for the rest."""
    builder = _builder(node, types, names)
    dtype = types[0].dtype
    shape, dims = types[0].shape, integers(node, "dimensions")
    local = tuple(dim for dim in dims if dim != batch_axis)
    kept_shape = tuple(1 if dim in local else size for dim, size in enumerate(shape))
    kind = text(node, "reduce_kind")
    inner = builder.emit(
        "Reduce",
        node.operands[0],
        shape=kept_shape,
        dtype=dtype,
        dimensions=local,
        keep_dims=local,
        reduce_kind=kind,
    )
    outer_shape = tuple(1 if dim in dims else size for dim, size in enumerate(shape))
    outer = builder.emit(
        "Reduce",
        inner,
        shape=outer_shape,
        dtype=dtype,
        dimensions=(batch_axis,),
        keep_dims=(batch_axis,),
        reduce_kind=kind,
    )
    builder.emit("Reshape", outer, shape=node.types[0].shape, dtype=dtype, name=node.results[0])
    return builder.nodes


def decompose_scatter(node: Node, types: Sequence[TensorType], names: Names) -> list[Node]:
    """Scatter into zeros, so that shares add up, and add the base once."""
    builder = _builder(node, types, names)
    dtype = types[0].dtype
    zeros = names.fresh(f"{node.results[0]}.zeros")
    builder.nodes.append(constant_node(zeros, 0, types[0], node.location))
    builder.types[zeros] = types[0]
    scattered = builder.emit("ScatterNd", zeros, *node.operands[1:], dtype=dtype)
    builder.emit("Add", node.operands[0], scattered, name=node.results[0], dtype=dtype)
    return builder.nodes


def freeze_norms(graph: Graph) -> Graph:
    """Pass: write the gradients of batch norms in evaluation, as in fine-tuning, as simpler nodes.

    Such a gradient needs the running statistics, and the client's operation has no operands for
    them. They are those of the batch norm that normalised the same value in the forward pass.

    Args:
        graph: A graph in normal form.

    Returns:
        The graph; unchanged where there is no such gradient.

    Raises:
        ProgramError: It cannot be told which statistics one belongs to.
    """
    statistics: dict[tuple[str, str, float], set[tuple[str, str]]] = {}
    types, names = graph.types(), Names(graph.types())
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op == "FusedBatchNorm" and not flag(node, "is_training"):
            x, scale, _, mean, variance = node.operands
            key = (x, scale, number(node, "epsilon"))
            statistics.setdefault(key, set()).add((mean, variance))
        if node.op != "FusedBatchNormGrad" or flag(node, "is_training"):
            nodes.append(node)
            continue
        _, x, scale = node.operands
        found = statistics.get((x, scale, number(node, "epsilon")), set())
        if len(found) != 1:
            raise ProgramError(
                f"The batch norm of {node.location} is trained with running statistics, and "
                f"{len(found)} batch norms have normalised its operand: the program does not say "
                "whose they are.",
                hint="Give each of these batch norms a value of its own.",
            )
        ((mean, variance),) = found
        operand_types = [types[name] for name in node.operands]
        nodes += decompose_frozen_batch_norm_grad(node, operand_types, names, mean, variance)
    return replace(graph, nodes=tuple(nodes))
