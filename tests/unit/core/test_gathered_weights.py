"""Weights that are held whole and sent by their non-zeros, and the update part that does so."""

import dataclasses

import pytest

from appliance.core.plans.plan import STEP_START
from appliance.core.plans.plan_text import parse_plan, print_plan
from appliance.core.plans.sparse.as_executed import as_executed, whole_reasons
from appliance.core.plans.sparse.gathered import gathered_after, on_state
from appliance.core.plans.sparse.marking import mark_sparse
from tests.support.masked_plans import CHANGING, masked_plan

BECAUSE = "the program changes its mask"


def plan_of(algorithm):
    return masked_plan(text=CHANGING[algorithm])


def with_updates(plan, updates):
    return mark_sparse(dataclasses.replace(plan, updates=tuple(updates), sparse=()))


def writing(plan, name):
    """Return the position of the update that writes a state tensor."""
    (position,) = (
        index
        for index, update in enumerate(plan.updates)
        if any(commit.state == name for commit in update.commits)
    )
    return position


@pytest.mark.parametrize("algorithm", CHANGING)
def test_a_weight_whose_mask_the_program_changes_is_gathered(algorithm):
    plan = plan_of(algorithm)
    assert len(plan.sparse) == 2
    for sparse in plan.sparse:
        assert (sparse.whole_because, sparse.dense_because) == (BECAUSE, "")
        assert (sparse.members, sparse.copies) == ((), ())
    assert as_executed(plan, 1).sparse == plan.sparse
    assert set(whole_reasons(plan, 1).values()) == {BECAUSE}
    assert parse_plan(print_plan(plan)) == plan


@pytest.mark.parametrize("algorithm", CHANGING)
def test_layer_steps_that_load_no_weight_send_its_gradients_whole(algorithm):
    # Of the first layer no input's gradient is wanted, so its backward step loads no weight.
    plan = plan_of(algorithm)
    assert sum(len(sparse.totals) for sparse in plan.sparse) == 1


@pytest.mark.parametrize("algorithm", CHANGING)
def test_updates_make_the_products_that_they_read_from_weight_and_mask(algorithm):
    plan = plan_of(algorithm)
    found = on_state(plan)
    available = {tensor.value for tensor in plan.state}
    available |= {name for node in plan.update_constants for name in node.results}
    available |= {sum_.total for step in plan.layer_steps for sum_ in step.sums}
    for update in found.updates:
        for node in update.nodes:
            assert available.issuperset(node.operands)
            assert all(name in found.types for name in node.results)
            available |= set(node.results)
        assert available.issuperset(commit.value for commit in update.commits)
    products = {name for sparse in plan.sparse for name in sparse.loads}
    assert products.isdisjoint(available), "nobody computes what is gathered"


def test_a_gathered_load_waits_for_weight_and_mask():
    plan = plan_of("gmp")
    first, _ = plan.sparse
    loads = [step.loads for step in on_state(plan).layer_steps if first.weight in step.loads]
    assert loads
    assert all(first.mask in each and first.loads[0] not in each for each in loads)
    due = gathered_after(plan)
    for sparse in plan.sparse:
        last = max(writing(plan, sparse.weight), writing(plan, sparse.mask))
        assert sparse in due[last]


def test_a_load_that_is_sent_after_its_mask_has_changed_is_whole():
    plan = plan_of("gmp")
    sparse = plan.sparse[0]
    position = writing(plan, sparse.mask)
    early = [
        dataclasses.replace(update, after=STEP_START) if index == position else update
        for index, update in enumerate(plan.updates)
    ]
    found = with_updates(plan, early).sparse[0]
    (load,) = sparse.loads
    assert found.dense_because == (
        f"{BECAUSE}; %{load} is sent after %{sparse.weight} or its mask has changed"
    )
    assert not found.is_gathered


def test_a_product_that_is_read_after_the_weight_has_changed_keeps_the_weight_dense():
    plan = plan_of("gmp")
    sparse = plan.sparse[0]
    position = writing(plan, sparse.weight)
    update = plan.updates[position]
    reader = next(node for node in update.nodes if sparse.loads[0] in node.operands)
    later = dataclasses.replace(reader, results=("later",))
    updates = [*plan.updates, dataclasses.replace(plan.updates[-1], nodes=(later,), commits=())]
    changed = dataclasses.replace(plan, types={**plan.types, "later": reader.types[0]})
    found = with_updates(changed, updates).sparse[0]
    assert found.dense_because.startswith(f"{BECAUSE}; %{sparse.loads[0]} is read after")
