"""A pod that runs no updates reads of them what connects them, and everything else in full."""

from appliance.core.plans.loads.residency import deliveries
from appliance.core.plans.micro_batches import visits
from appliance.core.plans.plan import verify
from appliance.core.plans.plan_text import parse_plan, print_plan
from tests.support.plans import two_layer_plan


def test_an_outline_verifies_and_gives_the_same_order_of_work():
    plan = two_layer_plan()
    outline = parse_plan(print_plan(plan), runs_updates=False)
    verify(outline)
    assert outline.layer_steps == plan.layer_steps
    assert outline.types == plan.types
    assert visits(outline, 2) == visits(plan, 2)
    assert deliveries(outline, 2) == deliveries(plan, 2)
    for found, whole in zip(outline.updates, plan.updates, strict=True):
        assert (found.after, found.commits) == (whole.after, whole.commits)
        assert [node.results for node in found.nodes] == [node.results for node in whole.nodes]
        assert not any(node.types or node.attributes for node in found.nodes)
