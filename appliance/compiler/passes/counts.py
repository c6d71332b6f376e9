"""Pass: count what PyTorch counts, where the client's text says something else.

*Labels.* PyTorch leaves out rows whose label is -100, and a mean cross entropy divides by the
number of the others. The client writes a mask for every other `ignore_index`; for the default it
writes the number of all labels as a constant. The division is part of the loss where it carries the
loss's own location: a division that the script wrote by itself, or the mean of single losses,
carries another.

*Sums.* The sum of truth values is their number, and whole numbers are added up and multiplied as
64-bit ones. The client types the result as what is added up, and casts it later.

*Remainders.* The quotient of `fmod` is cut off, towards zero; that of `remainder` and of `//` is
the next lower number. The client writes the same division of whole numbers for all of them.

*Windows.* Adaptive pooling takes the mean of windows that differ in size where the size is no
multiple of the result's. The client writes windows of one size, at equal distances.

*Places.* `x[i]` counts negative indices from the end, `index_select`, `gather` and embeddings do
not. The client writes both as the same operations, and its locations say which it was.

*Choices.* A mask of the k largest scores marks one score too where k is 0: the client's program
replaces the places behind the k-th by the first. RigL then drops nothing of a small group.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from appliance.compiler.passes.rewriting import (
    F32_SCALAR,
    Names,
    constant_node,
    simple_node,
    splat,
    without_dead_nodes,
)
from appliance.core.ir.attributes import flag, integer
from appliance.core.ir.graph import UNKNOWN_LOCATION, Attribute, Graph, Location, Node
from appliance.core.ir.ops import IGNORED_LABEL, VIEW_OPS
from appliance.core.ir.tensors import Constant, DType, TensorType

_LOSS = "SparseSoftmaxCrossEntropyWithLogits"
_OPERATIONS = frozenset({"aten::nll_loss_forward", "aten::nll_loss2d_forward"})
_SIGNED = frozenset({DType.I8, DType.I16, DType.I32, DType.I64})
_NARROW = frozenset({DType.I8, DType.I16, DType.I32, DType.U8, DType.U16, DType.U32})
_CUMULATIVE = frozenset({"CumSum", "CumProd"})
_REMAINDER_WITH_SIGN = "aten::fmod"
_ADAPTIVE = "aten::_adaptive_avg_pool"
_INDEXED = frozenset({"Gather", "GatherNd", "ScatterNd"})
_COUNTING_FROM_THE_END = frozenset({"aten::index", "aten::index_put"})


def count_labels(graph: Graph) -> Graph:
    """Divide every mean cross entropy, and its gradient, by the number of labels that count.

    The mean over no label at all is not a number, and its gradient zero, as in PyTorch.

    Args:
        graph: A graph in normal form.

    Returns:
        The graph; unchanged where no such mean is found.
    """
    return _LabelCounter(graph).run()


def count_sums(graph: Graph) -> Graph:
    """Make the sum of truth values a number, and sums of whole numbers wide, where they are cast.

    Args:
        graph: A graph in normal form.

    Returns:
        The graph; where a sum of truth values is read as one it still says whether any is true.
    """
    types, names = graph.types(), Names(graph.types())
    numbers: dict[str, tuple[str, DType]] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        dtype = _counted_in(node, types)
        if dtype is not None:
            terms = names.fresh(f"{node.results[0]}.terms")
            number = names.fresh(f"{node.results[0]}.number")
            wide = replace(types[node.operands[0]], dtype=dtype)
            nodes.append(simple_node("Cast", node.operands, terms, wide, location=node.location))
            nodes.append(_as_number(node, terms, number, dtype))
            numbers[node.results[0]] = number, dtype
        elif node.op in VIEW_OPS and node.operands[0] in numbers:
            source, dtype = numbers[node.operands[0]]
            if node.op == "Cast":
                nodes.append(replace(node, operands=(source,)))
                continue
            number = names.fresh(f"{node.results[0]}.number")
            nodes.append(_as_number(node, source, number, dtype))
            numbers[node.results[0]] = number, dtype
        nodes.append(node)
    return without_dead_nodes(replace(graph, nodes=tuple(nodes))) if numbers else graph


def _counted_in(node: Node, types: Mapping[str, TensorType]) -> DType | None:
    """Return the type in which a node's sum is counted; None if it is no such sum."""
    kind = node.attributes["reduce_kind"] if node.op == "Reduce" else None
    if kind not in ("ADD", "MUL") and node.op not in _CUMULATIVE:
        return None
    added, result = types[node.operands[0]].dtype, node.types[0].dtype
    if added is result is DType.I1:
        return DType.I32 if kind == "ADD" else None
    return DType.I64 if added is result and added in _NARROW else None


