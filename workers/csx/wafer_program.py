"""The part of a plan's wafer part that one system needs: pure values, small whatever the depth.

The nodes of a layer step are held once for all layers that are copies of one another; the others
are names only. Making this needs the plan, running it does not (`workers.csx.executor`).
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from appliance.core.ir.graph import Node
from appliance.core.ir.sharding import BatchShard, localise
from appliance.core.plans.plan import LayerStep, Plan
from appliance.numerics.programs.program import compute_once
from appliance.numerics.programs.shared_programs import ProgramSource, ProgramTable
from appliance.streams.torch_views import Tensors
from workers.csx.sparse_forms import NO_FORMS, SparseForms

Renaming = tuple[tuple[str, str], ...]
"""Pairs of names: of a value in the plan, and in the part that several layer steps share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerStepProgram:
    """One layer step.

    Attributes:
        name: Of the layer step.
        part: Index of its nodes in `WaferProgram.parts`.
        loads: What it reads of its loads, those apart that come as non-zeros.
        sparse_loads: What it reads of those; see `weight_products.parts_of`.
        reads: What it reads of the table of activations and others read later.
        takes: What it is the last one to read.
        results: What it leaves in the table.
        sums: Total of each partial sum, and the partial in the part; every partial once.
        repeated_sums: Further sums of a partial that is in `sums`: total there, total here.
    """

    name: str
    part: int
    loads: Renaming
    sparse_loads: Renaming
    reads: Renaming
    takes: Renaming
    results: Renaming
    sums: Renaming
    repeated_sums: Renaming


@dataclass(frozen=True, slots=True, kw_only=True)
class WaferProgram:
    """The wafer part of a plan for one share of the batch.

    Attributes:
        constants: Values that are the same in every step, by name.
        parts: Nodes of layer steps, each differing from the others in more than names.
        layers: The layer steps, in order.
    """

    constants: "Constants"
    parts: tuple[ProgramSource, ...]
    layers: tuple[LayerStepProgram, ...]


class Constants:
    """Values that are the same in every step; computed when they are asked for.

    They are computed without machine code: what a compiler makes for good while a plan is in memory
    would keep the plan's memory, too.

    Args:
        nodes: What computes them.
        names: Which of the results are read later.
    """

    def __init__(self, nodes: tuple[Node, ...], names: Collection[str]) -> None:
        self._nodes, self._names = nodes, names
        self._tensors: Tensors | None = None

    def compute(self) -> Tensors:
        """Return them, by name."""
        table = compute_once(self._nodes)
        return {name: table[name] for name in self._names}

    def tensors(self) -> Tensors:
        """Return them, by name; computed the first time and kept."""
        if self._tensors is None:
            self._tensors = self.compute()
        return self._tensors


def wafer_part(plan: Plan, shard: BatchShard, forms: SparseForms = NO_FORMS) -> WaferProgram:
    """Return the part that a system needs.

    Args:
        plan: A verified plan.
        shard: The system's share of the batch.
        forms: Which loads come, and which sums go, as non-zeros.
    """
    builder = _Builder(plan, shard, forms)
    layers = [builder.layer_part(index, step) for index, step in enumerate(plan.layer_steps)]
    return WaferProgram(constants=builder.constants, parts=builder.parts, layers=tuple(layers))


def are_computed_alike(plan: Plan, first: BatchShard, second: BatchShard) -> bool:
    """Return whether two shares are computed in the very same way.

    Where the computation depends on the place of the samples in the batch, as random numbers do,
    they are not.
    """
    parts = [plan.wafer_constants, *(step.nodes for step in plan.layer_steps)]
    return first.size == second.size and all(
        _localised(plan, nodes, first) == _localised(plan, nodes, second) for nodes in parts
    )


class _Builder:
    """Makes the parts of one share."""

    def __init__(self, plan: Plan, shard: BatchShard, forms: SparseForms) -> None:
        self._plan, self._shard, self._forms = plan, shard, forms
        self._last_use = _last_uses(plan)
        self.constants = self._constants()
        self._table = ProgramTable(self.constants.compute())

    @property
    def parts(self) -> tuple[ProgramSource, ...]:
        """The nodes of the layer steps made so far."""
        return self._table.parts

    def _constants(self) -> Constants:
        nodes = _localised(self._plan, self._plan.wafer_constants, self._shard)
        names = [name for node in nodes for name in node.results if name in self._last_use]
        return Constants(tuple(map(without_stack, nodes)), names)

    def layer_part(self, index: int, step: LayerStep) -> LayerStepProgram:
        """Take in a layer step."""
        nodes = tuple(map(without_stack, _localised(self._plan, step.nodes, self._shard)))
        defined = {name for node in nodes for name in node.results}
        sums, repeated = _sums(step)
        mentioned = {name for node in nodes for name in node.operands} | defined | sums.keys()
        lasting = {name for name in mentioned if self._last_use.get(name, -1) > index}
        sparse = frozenset(name for name in step.loads if name in self._forms.loads & mentioned)
        given = self._forms.gradients.get(index, {})
        part = replace(
            self._part(nodes, lasting - set(step.loads), tuple(sums)),
            sparse=sparse,
            gradients={partial: given[sum_] for partial, sum_ in sums.items() if sum_ in given},
        )
        number, inner = self._table.add(part)
        outside = [name for name in inner if name not in defined and name not in step.loads]
        return LayerStepProgram(
            name=step.name,
            part=number,
            loads=tuple((n, inner[n]) for n in step.loads if n in inner and n not in sparse),
            sparse_loads=tuple((name, inner[name]) for name in step.loads if name in sparse),
            reads=tuple((name, inner[name]) for name in outside if name in lasting),
            takes=tuple((name, inner[name]) for name in outside if name not in lasting),
            results=tuple((name, inner[name]) for name in inner if name in defined & lasting),
            sums=tuple((total, inner[partial]) for partial, total in sums.items()),
            repeated_sums=repeated,
        )

    def _part(
        self, nodes: tuple[Node, ...], live_out: Collection[str], written: tuple[str, ...] = ()
    ) -> ProgramSource:
        operands = dict.fromkeys(name for node in nodes for name in node.operands)
        types, sharded = self._plan.types, self._plan.sharded
        return ProgramSource(
            nodes=nodes,
            types={
                name: self._shard.local_type(types[name], sharded.get(name)) for name in operands
            },
            live_out=live_out,
            written=written,
        )


def without_stack(node: Node) -> Node:
    """Return a node with only as much of its call stack as messages show."""
    place, frame = node.location, node.location.user_frame()
    return replace(node, location=replace(place, frames=() if frame is None else (frame,)))


def _sums(step: LayerStep) -> tuple[dict[str, str], Renaming]:
    """Return the first total of each partial sum; and first and further total of the others."""
    sums: dict[str, str] = {}
    repeated: list[tuple[str, str]] = []
    for sum_ in step.sums:
        if sum_.partial in sums:
            repeated.append((sums[sum_.partial], sum_.total))
        else:
            sums[sum_.partial] = sum_.total
    return sums, tuple(repeated)


def _localised(plan: Plan, nodes: tuple[Node, ...], shard: BatchShard) -> tuple[Node, ...]:
    return localise(nodes, sharded=plan.sharded, types=plan.types, shard=shard)


def _last_uses(plan: Plan) -> dict[str, int]:
    """Return, for each value that a layer step reads or sends, the last one that does."""
    last: dict[str, int] = {}
    for index, step in enumerate(plan.layer_steps):
        for node in step.nodes:
            last.update(dict.fromkeys(node.operands, index))
        last.update({sum_.partial: index for sum_ in step.sums})
    return last
