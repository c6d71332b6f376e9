"""Computes layer steps: one program for each, a table of activations between them.

A value stays in the table until the last layer step that reads it. Loads are views of a broadcast
slot and leave the table when their layer step ends; a result that may be a view of one and outlives
the layer step is copied out of the slot. Sums are written into the gradient slot by the operation
that produces them.
"""

import copy
from collections.abc import Collection
from dataclasses import dataclass

import torch

from appliance.core.graph import Node
from appliance.core.plan import LayerStep, Plan
from appliance.core.sharding import BatchShard, localise
from appliance.core.tensors import TensorType
from appliance.numerics.program import Program
from appliance.streams.torch_views import Tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class _LayerProgram:
    """One layer step, ready to run.

    Attributes:
        program: Its nodes, for one system's share of the batch.
        loads: Names to forget at the end.
        sums: Partial and total name of each sum; every partial once.
        repeated_sums: Further sums of a partial that is in `sums`: total there, total here.
        to_copy: Values that outlive the layer step but may be views of its loads.
    """

    program: Program
    loads: tuple[str, ...]
    sums: tuple[tuple[str, str], ...]
    repeated_sums: tuple[tuple[str, str], ...]
    to_copy: tuple[str, ...]


class Executor:
    """The wafer part of a plan for one system.

    Args:
        plan: A verified plan.
        shard: The system's share of the batch.
    """

    def __init__(self, plan: Plan, shard: BatchShard) -> None:
        self._plan, self._shard = plan, shard
        self._last_use = _last_uses(plan)
        self._constants: Tensors = {}
        self._constants = self._run_constants()
        self._programs = tuple(
            self._prepare(index, step) for index, step in enumerate(plan.layer_steps)
        )
        self._table: Tensors = {}
        self._step = 0

    @property
    def activations(self) -> Tensors:
        """The values that are resident now, by name."""
        return self._table

    def begin(self, step: int, batch: Tensors) -> None:
        """Begin a step, whose number is for random operations, with its batch tensors by name."""
        self._step = step
        self._table = {**self._constants, **batch}

    def compute(self, layer_step: int, loads: Tensors, sums: Tensors) -> None:
        """Run one layer step.

        Args:
            layer_step: Its index; they run in order.
            loads: What it loads, by name; may be reused once this returns.
            sums: Where to write what it sends, by the name of the total.
        """
        layer, table = self._programs[layer_step], self._table
        table.update(loads)
        out = {partial: sums[total] for partial, total in layer.sums}
        layer.program.run(table, step=self._step, out=out)
        for first, again in layer.repeated_sums:
            sums[again].copy_(sums[first])
        for name in layer.to_copy:
            table[name] = table[name].clone()
        for name in layer.loads:
            table.pop(name, None)

    def end(self) -> None:
        """Forget everything of the step."""
        self._table = {}

    def twin(self, shard: BatchShard) -> "Executor | None":
        """Return an executor for a share that is computed in the very same way, if this one is.

        The two have activations of their own and everything else in common. Where the computation
        depends on the place of the samples in the batch, as random numbers do, there is no twin.
        """
        parts = [self._plan.wafer_constants, *(step.nodes for step in self._plan.layer_steps)]
        if shard.size != self._shard.size:
            return None
        for nodes in parts:
            if _localised(self._plan, nodes, shard) != _localised(self._plan, nodes, self._shard):
                return None
        twin = copy.copy(self)
        twin._table = {}
        return twin

    def _run_constants(self) -> Tensors:
        nodes = self._localised(self._plan.wafer_constants)
        names = {name for node in nodes for name in node.results}
        table: Tensors = {}
        self._program(nodes, {name for name in names if name in self._last_use}).run(table, step=0)
        return {name: table[name] for name in names & table.keys()}

    def _prepare(self, index: int, step: LayerStep) -> _LayerProgram:
        nodes = self._localised(step.nodes)
        mentioned = {name for node in nodes for name in (*node.operands, *node.results)}
        live_out = {name for name in mentioned if self._last_use.get(name, -1) > index} - set(
            step.loads
        )
        program = self._program(nodes, live_out, {sum_.partial for sum_ in step.sums})
        sums: dict[str, str] = {}
        repeated: list[tuple[str, str]] = []
        for sum_ in step.sums:
            if sum_.partial in sums:
                repeated.append((sums[sum_.partial], sum_.total))
            else:
                sums[sum_.partial] = sum_.total
        return _LayerProgram(
            program=program,
            loads=step.loads,
            sums=tuple(sums.items()),
            repeated_sums=tuple(repeated),
            to_copy=tuple(sorted(program.borrowers(step.loads))),
        )

    def _localised(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return _localised(self._plan, nodes, self._shard)

    def _program(
        self, nodes: tuple[Node, ...], live_out: set[str], written: Collection[str] = ()
    ) -> Program:
        operands = {name for node in nodes for name in node.operands}
        types = {name: self._local_type(name) for name in operands}
        return Program(
            nodes, types=types, live_out=live_out, known=self._constants, written=written
        )

    def _local_type(self, name: str) -> TensorType:
        return self._shard.local_type(self._plan.types[name], self._plan.sharded.get(name))


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


def set_compute_threads(num_threads: int) -> None:
    """Fix how many threads an operation uses; the bits of a sum depend on it."""
    torch.set_num_threads(num_threads)
