"""Pass: cut the wafer's part of a sharded graph into layer steps.

A layer step is what a CS-2 does between taking one layer's weights and dropping them. Nodes find
their step by the module they belong to: the program is walked in order, and a node goes to the
first step of its layer that is late enough for all its inputs. The order of the text is no order of
execution (a late layer's weight gradient may come after an early layer's), which this undoes.

What MemoryX streams in is loaded anew by every step that uses it; casts, reshapes, transposes and
broadcasts of it are repeated there, so that no step keeps a weight alive for another.

Sums over the batch tensors alone that a later step waits for, such as the number of labels that
count, are a step of their own before all others: they arrive while the first layers are computed,
and a batch in micro-batches keeps nothing but its labels for them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from appliance.compiler.passes.batch_sharding import ShardedGraph
from appliance.compiler.passes.layers import LayerKey, layer_of_module, layer_of_resource
from appliance.compiler.passes.rewriting import Names, constant_values
from appliance.compiler.passes.shardings import Sharding
from appliance.core.ir.graph import Graph, Node, needed_nodes
from appliance.core.ir.ops import RANDOM_OPS
from appliance.core.ir.tensors import TensorType
from appliance.core.plans.plan import STEP_START, LayerStep, Sum

_CHEAP = frozenset(
    {"Cast", "Reshape", "Transpose", "BroadcastInDim", "StridedSlice", "Split", "wsc.Copy"}
)
"""Ops that are repeated on the wafer for every use of a loaded value, instead of streamed."""

_SHARED_VIEWS = _CHEAP | {"wsc.ShardSlice"}
"""Ops whose sharded result, made from loaded values alone, shares their memory or is as cheap."""


_COUNTS = "counts"
"""Name of the step that counts batch tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The wafer's part, and when the rest becomes computable.

    Attributes:
        constants: Wafer nodes that depend on constants only.
        steps: The layer steps, in stream order.
        update_nodes: Every other node that is replicated, in order; none of them is cheap to drop.
        available: For each replicated value, the layer step after which it exists.
        loaded: For each value that is streamed, the last layer step that loads it.
        types: Type of every value that the wafer defines.
        shardings: How each value of the wafer that is sharded is so.
    """

    constants: tuple[Node, ...]
    steps: tuple[LayerStep, ...]
    update_nodes: tuple[Node, ...]
    available: Mapping[str, int]
    loaded: Mapping[str, int]
    types: Mapping[str, TensorType]
    shardings: Mapping[str, Sharding]


def partition(sharded: ShardedGraph) -> Partition:
    """Cut a sharded graph into layer steps and the rest.

    Args:
        sharded: The graph with its crossings.

    Returns:
        The partition; no step is empty.
    """
    return _Partitioner(sharded).run()


@dataclass(slots=True)
class _Step:
    """A layer step in the making."""

    key: LayerKey
    loads: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    local: dict[str, str] = field(default_factory=dict)
    """Names, in this step, of replicated values that it has rebuilt."""


class _Partitioner:
    """One walk over a sharded graph."""

    def __init__(self, sharded: ShardedGraph) -> None:
        graph = sharded.graph
        self._graph: Graph = graph
        self._shardings = dict(sharded.shardings)
        self._partials = sharded.partials
        self._types = dict(graph.types())
        self._names = Names(self._types)
        self._constant = constant_values(graph.nodes)
        self._producers = dict(graph.definitions())
        self._resources = {a.name: a.resource_name for a in graph.arguments if a.resource_name}
        self._available: dict[str, int] = dict.fromkeys(self._resources, STEP_START)
        self._step_of: dict[str, int] = {}
        self._loaded: dict[str, int] = {}
        self._constants: list[Node] = []
        self._constant_names: dict[str, str] = {}
        self._deferred: dict[str, Node] = {}
        self._steps: list[_Step] = []
        self._earliest = 0
        self._by_key: dict[LayerKey, list[int]] = {}
        self._roots: dict[str, tuple[str, ...]] = {}
        self._views = self._find_views()
        self._owners = self._find_owners()

    def run(self) -> Partition:
        update_nodes: list[Node] = []
        for argument in self._graph.arguments:
            if argument.input_name is not None:
                self._step_of[argument.name] = 0
        counting = self._place_counts()
        for node in self._graph.nodes:
            if node.results[0] in counting:
                continue
            if node.op == "wsc.Sum":
                self._place_sum(node)
            elif self._is_wafer(node):
                self._place(node)
            else:
                update_nodes.append(node)
                after = [self._available[name] for name in node.operands]
                available = max(after, default=STEP_START)
                self._available.update(dict.fromkeys(node.results, available))
        self._merge_idle_steps()
        return Partition(
            constants=tuple(self._constants),
            steps=self._finished_steps(),
            update_nodes=tuple(update_nodes),
            available=self._available,
            loaded=self._loaded,
            types=self._types,
            shardings=self._shardings,
        )

    def _place_counts(self) -> frozenset[str]:
        """Put what counts batch tensors into a step of its own; return the values it defines."""
        sums = self._awaited_counts()
        if not sums:
            return frozenset()
        self._new_step(LayerKey(layer=_COUNTS, direction=None))
        self._earliest = 1
        placed: set[str] = set()
        for node in needed_nodes(self._graph.nodes, [node.operands[0] for node in sums]):
            if self._constant.issuperset(node.results):
                continue
            self._append(node, 0)
            placed.update(node.results)
        for node in sums:
            self._place_sum(node)
            placed.update(node.results)
        return frozenset(placed)

    def _awaited_counts(self) -> list[Node]:
        """Return the sums that come of batch tensors alone and that the wafer waits for."""
        counts = set(self._constant)
        counts.update(a.name for a in self._graph.arguments if a.input_name is not None)
        reached: dict[str, frozenset[str]] = {}
        found: dict[str, Node] = {}
        awaited: set[str] = set()
        for node in self._graph.nodes:
            sources = frozenset[str]().union(*(reached.get(n, frozenset()) for n in node.operands))
            if node.op == "wsc.Sum":
                if node.operands[0] in counts:
                    found[node.results[0]] = node
                    sources |= {node.results[0]}
            elif self._is_wafer(node):
                awaited |= sources
                if node.op not in RANDOM_OPS and counts.issuperset(node.operands):
                    counts.update(node.results)
                continue
            reached.update(dict.fromkeys(node.results, sources))
        return [node for name, node in found.items() if name in awaited]

    def _is_wafer(self, node: Node) -> bool:
        names = (*node.operands, *node.results)
        return any(name in self._shardings or name in self._partials for name in names)

    def _find_views(self) -> frozenset[str]:
        """Return the sharded values that are but views of what is loaded."""
        found: set[str] = set()
        for node in self._graph.nodes:
            if node.op in _SHARED_VIEWS and not self._shardings.keys().isdisjoint(node.results):
                source = node.operands[0]
                is_loaded = source not in self._shardings and source not in self._constant
                if is_loaded or source in found:
                    found.update(node.results)
        return frozenset(found)

    def _is_rebuilt(self, name: str) -> bool:
        """Whether a value that is not resident is rebuilt from others, rather than loaded."""
        producer = self._producers.get(name)
        return name in self._views or (producer is not None and producer.op in _CHEAP)

    def _load_roots(self, name: str) -> tuple[str, ...]:
        """Return what must be streamed so that the wafer can rebuild a replicated value."""
        found = self._roots.get(name)
        if found is not None:
            return found
        if name in self._constant:
            found = ()
        elif self._is_rebuilt(name):
            found = self._load_roots(self._producers[name].operands[0])
        else:
            found = (name,)
        self._roots[name] = found
        return found

    def _roots_of(self, node: Node) -> list[str]:
        absent = [
            name for name in node.operands if name not in self._shardings or name in self._views
        ]
        return list(dict.fromkeys(root for name in absent for root in self._load_roots(name)))

    def _is_view(self, node: Node) -> bool:
        return not self._views.isdisjoint(node.results)

    def _find_owners(self) -> frozenset[str]:
        """Return the layers that have weights: those whose nodes load more than a scalar."""
        owners: set[str] = set()
        for node in self._graph.nodes:
            if node.op != "wsc.Sum" and self._is_wafer(node) and not self._is_view(node):
                weights = [root for root in self._roots_of(node) if self._types[root].shape]
                if weights:
                    owners.add(self._key(node, weights).layer)
        return frozenset(owners)

    def _key(self, node: Node, roots: list[str]) -> LayerKey:
        """Return the layer a node belongs to, by its location or else by the weights it loads."""
        location = node.location
        layer = layer_of_module(location.module)
        if not layer:
            resources = [self._resources[root] for root in roots if root in self._resources]
            layer = layer_of_resource(resources[0]) if resources else ""
        return LayerKey(layer=layer, direction=location.direction)

    def _place(self, node: Node) -> None:
        if self._is_view(node):
            return
        if self._constant.issuperset(node.operands) and self._constant.issuperset(node.results):
            self._constants.append(self._with_constants(node))
            return
        roots = self._roots_of(node)
        inputs = [self._step_of[name] for name in node.operands if name in self._step_of]
        if not inputs and not roots and self._partials.isdisjoint(node.results):
            self._deferred.update(dict.fromkeys(node.results, node))
            return
        earliest = max([self._earliest, *inputs, *(self._available[root] + 1 for root in roots)])
        self._append(node, self._find_step(node, roots, earliest))

    def _find_step(self, node: Node, roots: list[str], earliest: int) -> int:
        key = self._key(node, roots)
        if key.layer in self._owners:
            for index in self._by_key.get(key, ()):
                if index >= earliest:
                    return index
            weights = [root for root in roots if self._types[root].shape]
            sends = any(name in self._partials and self._types[name].shape for name in node.results)
            if weights or sends:
                return self._new_step(key)
        if earliest < len(self._steps):
            return earliest
        return self._new_step(key)

    def _new_step(self, key: LayerKey) -> int:
        self._steps.append(_Step(key))
        index = len(self._steps) - 1
        self._by_key.setdefault(key, []).append(index)
        return index

    def _append(self, node: Node, index: int) -> None:
        step = self._steps[index]
        for name in node.operands:
            if name in self._deferred:
                self._settle(name, index)
        operands = tuple(self._local_name(name, step, index) for name in node.operands)
        step.nodes.append(replace(node, operands=operands))
        self._step_of.update(dict.fromkeys(node.results, index))

    def _settle(self, name: str, index: int) -> None:
        """Put a node without inputs, such as a random one, where it is first needed."""
        node = self._deferred[name]
        for result in node.results:
            del self._deferred[result]
        self._append(node, index)

    def _local_name(self, name: str, step: _Step, index: int) -> str:
        """Return the name under which a step reads a value; load or rebuild it if it must."""
        if name in self._step_of:
            return name
        if name in self._constant:
            return self._wafer_constant(name)
        found = step.local.get(name)
        if found is not None:
            return found
        if not self._is_rebuilt(name):
            step.loads.append(name)
            self._loaded[name] = max(index, self._loaded.get(name, index))
            step.local[name] = name
            return name
        producer = self._producers[name]
        operands = tuple(self._local_name(operand, step, index) for operand in producer.operands)
        results = tuple(self._fresh(result, f"{result}@{index}") for result in producer.results)
        step.nodes.append(replace(producer, operands=operands, results=results))
        step.local.update(zip(producer.results, results, strict=True))
        return step.local[name]

    def _fresh(self, name: str, wanted: str) -> str:
        fresh = self._names.fresh(wanted)
        self._types[fresh] = self._types[name]
        if name in self._shardings:
            self._shardings[fresh] = self._shardings[name]
        return fresh

    def _with_constants(self, node: Node) -> Node:
        return replace(node, operands=tuple(map(self._wafer_constant, node.operands)))

    def _wafer_constant(self, name: str) -> str:
        """Return the wafer's name of a constant; a replicated one is computed there too."""
        if name in self._shardings:
            return name
        found = self._constant_names.get(name)
        if found is not None:
            return found
        node = self._with_constants(self._producers[name])
        results = tuple(self._fresh(result, f"{result}@wafer") for result in node.results)
        self._constants.append(replace(node, results=results))
        self._constant_names.update(zip(node.results, results, strict=True))
        return self._constant_names[name]

    def _place_sum(self, node: Node) -> None:
        partial, total = node.operands[0], node.results[0]
        index = self._step_of[partial]
        self._steps[index].sums.append(Sum(partial=partial, total=total))
        self._available[total] = index

    def _merge_idle_steps(self) -> None:
        """Let a step that neither loads weights nor sends anything join the next one."""
        kept: list[_Step] = []
        new_index: list[int] = []
        idle: list[_Step] = []
        for step in self._steps:
            new_index.append(len(kept))
            has_weights = any(self._types[name].shape for name in step.loads)
            if not has_weights and not step.sums and step is not self._steps[-1]:
                idle.append(step)
                continue
            for other in idle:
                step.loads = list(dict.fromkeys([*other.loads, *step.loads]))
            step.nodes = [node for other in [*idle, step] for node in other.nodes]
            idle.clear()
            kept.append(step)
        self._steps = kept
        for table in (self._available, self._loaded):
            for name, index in table.items():
                table[name] = new_index[index] if index > STEP_START else index

    def _finished_steps(self) -> tuple[LayerStep, ...]:
        return tuple(
            LayerStep(
                name=step.key.title(),
                module=step.key.layer,
                direction=step.key.direction,
                loads=tuple(step.loads),
                nodes=tuple(step.nodes),
                sums=tuple(step.sums),
            )
            for step in self._steps
        )
