"""Which loads a system keeps within a step, and that these are sent once."""

from dataclasses import replace

import pytest

from appliance.core.plans.loads.kept import kept_loads, most_kept_bytes
from appliance.core.plans.loads.residency import deliveries
from appliance.core.plans.micro_batches import visits
from appliance.core.plans.plan import Execution
from appliance.core.plans.sparse.as_executed import as_executed
from tests.support.masked_plans import masked_plan
from tests.support.narrow_plans import GPT, narrow_plan
from tests.support.plans import two_layer_plan

EVERYTHING = 1 << 40


def sent(plan, keep_bytes, num_systems=1):
    found = deliveries(plan, num_systems, keep_bytes=keep_bytes)
    numbers = range(len(visits(plan, num_systems)))
    steps = [[found.rows[found.row(step, at)] for at in numbers] for step in (0, 1)]
    assert steps[0] == steps[1]
    return steps[0]


def num_sent(plan, keep_bytes, num_systems=1):
    return sum(map(len, sent(plan, keep_bytes, num_systems)))


def test_what_is_loaded_again_in_a_step_is_sent_once():
    plan = two_layer_plan()
    assert [step.loads for step in plan.layer_steps] == [("w1",), ("w2",), ("gs",), ("w2",), ()]
    assert sent(plan, EVERYTHING) == [("w1",), ("w2",), ("gs",), (), ()]
    assert deliveries(plan, 1, keep_bytes=EVERYTHING).kept == {"w2"}


def test_what_does_not_fit_the_budget_is_sent_again():
    plan = two_layer_plan()
    size = plan.types["w2"].num_bytes
    assert sent(plan, size - 1) == [step.loads for step in plan.layer_steps]
    assert sent(plan, size) == sent(plan, EVERYTHING)


def test_the_budget_goes_to_the_layers_that_come_back_first():
    plan = masked_plan(text=GPT)
    kept = kept_loads(plan, visits(plan, 1), most_kept_bytes(plan) * 6 // 10)
    blocks = [
        {t.value for t in plan.state if t.resource_name.startswith(f"state.model.blocks.{number}.")}
        for number in range(2)
    ]
    every = kept_loads(plan, visits(plan, 1), EVERYTHING)
    assert blocks[1] & every <= kept
    assert not blocks[0] & every <= kept


def test_packed_loads_count_for_the_two_bytes_in_which_they_are_kept():
    plan = narrow_plan()
    unpacked = replace(plan, packed={})
    again = kept_loads(plan, visits(plan, 1), EVERYTHING) & plan.packed.keys()
    saved = sum(2 * plan.types[name].num_elements for name in again)
    assert most_kept_bytes(unpacked) - most_kept_bytes(plan) == saved > 0


def test_micro_batches_are_sent_once_what_each_of_them_loads():
    plan = replace(two_layer_plan(), micro_batch_size=2)
    assert len(visits(plan, 1)) > len(plan.layer_steps)
    names = {name for step in plan.layer_steps for name in step.loads}
    assert num_sent(plan, EVERYTHING) == len(names)
    assert most_kept_bytes(plan) == sum(plan.types[name].num_bytes for name in names)


def test_sparse_weights_are_sent_again():
    plan = as_executed(masked_plan(), 1)
    sparse = {name for each in plan.sparse for name in each.loads}
    assert sparse
    assert sparse.isdisjoint(deliveries(plan, 2, keep_bytes=EVERYTHING).kept)


@pytest.mark.parametrize("step", [0, 1])
def test_pipelined_execution_keeps_what_it_kept_before(step):
    plan = replace(two_layer_plan(), execution=Execution.PIPELINED)
    assert deliveries(plan, 1, keep_bytes=EVERYTHING) == deliveries(plan, 1)
