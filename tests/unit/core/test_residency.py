"""What a layer step is sent: all that it loads, or what has changed since it was last sent."""

from dataclasses import replace

import pytest

from appliance.core.plans.loads.residency import deliveries
from appliance.core.plans.micro_batches import visits
from appliance.core.plans.plan import Commit, Execution
from tests.support.plans import two_layer_plan


def sent(plan, step, num_systems=1):
    found = deliveries(plan, num_systems)
    return [found.rows[found.row(step, at)] for at in range(len(visits(plan, num_systems)))]


def pipelined(**changes):
    return replace(two_layer_plan(), execution=Execution.PIPELINED, **changes)


@pytest.mark.parametrize("step", [0, 1])
def test_weight_streaming_sends_every_layer_step_all_that_it_loads(step):
    plan = two_layer_plan()
    assert sent(plan, step) == [layer_step.loads for layer_step in plan.layer_steps]


def test_pipelined_execution_sends_a_tensor_once_a_step():
    plan = pipelined()
    assert [step.loads for step in plan.layer_steps] == [("w1",), ("w2",), ("gs",), ("w2",), ()]
    assert sent(plan, 0) == [("w1",), ("w2",), ("gs",), (), ()]


def test_what_no_step_overwrites_is_sent_in_the_first_step_alone():
    plan = pipelined()
    overwritten = {commit.state for update in plan.updates for commit in update.commits}
    assert {"w1", "w2"} <= overwritten
    assert sent(plan, 1) == sent(plan, 0)
    frozen = replace(
        plan,
        updates=tuple(
            replace(update, commits=tuple(c for c in update.commits if c.state != "w1"))
            for update in plan.updates
        ),
    )
    assert sent(frozen, 0) == sent(plan, 0)
    assert sent(frozen, 1) == [(), ("w2",), ("gs",), (), ()]


def test_a_tensor_that_is_overwritten_by_itself_does_not_change():
    plan = pipelined()
    kept = tuple(
        replace(
            update,
            commits=tuple(
                Commit(state="w1", value="w1") if c.state == "w1" else c for c in update.commits
            ),
        )
        for update in plan.updates
    )
    assert sent(replace(plan, updates=kept), 1)[0] == ()


def test_only_the_first_micro_batch_is_sent_anything():
    plan = pipelined(micro_batch_size=2)
    first, *others = (sent(plan, 1)[at : at + 5] for at in range(0, len(visits(plan, 1)), 5))
    assert first == [("w1",), ("w2",), ("gs",), (), ()]
    assert others == [[()] * 5] * len(others)
    assert others