def _as_number(node: Node, operand: str, result: str, dtype: DType) -> Node:
    type_ = replace(node.types[0], dtype=dtype)
    return replace(node, operands=(operand,), results=(result,), types=(type_,))


def count_towards_zero(graph: Graph) -> Graph:
    """Cut off the quotients of `fmod` of whole numbers, which `Div` rounds down.

    The client merges a quotient with that of `//` by the same number, so the product that `fmod`
    subtracts says where it is cut off.

    Args:
        graph: A graph in normal form.

    Returns:
        The graph; a negative quotient is that of the negated dividend, negated.
    """
    producers, names = dict(graph.definitions()), Names(graph.types())
    nodes: list[Node] = []
    for node in graph.nodes:
        is_cut = node.op == "Mul" and node.location.operation == _REMAINDER_WITH_SIGN
        quotient = producers.get(node.operands[0]) if is_cut else None
        if quotient is not None and quotient.op == "Div" and node.types[0].dtype in _SIGNED:
            added = _cut_off(quotient, names)
            operands = (added[-1].results[0], node.operands[1])
            nodes += [*added, replace(node, operands=operands)]
        else:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _cut_off(quotient: Node, names: Names) -> list[Node]:
    """Return nodes of which the last one has a quotient without its fraction."""
    (down,), (type_,), (dividend, divisor) = quotient.results, quotient.types, quotient.operands
    zero, opposite, up, negated, is_negative, result = (
        names.fresh(f"{down}.{part}")
        for part in ("zero", "opposite", "up", "negated", "negative", "cut")
    )

    def add(op: str, operands: tuple[str, ...], name: str, of: TensorType = type_) -> Node:
        less = {"comparison_direction": "LT"} if op == "Compare" else None
        return simple_node(op, operands, name, of, location=quotient.location, attributes=less)

    return [
        constant_node(zero, 0, type_, quotient.location),
        add("Sub", (zero, dividend), opposite),
        replace(quotient, operands=(opposite, divisor), results=(up,)),
        add("Sub", (zero, up), negated),
        add("Compare", (down, zero), is_negative, replace(type_, dtype=DType.I1)),
        add("Select", (is_negative, negated, down), result),
    ]


def count_windows(graph: Graph) -> Graph:
    """Give adaptive means the windows of PyTorch.

    Args:
        graph: A graph in normal form.

    Returns:
        The graph; where windows of one size are what PyTorch takes, the nodes stay as they are.
    """
    types = graph.types()
    nodes = [
        replace(node, attributes={**node.attributes, "adaptive": True})
        if node.op == "Pool" and _has_own_windows(node, types)
        else node
        for node in graph.nodes
    ]
    return replace(graph, nodes=tuple(nodes))


def _has_own_windows(node: Node, types: Mapping[str, TensorType]) -> bool:
    result = types[node.operands[1]] if flag(node, "gradient") else node.types[0]
    sizes = zip(types[node.operands[0]].shape, result.shape, strict=True)
    is_adaptive = node.location.operation.startswith(_ADAPTIVE)
    return is_adaptive and any(size % pooled for size, pooled in sizes)


