"""A plan executed in one process by the kernels, for any number of systems and micro-batches.

It plays MemoryX, SwarmX and every CS-2 as the engine does, and is unkind where the engine may be:
streamed values are poisoned when their layer step ends, state is overwritten in place. A plan that
keeps a view of either then gives wrong numbers.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from appliance.core.ir.graph import Node
from appliance.core.ir.sharding import BatchShard, localise, split_batch
from appliance.core.ir.tensors import TensorType
from appliance.core.plans.micro_batches import num_micro_batches, split_share, visits
from appliance.core.plans.plan import STEP_START, Plan
from appliance.numerics.programs.program import Program

Table = dict[str, torch.Tensor]


def tensor(array: np.ndarray, type_: TensorType) -> torch.Tensor:
    """Return an array as a tensor in the container of a type."""
    return torch.from_numpy(np.array(array, dtype=type_.dtype.container).reshape(type_.shape))


class _System:
    """One CS-2: resident values, and a program for each layer step."""

    def __init__(self, plan: Plan, shard: BatchShard) -> None:
        self.plan, self.shard = plan, shard
        self.types = {
            name: shard.local_type(type_, plan.sharded.get(name))
            for name, type_ in plan.types.items()
        }
        last_use = _last_uses(plan)
        self.programs = [
            self._program(step.nodes, {n for n, at in last_use.items() if at > index} | sent(step))
            for index, step in enumerate(plan.layer_steps)
        ]
        constants = self._program(plan.wafer_constants, set(last_use))
        self.constants: Table = {}
        constants.run(self.constants, step=0)
        self.resident: Table = {}

    def _program(self, nodes: Sequence[Node], wanted: set[str]) -> Program:
        local = localise(nodes, sharded=self.plan.sharded, types=self.plan.types, shard=self.shard)
        defined = {name for node in nodes for name in node.results}
        return Program(local, types=self.types, live_out=defined & wanted)

    def begin(self, batch: Mapping[str, np.ndarray]) -> None:
        self.resident = dict(self.constants)
        for item in self.plan.inputs:
            whole = tensor(batch[item.input_name], item.type)
            start = self.shard.local_start(item.type, 0)
            size = self.types[item.value].shape[0]
            self.resident[item.value] = whole[start : start + size].clone()

    def run(self, index: int, loads: Table, step: int) -> Table:
        """Run one layer step; return the partial values by name of their totals."""
        slots = {name: value.clone() for name, value in loads.items()}
        table = {**self.resident, **slots}
        self.programs[index].run(table, step=step)
        sums = self.plan.layer_steps[index].sums
        partials = {sum_.total: table[sum_.partial].clone() for sum_ in sums}
        kept = {name: value for name, value in table.items() if name not in slots}
        for name, value in self.resident.items():
            kept.setdefault(name, value)
        self.resident = kept
        for value in slots.values():
            value.fill_(float("nan") if value.is_floating_point() else 0)
        for total, value in partials.items():
            assert tuple(value.shape) == self.plan.types[total].shape, total
        return partials


def sent(step) -> set[str]:
    return {sum_.partial for sum_ in step.sums}


def _last_uses(plan: Plan) -> dict[str, int]:
    last: dict[str, int] = {}
    for index, step in enumerate(plan.layer_steps):
        for node in step.nodes:
            last.update(dict.fromkeys(node.operands, index))
        last.update(dict.fromkeys(sent(step), index))
    return last


class PlanMachine:
    """A whole appliance for one plan.

    Args:
        plan: The plan.
        state: Initial state by resource name.
        num_systems: Number of systems.
    """

    def __init__(self, plan: Plan, state: Mapping[str, np.ndarray], num_systems: int = 1) -> None:
        self.plan = plan
        self.visits = visits(plan, num_systems)
        count = num_micro_batches(plan, num_systems)
        shares = [split_share(s, count) for s in split_batch(plan.batch_size, num_systems)]
        # For each micro-batch the systems that have samples of it.
        self.micro_batches = [
            [_System(plan, parts[index]) for parts in shares if parts[index].size]
            for index in range(count)
        ]
        self.state = {t.value: tensor(state[t.resource_name], t.type) for t in plan.state}
        every = {name for update in plan.updates for node in update.nodes for name in node.results}
        self.updates = [
            Program(update.nodes, types=plan.types, live_out=every & _results(update.nodes))
            for update in plan.updates
        ]
        constants = Program(
            plan.update_constants, types=plan.types, live_out=_results(plan.update_constants)
        )
        self.constants: Table = {}
        constants.run(self.constants, step=0)

    def step(self, batch: Mapping[str, np.ndarray], step: int) -> dict[str, np.ndarray]:
        """Run one training step; return the outputs by name."""
        for systems in self.micro_batches:
            for system in systems:
                system.begin(batch)
        memory: Table = {**self.constants, **self.state}
        self._update(STEP_START, memory, step)
        totals: Table = {}
        for visit in self.visits:
            layer_step = self.plan.layer_steps[visit.layer_step]
            loads = {name: memory[name] for name in layer_step.loads}
            for system in self.micro_batches[visit.micro_batch]:
                for name, part in system.run(visit.layer_step, loads, step).items():
                    totals[name] = totals[name] + part if name in totals else part
            if visit.is_last:
                memory.update({sum_.total: totals.pop(sum_.total) for sum_ in layer_step.sums})
                self._update(visit.layer_step, memory, step)
        return {o.output_name: memory[o.value].numpy().copy() for o in self.plan.outputs}

    def _update(self, after: int, memory: Table, step: int) -> None:
        for update, program in zip(self.plan.updates, self.updates, strict=True):
            if update.after != after:
                continue
            table = dict(memory)
            program.run(table, step=step)
            memory.update(table)
            for commit in update.commits:
                self.state[commit.state].copy_(memory[commit.value])

    def final_state(self) -> dict[str, np.ndarray]:
        """Return the state by resource name."""
        return {t.resource_name: self.state[t.value].numpy() for t in self.plan.state}


def _results(nodes: Sequence[Node]) -> set[str]:
    return {name for node in nodes for name in node.results}
