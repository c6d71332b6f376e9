"""What is proven of masked weights, and the update part that computes with non-zeros."""

import dataclasses

import pytest

from appliance.core.errors import InternalError
from appliance.core.plans.deferred_sums import deferred_sums
from appliance.core.plans.plan import STEP_START, Commit, Execution, verify
from appliance.core.plans.plan_text import parse_plan, print_plan
from appliance.core.plans.sparse.as_executed import as_executed, whole_reasons
from appliance.core.plans.sparse.marking import mark_sparse
from appliance.core.plans.sparse.nonzeros import on_nonzeros
from appliance.core.plans.step_count import changes_state
from tests.support.masked_plans import TIED, masked_plan


def resources(plan, names):
    found = {tensor.value: tensor.resource_name for tensor in plan.state}
    return {found[name] for name in names}


def test_a_weight_under_a_constant_mask_is_held_with_its_optimizer_state():
    plan = masked_plan()
    first, second = plan.sparse
    assert resources(plan, first.members) == {
        "state.model.fc1.weight",
        "state.optimizer.state.0.exp_avg",
        "state.optimizer.state.0.exp_avg_sq",
    }
    assert first.copies == first.loads
    assert second.totals == second.masked_totals
    assert len(first.masked_totals) == 1


def test_the_gradients_of_a_tied_weight_are_masked_after_they_are_added():
    plan = masked_plan(text=TIED)
    tied, _ = plan.sparse
    assert len(tied.masked_totals) == 2
    # The embedding's layer step loads no weight, so it does not know the pattern.
    assert set(tied.totals) < set(tied.masked_totals)


def test_a_plan_of_non_zeros_reads_sums_later_that_the_whole_one_masks_at_once():
    plan = masked_plan(text=TIED)
    narrow = on_nonzeros(plan, {sparse.weight: 5 for sparse in plan.sparse})
    later = set(deferred_sums(narrow)) - set(deferred_sums(plan))
    assert later <= {name for sparse in plan.sparse for name in sparse.masked_totals}
    assert later


def test_a_load_that_is_no_longer_the_weight_keeps_the_weight_whole():
    plan = masked_plan()
    (load,) = plan.sparse[0].loads
    early = tuple(
        dataclasses.replace(update, after=STEP_START)
        if any(commit.state == plan.sparse[0].weight for commit in update.commits)
        else update
        for update in plan.updates
    )
    marked = mark_sparse(dataclasses.replace(plan, updates=early, sparse=()))
    assert f"%{load} is sent after" in marked.sparse[0].dense_because


def test_storing_a_weight_as_its_mask_leaves_it_is_no_training():
    plan = masked_plan()
    assert changes_state(plan)
    weights = {name: each.weight for each in plan.sparse for name in each.loads}
    evaluation = tuple(
        dataclasses.replace(
            update,
            commits=tuple(
                Commit(state=weights[name], value=name)
                for node in update.nodes
                for name in node.results
                if name in weights
            ),
        )
        for update in plan.updates
    )
    assert sum(len(update.commits) for update in evaluation) == len(weights)
    assert not changes_state(dataclasses.replace(plan, updates=evaluation))


def test_a_plan_with_sparse_weights_comes_back_from_its_text():
    plan = masked_plan()
    assert parse_plan(print_plan(plan)) == plan


def test_the_update_part_on_non_zeros_reads_no_mask_and_nothing_whole():
    plan = masked_plan()
    counts = {sparse.weight: 7 for sparse in plan.sparse}
    narrow = on_nonzeros(plan, counts)
    masks = {sparse.mask for sparse in plan.sparse}
    shapes = {plan.types[weight].shape for weight in counts}
    for update in narrow.updates:
        for node in update.nodes:
            assert masks.isdisjoint(node.operands)
            assert shapes.isdisjoint(type_.shape for type_ in node.types)


def test_a_weight_that_is_written_without_its_mask_stays_whole():
    plan = masked_plan()
    sparse = plan.sparse[0]
    last = plan.updates[-1]
    commit = next(commit for commit in last.commits if commit.state == sparse.weight)
    shape = plan.types[sparse.weight].shape
    (root,) = (n for n in last.nodes if n.op == "Sqrt" and n.types[0].shape == shape)
    (above_zero,) = (n for n in last.nodes if n.operands[:1] == root.results)
    commits = tuple(
        Commit(state=commit.state, value=above_zero.results[0]) if each == commit else each
        for each in last.commits
    )
    updates = (*plan.updates[:-1], dataclasses.replace(last, commits=commits))
    found = mark_sparse(dataclasses.replace(plan, updates=updates)).sparse[0]
    assert found.members == ()
    assert found.whole_because == f"%{sparse.weight} is not masked when it is written"
    assert found.is_gathered, "its loads are still its product with the mask"


@pytest.mark.parametrize(
    ("changes", "num_shards", "reason"),
    [
        ({}, 2, "MemoryX has several shards"),
        ({"execution": Execution.PIPELINED}, 1, "all weights stay on the systems"),
    ],
)
def test_where_a_session_cannot_it_runs_the_plan_whole_and_says_why(changes, num_shards, reason):
    plan = dataclasses.replace(masked_plan(), **changes)
    assert as_executed(plan, num_shards).sparse == ()
    assert set(whole_reasons(plan, num_shards).values()) == {reason}


def test_a_mask_of_another_shape_is_refused():
    plan = masked_plan()
    first, second = plan.sparse
    wrong = dataclasses.replace(first, mask=second.mask)
    with pytest.raises(InternalError, match="differ in shape"):
        verify(dataclasses.replace(plan, sparse=(wrong,)))
