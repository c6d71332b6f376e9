"""Pass: decide which part of the program each system can do for its own share of the batch.

The batch tensors come in sharded along axis 0, and that propagates through the graph by the tables
of `core.ir.dim_maps`. A value is either replicated (the same everywhere), sharded along an axis, or
partial (to be added up over the systems). A partial value crosses SwarmX where it is produced: a
`wsc.Sum` makes it replicated. So every program can be distributed: whatever has no rule gets its
operands gathered (`wsc.ShardPad`, then `wsc.Sum`) and is computed replicated.

A replicated value that sharded computation needs is made sharded as early as that is possible: its
producers are repeated in narrower form back to constants, random numbers and broadcasts; where that
ends, `wsc.ShardSlice` cuts out the share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from appliance.compiler.passes import decompositions
from appliance.compiler.passes.rewriting import Names, simple_node, without_dead_nodes
from appliance.compiler.passes.shardings import Sharding, fits, through_reshape
from appliance.core.errors import ProgramError
from appliance.core.ir.attributes import flag, integer, integers, text
from appliance.core.ir.dim_maps import DimMap, find_dim_map
from appliance.core.ir.graph import UNKNOWN_LOCATION, Graph, Node
from appliance.core.ir.ops import RANDOM_OPS
from appliance.core.ir.shapes import channel_dim
from appliance.core.ir.tensors import Constant, DType, TensorType

_MAX_DERIVATION = 200
"""Length of a chain of replicated nodes that is repeated in sharded form; longer ones are cut."""

_ALONG_AXIS = frozenset({"Concat", "Split", "StridedSlice", "StridedSliceGrad"})
"""Ops that can join or cut repetitions of the batch."""

_GATHERED_REDUCTIONS = frozenset({"MAX", "MIN", "MUL", "AND", "OR"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedGraph:
    """A graph with `wsc.*` nodes at every crossing.

    Attributes:
        graph: The computation; read as it stands it still means the whole batch.
        shardings: The values of which each system has a part.
        partials: The values that are to be added up, all of them operands of `wsc.Sum`.
    """

    graph: Graph
    shardings: Mapping[str, Sharding]
    partials: frozenset[str]


def shard_batch(graph: Graph, batch_size: int) -> ShardedGraph:
    """Propagate the batch through a graph.

    Args:
        graph: A graph in normal form.
        batch_size: Global batch; the size of axis 0 of every batch tensor is a multiple.

    Returns:
        The graph with its shardings; all its results are replicated.

    Raises:
        ProgramError: A batch tensor has no batch axis of that size.
    """
    return _Sharder(graph, batch_size).run()


class _Sharder:
    """One walk over a graph that emits the sharded one."""

    def __init__(self, graph: Graph, batch_size: int) -> None:
        self._graph = graph
        self._batch_size = batch_size
        self._types = graph.types()
        self._names = Names(self._types)
        self._shardings: dict[str, Sharding] = {}
        self._partials: set[str] = set()
        self._nodes: list[Node] = []
        self._producers: dict[str, Node] = {}
        self._gathered: dict[str, str] = {}
        self._narrowed: dict[tuple[str, Sharding], str] = {}
        self._statistics = decompositions.BatchStatistics()
        self._read = {name for node in graph.nodes for name in node.operands}
        self._read.update(result.value for result in graph.results)

    def run(self) -> ShardedGraph:
        for argument in self._graph.arguments:
            if argument.input_name is not None:
                self._shard_input(argument.name, argument.type, argument.input_name)
        for node in self._graph.nodes:
            self._process(node)
        results = tuple(
            replace(result, value=self._replicated(result.value)) for result in self._graph.results
        )
        graph = without_dead_nodes(replace(self._graph, nodes=tuple(self._nodes), results=results))
        return ShardedGraph(
            graph=graph, shardings=self._shardings, partials=frozenset(self._partials)
        )

    def _shard_input(self, name: str, type_: TensorType, input_name: str) -> None:
        size = type_.shape[0] if type_.shape else 0
        if size == 0 or size % self._batch_size:
            raise ProgramError(
                f"Batch tensor {input_name!r} is {type_}: its first dimension is no multiple of "
                f"the batch size {self._batch_size}.",
                hint="Every tensor of a batch needs the batch dimension first.",
            )
        self._shardings[name] = Sharding(axis=0)

    def _operand_types(self, node: Node) -> list[TensorType]:
        return [self._types[name] for name in node.operands]

    def _emit(self, node: Node) -> None:
        self._nodes.append(node)
        for name, type_ in zip(node.results, node.types, strict=True):
            self._types[name] = type_
            self._producers[name] = node

    def _process(self, node: Node) -> None:
        sharded = [name for name in node.operands if name in self._shardings]
        if not sharded:
            self._emit(node)
            return
        simpler = self._decompose(node)
        if simpler is not None:
            self._read.update(name for part in simpler for name in part.operands)
            for part in simpler:
                for name, type_ in zip(part.results, part.types, strict=True):
                    self._types[name] = type_
                self._process(part)
            return
        if node.op == "Reshape" and self._process_reshape(node):
            return
        if node.op in _ALONG_AXIS and self._process_along_axis(node):
            return
        if self._process_by_rule(node):
            return
        self._emit(replace(node, operands=tuple(map(self._replicated, node.operands))))

    def _decompose(self, node: Node) -> list[Node] | None:
        """Return simpler nodes for one that mixes the samples of the batch."""
        types, names = self._operand_types(node), self._names
        first = self._shardings.get(node.operands[0])
        match node.op:
            case "FusedBatchNorm" if first and self._mixes_batch(node, first):
                return decompositions.decompose_batch_norm(node, types, names, self._statistics)
            case "FusedBatchNormGrad" if self._mixes_batch(
                node, first or self._shardings.get(node.operands[1])
            ):
                return decompositions.decompose_batch_norm_grad(
                    node, types, names, self._statistics
                )
            case "L2Norm" if first and first.axis in integers(node, "dims"):
                return decompositions.decompose_l2_norm(node, types, names)
            case "Reduce" if first and first.axis in integers(node, "dimensions"):
                return self._decompose_reduce(node, first)
            case "ScatterNd" if not self._is_zero(node.operands[0]):
                return decompositions.decompose_scatter(node, types, names)
            case _:
                return None

    def _decompose_reduce(self, node: Node, sharding: Sharding) -> list[Node] | None:
        kind, types = text(node, "reduce_kind"), self._operand_types(node)
        if kind == "MEAN":
            return decompositions.decompose_mean(node, types, self._names)
        if kind == "ADD" and types[0].dtype is DType.I1:
            return decompositions.decompose_any(node, types, self._names)
        if kind in _GATHERED_REDUCTIONS and len(integers(node, "dimensions")) > 1:
            return decompositions.decompose_reduce(node, types, self._names, sharding.axis)
        return None

    def _mixes_batch(self, node: Node, sharding: Sharding | None) -> bool:
        rank = len(self._types[node.operands[0]].shape)
        return (
            sharding is not None
            and flag(node, "is_training")
            and sharding.axis != channel_dim(node, rank)
        )

    def _is_zero(self, name: str) -> bool:
        node = self._producers.get(name)
        value = node.attributes.get("value") if node is not None else None
        return isinstance(value, Constant) and value.is_splat and not any(value.data)

    def _process_reshape(self, node: Node) -> bool:
        source, target = self._types[node.operands[0]].shape, node.types[0].shape
        before = self._shardings[node.operands[0]]
        after = through_reshape(source, target, before, self._batch_size)
        if after is None:
            return False
        self._shardings[node.results[0]] = after
        self._emit(node)
        return True

    def _process_along_axis(self, node: Node) -> bool:
        """Join or cut whole batches along the batch axis; the repetitions of the batch follow."""
        shardings = {self._shardings.get(name) for name in node.operands}
        sharding = shardings.pop()
        if shardings or sharding is None:
            return False
        block = self._types[node.operands[0]].shape[sharding.axis] // sharding.outer
        if not self._cuts_blocks(node, sharding.axis, block):
            return False
        for name, type_ in zip(node.results, node.types, strict=True):
            outer = type_.shape[sharding.axis] // block
            self._shardings[name] = Sharding(axis=sharding.axis, outer=outer)
        self._emit(node)
        return True

    def _cuts_blocks(self, node: Node, axis: int, block: int) -> bool:
        """Whether a node joins or cuts along an axis, and only at whole batches."""
        if node.op in ("Concat", "Split"):
            parts = node.operands if node.op == "Concat" else node.results
            return integer(node, "axis") == axis and all(
                self._types[name].shape[axis] % block == 0 for name in parts
            )
        bounds = (integers(node, "begin")[axis], integers(node, "end")[axis])
        sizes = node.types[0].shape[axis], self._types[node.operands[0]].shape[axis]
        whole = sizes[0] == sizes[1]
        aligned = all(bound % block == 0 for bound in (*bounds, sizes[0]))
        return not whole and aligned and integers(node, "stride")[axis] == 1 and sizes[0] > 0

    def _process_by_rule(self, node: Node) -> bool:
        dim_map = find_dim_map(node, self._operand_types(node))
        if dim_map is None:
            return False
        choice = self._choose(node, dim_map)
        if choice is None:
            return False
        label, outer = choice
        operands = tuple(
            self._as_needed(name, labels, label, outer)
            for name, labels in zip(node.operands, dim_map.operands, strict=True)
        )
        node = replace(node, operands=operands)
        if all(label in labels for labels in self._live_results(node, dim_map)):
            for name, labels in zip(node.results, dim_map.results, strict=True):
                if label in labels:
                    self._shardings[name] = Sharding(axis=labels.index(label), outer=outer)
            self._emit(node)
        else:
            self._emit_partial(node, dim_map, label, outer)
        return True

    def _live_results(self, node: Node, dim_map: DimMap) -> list[tuple[int | None, ...]]:
        return [
            labels
            for name, labels in zip(node.results, dim_map.results, strict=True)
            if name in self._read
        ]

    def _choose(self, node: Node, dim_map: DimMap) -> tuple[int, int] | None:
        """Choose the label to shard along; large operands have the first word."""
        candidates: list[tuple[int, int, int]] = []
        for name, labels in zip(node.operands, dim_map.operands, strict=True):
            sharding = self._shardings.get(name)
            label = labels[sharding.axis] if sharding else None
            if sharding is not None and label is not None:
                size = self._types[name].num_elements
                candidates.append((-size, label, sharding.outer))
        for _, label, outer in sorted(candidates):
            if self._is_possible(node, dim_map, label):
                return label, outer
        return None

    def _is_possible(self, node: Node, dim_map: DimMap, label: int) -> bool:
        if label in dim_map.sums:
            return True
        return all(label in labels for labels in self._live_results(node, dim_map))

    def _as_needed(self, name: str, labels: tuple[int | None, ...], label: int, outer: int) -> str:
        if label not in labels:
            return self._replicated(name)
        return self._sharded(name, Sharding(axis=labels.index(label), outer=outer))

    def _emit_partial(self, node: Node, dim_map: DimMap, label: int, outer: int) -> None:
        """Emit a node some of whose results are partial, and the sums that complete them.

        A partial result of a 16-bit format is kept in float32 until it is complete, so that it is
        rounded once however many systems there are.
        """
        results, types = list(node.results), list(node.types)
        sums: list[Node] = []
        for index, labels in enumerate(dim_map.results):
            name, type_ = node.results[index], node.types[index]
            if label in labels:
                self._shardings[name] = Sharding(axis=labels.index(label), outer=outer)
                continue
            results[index] = self._names.fresh(f"{name}.partial")
            if type_.dtype.is_half:
                types[index] = TensorType(type_.shape, DType.F32)
            self._partials.add(results[index])
            sums += self._sum(results[index], types[index], name, type_, node)
        self._emit(replace(node, results=tuple(results), types=tuple(types)))
        for part in sums:
            self._emit(part)

    def _sum(
        self, partial: str, wide: TensorType, name: str, type_: TensorType, node: Node
    ) -> list[Node]:
        if wide == type_:
            return [simple_node("wsc.Sum", (partial,), name, type_, location=node.location)]
        total = self._names.fresh(f"{name}.sum")
        return [
            simple_node("wsc.Sum", (partial,), total, wide, location=node.location),
            simple_node("Cast", (total,), name, type_, location=node.location),
        ]

    def _replicated(self, name: str) -> str:
        """Return the whole of a value: itself, or gathered from all systems."""
        sharding = self._shardings.get(name)
        if sharding is None:
            return name
        found = self._gathered.get(name)
        if found is None:
            found = self._gathered[name] = self._gather(name, sharding)
        return found

    def _gather(self, name: str, sharding: Sharding) -> str:
        type_ = self._types[name]
        producer = self._producers.get(name)
        location = producer.location if producer else UNKNOWN_LOCATION
        whole = self._names.fresh(f"{name}.whole")
        source, padded_type = name, type_
        if type_.dtype is DType.I1:
            padded_type = TensorType(type_.shape, DType.I8)
            source = self._names.fresh(f"{name}.i8")
            self._shardings[source] = sharding
            self._emit(simple_node("Cast", (name,), source, padded_type, location=location))
        partial = self._names.fresh(f"{name}.padded")
        self._partials.add(partial)
        self._emit(
            simple_node(
                "wsc.ShardPad",
                (source,),
                partial,
                padded_type,
                location=location,
                attributes={"axis": sharding.axis, "outer": sharding.outer},
            )
        )
        total = whole if padded_type == type_ else self._names.fresh(f"{name}.sum")
        self._emit(simple_node("wsc.Sum", (partial,), total, padded_type, location=location))
        if total != whole:
            self._emit(simple_node("Cast", (total,), whole, type_, location=location))
        return whole

    def _sharded(self, name: str, wanted: Sharding) -> str:
        """Return a value sharded as wanted."""
        found = self._shardings.get(name)
        if found == wanted:
            return name
        return self._narrow(self._replicated(name), wanted, depth=0)

    def _narrow(self, name: str, wanted: Sharding, *, depth: int) -> str:
        """Return the sharded form of a replicated value."""
        key = (name, wanted)
        found = self._narrowed.get(key)
        if found is None:
            found = self._derive(name, wanted, depth) or self._slice(name, wanted)
            self._narrowed[key] = found
        return found

    def _slice(self, name: str, wanted: Sharding) -> str:
        producer = self._producers.get(name)
        share = self._names.fresh(f"{name}.share")
        self._shardings[share] = wanted
        self._emit(
            simple_node(
                "wsc.ShardSlice",
                (name,),
                share,
                self._types[name],
                location=producer.location if producer else UNKNOWN_LOCATION,
                attributes={"axis": wanted.axis, "outer": wanted.outer},
            )
        )
        return share

    def _derive(self, name: str, wanted: Sharding, depth: int) -> str | None:
        """Repeat a value's producer in narrower form, if its rule allows that."""
        node = self._producers.get(name)
        if node is None or depth > _MAX_DERIVATION or node.op == "wsc.Sum":
            return None
        needs = self._needs(node, name, wanted)
        if needs is None:
            return None
        operands = tuple(
            operand if need is None else self._narrow(operand, need, depth=depth + 1)
            for operand, need in zip(node.operands, needs, strict=True)
        )
        results = tuple(self._names.fresh(f"{result}.share") for result in node.results)
        for original, result in zip(node.results, results, strict=True):
            sharding = self._result_sharding(node, name, original, wanted)
            self._shardings[result] = sharding
            self._narrowed[original, sharding] = result
        self._emit(replace(node, operands=operands, results=results))
        return results[node.results.index(name)]

    def _needs(self, node: Node, name: str, wanted: Sharding) -> Sequence[Sharding | None] | None:
        """Return how the operands must be sharded for a result to come out as wanted."""
        if node.op == "Reshape":
            source = self._types[node.operands[0]].shape
            before = through_reshape(node.types[0].shape, source, wanted, self._batch_size)
            return None if before is None else [before]
        if wanted.outer != 1 and (node.op in RANDOM_OPS or not self._is_uniform(node)):
            return None
        types = self._operand_types(node)
        dim_map = find_dim_map(node, types)
        if dim_map is None:
            return None
        label = dim_map.results[node.results.index(name)][wanted.axis]
        if label is None or any(label not in labels for labels in dim_map.results):
            return None
        needs: list[Sharding | None] = []
        for type_, labels in zip(types, dim_map.operands, strict=True):
            need = None
            if label in labels:
                need = Sharding(axis=labels.index(label), outer=wanted.outer)
                if not fits(type_.shape, need, self._batch_size):
                    return None
            needs.append(need)
        return needs

    def _is_uniform(self, node: Node) -> bool:
        """Whether localising a node needs no knowledge of where the batch lies in a merged dim."""
        value = node.attributes.get("value")
        return node.op != "Const" or (isinstance(value, Constant) and value.is_splat)

    def _result_sharding(self, node: Node, name: str, result: str, wanted: Sharding) -> Sharding:
        if result == name:
            return wanted
        dim_map = find_dim_map(node, self._operand_types(node))
        if dim_map is None:
            return wanted
        label = dim_map.results[node.results.index(name)][wanted.axis]
        axis = dim_map.results[node.results.index(result)].index(label)
        return Sharding(axis=axis, outer=wanted.outer)