def count_from_the_end(graph: Graph) -> Graph:
    """Replace the negative indices of `x[i]` by the places that they mean.

    Args:
        graph: A graph in normal form.

    Returns:
        The graph; an index that is too small even then is refused where it is used.
    """
    types, names = graph.types(), Names(graph.types())
    places: dict[tuple[str, tuple[int, ...]], str] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op not in _INDEXED or node.location.operation not in _COUNTING_FROM_THE_END:
            nodes.append(node)
            continue
        table, index = node.operands[:2]
        sizes = _indexed_sizes(node, types[table].shape, types[index].shape)
        if (index, sizes) not in places:
            added = _places(index, types[index], sizes, names)
            nodes += added
            places[index, sizes] = added[-1].results[0]
        operands = (table, places[index, sizes], *node.operands[2:])
        nodes.append(replace(node, operands=operands))
    return replace(graph, nodes=tuple(nodes))


def count_chosen(graph: Graph) -> Graph:
    """Choose nothing where a mask of the k largest scores is asked for none.

    Args:
        graph: A graph in normal form.

    Returns:
        The graph; a mark is set where its place is one of the k, rather than everywhere.
    """
    producers = dict(graph.definitions())
    nodes: list[Node] = []
    for node in graph.nodes:
        is_marking = node.op == "Scatter" and node.attributes["reduce_kind"] == "NONE"
        places = producers.get(node.operands[1]) if is_marking else None
        if places is None or places.op != "Select" or not _marks_truths(node, producers):
            nodes.append(node)
            continue
        operands = (*node.operands[:2], places.operands[0])
        attributes = {**node.attributes, "reduce_kind": "MAX"}
        nodes.append(replace(node, operands=operands, attributes=attributes))
    return replace(graph, nodes=tuple(nodes))


def _marks_truths(node: Node, producers: Mapping[str, Node]) -> bool:
    """Whether a node sets truth values everywhere in a tensor without any."""
    values = [_splat_truth(producers.get(node.operands[index])) for index in (0, 2)]
    return values == [False, True]


def _splat_truth(node: Node | None) -> bool | None:
    value = node.attributes.get("value") if node is not None else None
    if not isinstance(value, Constant) or value.type.dtype is not DType.I1 or not value.is_splat:
        return None
    return any(value.data)


