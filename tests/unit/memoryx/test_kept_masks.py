"""Updates of programs that take a new mask in some steps alone."""

import dataclasses

import numpy as np
import pytest
import torch

from appliance.core.ir.graph import needed_nodes
from appliance.core.ir.tensors import DType
from appliance.core.plans.plan import STEP_START
from appliance.core.plans.sparse.kept_masks import kept_masks, spread_scalars
from appliance.core.plans.sparse.mask_schedule import mask_schedule
from appliance.numerics.programs.program import Program
from appliance.streams.torch_views import tensors_of
from tests.support.masked_plans import CHANGING, masked_data, masked_plan
from workers.memoryx.readiness import Readiness, deferred_sum_layout
from workers.memoryx.updates import Updates


def num_sorts(update):
    return sum(node.op == "TopK" for node in update.nodes)


def kept_of(plan, update, *, read_later=(), types=None):
    return kept_masks(
        update, read_later=read_later, types=types or plan.types, spread=spread_scalars(plan)
    )


def of_sorting_updates(plan, read_later=()):
    return [
        (update, kept_of(plan, update, read_later=read_later))
        for update in plan.updates
        if num_sorts(update)
    ]


@pytest.mark.parametrize("algorithm", CHANGING)
def test_a_step_that_takes_no_new_mask_sorts_nothing_and_writes_all_other_state(algorithm):
    plan = masked_plan(text=CHANGING[algorithm])
    masks = {sparse.mask for sparse in plan.sparse}
    found = of_sorting_updates(plan)
    assert found
    for update, kept in found:
        assert num_sorts(kept.update) == 0
        written = {commit.state for commit in kept.update.commits}
        assert written == {commit.state for commit in update.commits} - masks
        assert all(not plan.types[name].shape for name in kept.conditions)


def test_a_new_mask_that_somebody_reads_later_is_computed():
    plan = masked_plan(text=CHANGING["gmp"])
    values = [c.value for u in plan.updates for c in u.commits]
    assert all(kept is None for _, kept in of_sorting_updates(plan, read_later=values))


def test_a_mask_that_more_than_a_scalar_decides_on_is_computed():
    plan = masked_plan(text=CHANGING["gmp"])
    for update, kept in of_sorting_updates(plan):
        wide = {name: dataclasses.replace(plan.types[name], shape=(2,)) for name in kept.conditions}
        assert kept_of(plan, update, types={**plan.types, **wide}) is None


def with_conditions_spread_early(plan):
    """Return a plan in which an update of its own decides, and spreads that for all masks."""
    spread = spread_scalars(plan)
    wide = {
        node.operands[0]
        for update in plan.updates
        for node in update.nodes
        if node.op == "Select" and plan.types[node.results[0]].dtype is DType.I1
    }
    nodes = [node for update in plan.updates for node in update.nodes]
    early = needed_nodes(nodes, wide & spread.keys())
    moved = {name for node in early for name in node.results}
    updates = [
        dataclasses.replace(u, nodes=tuple(n for n in u.nodes if n.results[0] not in moved))
        for u in plan.updates
    ]
    first = dataclasses.replace(updates[0], after=STEP_START, nodes=early, commits=())
    return dataclasses.replace(plan, updates=(first, *updates))


@pytest.mark.parametrize("algorithm", CHANGING)
def test_masks_of_one_shape_share_a_condition_that_another_update_has_spread(algorithm):
    plan = with_conditions_spread_early(masked_plan(text=CHANGING[algorithm]))
    found = of_sorting_updates(plan)
    assert found
    for _, kept in found:
        assert num_sorts(kept.update) == 0
        assert not kept.deciding
    assert mask_schedule(plan) is not None


def state_of(plan):
    state, _ = masked_data(plan, density=0.4)
    return {
        tensor.value: torch.from_numpy(np.array(state[tensor.resource_name]))
        for tensor in plan.state
    }


def sums_of(plan, step):
    generator = torch.Generator().manual_seed(step)
    return {
        sum_.total: torch.rand(plan.types[sum_.total].shape, generator=generator)
        for each in plan.layer_steps
        for sum_ in each.sums
    }


def run_all_nodes(plan, state, sums, step):
    """Run the update part node for node, and overwrite the state at the end."""
    nodes = [*plan.update_constants, *(node for update in plan.updates for node in update.nodes)]
    committed = {c.state: c.value for update in plan.updates for c in update.commits}
    table = {**{name: value.clone() for name, value in state.items()}, **sums}
    types = {name: plan.types[name] for name in table}
    program = Program(nodes, types=types, live_out={*committed.values(), *state})
    program.run(table, step=step)
    for name, value in committed.items():
        state[name].copy_(table[value])


def run_updates(plan, updates, sums, step):
    updates.begin(step, {})
    for point in Readiness(plan).points:
        if point.layer_step >= 0:
            names = [sum_.total for sum_ in plan.layer_steps[point.layer_step].sums]
            updates.arrive(point.layer_step, {name: sums[name].clone() for name in names})
        for update in point.updates:
            updates.run(update)
        if point.layer_step >= 0:
            updates.depart(point.layer_step)


@pytest.mark.parametrize("change", [lambda plan: plan, with_conditions_spread_early])
@pytest.mark.parametrize("algorithm", CHANGING)
def test_steps_with_and_without_a_new_mask_give_what_all_nodes_give(algorithm, change):
    plan = change(masked_plan(text=CHANGING[algorithm]))
    state, wanted = state_of(plan), state_of(plan)
    late = deferred_sum_layout(plan)
    loads = {name for each in plan.layer_steps for name in each.loads} - state.keys()
    updates = Updates(
        plan,
        state=state,
        computed={name: torch.zeros(plan.types[name].shape) for name in loads},
        deferred_sums=tensors_of(late, np.zeros(late.num_bytes, np.uint8)),
    )
    masks = [name for name in state if plan.types[name].dtype is DType.I1]
    changes = []
    for step in range(4):
        before = {name: state[name].clone() for name in masks}
        run_updates(plan, updates, sums_of(plan, step), step)
        run_all_nodes(plan, wanted, sums_of(plan, step), step)
        for name, value in wanted.items():
            torch.testing.assert_close(state[name], value, rtol=1e-6, atol=1e-9, msg=name)
        changes.append(any((state[name] != before[name]).any() for name in masks))
    assert changes == [False, True, False, True], "the frequency is two steps"
