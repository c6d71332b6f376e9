"""Programs that change masks: which steps take a new one, and what the others need of gradients."""

import dataclasses

import pytest

from appliance.core.plans.sparse.mask_schedule import mask_schedule
from tests.support.masked_plans import CHANGING, masked_plan


def plan_of(algorithm):
    return masked_plan(text=CHANGING[algorithm])


@pytest.mark.parametrize("algorithm", CHANGING)
def test_state_alone_decides_whether_a_step_takes_a_new_mask(algorithm):
    plan = plan_of(algorithm)
    schedule = mask_schedule(plan)
    made = {name for node in schedule.deciding for name in node.results}
    read = {name for node in schedule.deciding for name in node.operands} - made
    assert made.issuperset(schedule.conditions)
    assert read
    assert {tensor.value for tensor in plan.state}.issuperset(read)
    assert not any(node.op == "TopK" for u in schedule.kept.updates for node in u.nodes)


def test_a_program_that_never_changes_a_mask_has_no_schedule():
    assert mask_schedule(masked_plan()) is None


def test_what_a_sum_decides_is_not_known_when_a_step_begins():
    plan = plan_of("rigl")
    schedule = mask_schedule(plan)
    (step,) = {name for node in schedule.deciding for name in node.operands} & {
        tensor.value for tensor in plan.state
    }
    without = tuple(tensor for tensor in plan.state if tensor.value != step)
    assert mask_schedule(dataclasses.replace(plan, state=without)) is None


@pytest.mark.parametrize(("algorithm", "num_scheduled"), [("gmp", 0), ("set", 0), ("rigl", 1)])
def test_gradients_that_choose_a_new_mask_come_whole_when_one_is_taken(algorithm, num_scheduled):
    plan = plan_of(algorithm)
    scheduled = [name for sparse in plan.sparse for name in sparse.scheduled_totals]
    assert len(scheduled) == num_scheduled
    for sparse in plan.sparse:
        assert {*sparse.totals} == {*sparse.masked_totals} | {*sparse.scheduled_totals}