def _indexed_sizes(node: Node, table: tuple[int, ...], index: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sizes of the dims that each index, or each vector of indices, addresses."""
    if node.op == "Gather":
        return (table[integer(node, "axis")],)
    first = integer(node, "start_dim", 0)
    return table[first : first + index[-1]]


def _places(index: str, type_: TensorType, sizes: tuple[int, ...], names: Names) -> list[Node]:
    """Return nodes of which the last one has the places that an index tensor means."""
    zero, ends, all_ends, moved, is_negative, result = (
        names.fresh(f"{index}.{part}")
        for part in ("zero", "end", "ends", "moved", "negative", "place")
    )
    flags = replace(type_, dtype=DType.I1)
    end_type = TensorType((len(sizes),) if len(sizes) > 1 else (), type_.dtype)
    data = np.array(sizes, dtype=type_.dtype.container).tobytes()
    dims = {"broadcast_dimensions": (len(type_.shape) - 1,) if len(sizes) > 1 else ()}
    less = {"comparison_direction": "LT"}

    def add(
        op: str,
        operands: tuple[str, ...],
        name: str,
        of: TensorType,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> Node:
        return simple_node(op, operands, name, of, location=UNKNOWN_LOCATION, attributes=attributes)

    return [
        constant_node(zero, 0, type_, UNKNOWN_LOCATION),
        add("Const", (), ends, end_type, {"value": Constant(end_type, data)}),
        add("BroadcastInDim", (ends,), all_ends, type_, dims),
        add("Add", (index, all_ends), moved, type_),
        add("Compare", (index, zero), is_negative, flags, less),
        add("Select", (is_negative, moved, index), result, type_),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loss:
    """A loss over labels whose reduction is sought.

    Attributes:
        labels: Name of its labels.
        location: Its location, which its reduction shares.
        is_gradient: Whether this is the side of its gradient, which is zero where no label counts.
    """

    labels: str
    type: TensorType
    location: Location
    is_gradient: bool


class _LabelCounter:
    """One walk over a graph: what comes of a loss is followed along its location."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._types = graph.types()
        self._names = Names(self._types)
        self._constants = {
            node.results[0]: value
            for node in graph.nodes
            if isinstance(value := node.attributes.get("value"), Constant)
        }
        self._losses: dict[str, _Loss] = {}
        self._counts: dict[str, str] = {}
        self._nodes: list[Node] = []

    def run(self) -> Graph:
        for node in self._graph.nodes:
            if node.op == _LOSS and node.location.operation in _OPERATIONS:
                self._follow(node)
            loss = self._losses.get(node.operands[0]) if node.operands else None
            if loss is None or node.location != loss.location:
                self._nodes.append(node)
                continue
            self._losses.update(dict.fromkeys(node.results, loss))
            self._nodes.append(self._divided(node, loss) if self._is_mean(node, loss) else node)
        return replace(self._graph, nodes=tuple(self._nodes))

    def _follow(self, node: Node) -> None:
        labels = node.operands[1]
        if self._types[labels].dtype not in _SIGNED:
            return
        for name, is_gradient in zip(node.results, (False, True), strict=True):
            self._losses[name] = _Loss(
                labels=labels,
                type=self._types[labels],
                location=node.location,
                is_gradient=is_gradient,
            )

    def _is_mean(self, node: Node, loss: _Loss) -> bool:
        divisor = self._constants.get(node.operands[1]) if node.op == "Div" else None
        if divisor is None:
            return False
        everything = splat(loss.type.num_elements, divisor.type)
        return bool(np.all(divisor.to_numpy() == everything.to_numpy()))

    def _divided(self, node: Node, loss: _Loss) -> Node:
        """Return the division with the number of labels that count in place of all."""
        divisor = self._count(loss)
        if loss.is_gradient:
            divisor = self._at_least_one(divisor, loss)
        type_ = node.types[0]
        scalar = TensorType((), type_.dtype)
        if scalar != F32_SCALAR:
            divisor = self._add("Cast", (divisor,), scalar)
        if type_.shape:
            dims = {"broadcast_dimensions": ()}
            divisor = self._add("BroadcastInDim", (divisor,), type_, dims)
        return replace(node, operands=(node.operands[0], divisor))

    def _count(self, loss: _Loss) -> str:
        """Return the number of labels that count, made once for each tensor of labels."""
        found = self._counts.get(loss.labels)
        if found is None:
            ignored = self._constant(IGNORED_LABEL, loss.type)
            flags = replace(loss.type, dtype=DType.I1)
            ones = replace(loss.type, dtype=DType.F32)
            everywhere = tuple(range(len(loss.type.shape)))
            total: dict[str, Attribute] = {
                "reduce_kind": "ADD",
                "dimensions": everywhere,
                "keep_dims": (),
            }
            different = {"comparison_direction": "NE"}
            found = self._add("Compare", (loss.labels, ignored), flags, different)
            found = self._add("Cast", (found,), ones)
            found = self._add("Reduce", (found,), F32_SCALAR, total)
            self._counts[loss.labels] = found
        return found

    def _at_least_one(self, count: str, loss: _Loss) -> str:
        bounds = (1, loss.type.num_elements)
        low, high = (self._constant(bound, F32_SCALAR) for bound in bounds)
        return self._add("Clamp", (count, low, high), F32_SCALAR)

    def _constant(self, value: int, type_: TensorType) -> str:
        name = self._names.fresh("labels.constant")
        self._nodes.append(constant_node(name, value, type_, UNKNOWN_LOCATION))
        return name

    def _add(
        self,
        op: str,
        operands: tuple[str, ...],
        type_: TensorType,
        attributes: Mapping[str, Attribute] | None = None,
    ) -> str:
        name = self._names.fresh(f"labels.{op.lower()}")
        node = simple_node(
            op, operands, name, type_, location=UNKNOWN_LOCATION, attributes=attributes
        )
        self._nodes.append(node)
        return name
