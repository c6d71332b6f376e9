"""How many values of gradients a step needs, known before it computes anything."""

import numpy as np
import pytest
import torch

from appliance.core.plans.sparse.as_executed import matrix_shapes
from tests.support.masked_plans import CHANGING, masked_data, masked_plan
from workers.memoryx.mask_decision import MaskDecision


def decision_of(algorithm):
    plan = masked_plan(text=CHANGING[algorithm])
    data, _ = masked_data(plan, density=0.4)
    state = {t.value: torch.from_numpy(np.array(data[t.resource_name])) for t in plan.state}
    decision = MaskDecision(plan, shapes=matrix_shapes(plan), state=state)
    counters = [t.value for t in plan.state if t.resource_name.startswith("state.sparsity.")]
    return plan, decision, [state[name] for name in counters]


def test_a_step_that_takes_a_new_mask_needs_all_of_a_scheduled_gradient():
    plan, decision, counters = decision_of("rigl")
    (sparse,) = (each for each in plan.sparse if each.scheduled_totals)
    asked = []
    for step in range(4):
        decision.begin(step)
        asked.append(decision.num_asked(sparse.weight, 3))
        for counter in counters:
            counter.add_(1)
    whole = plan.types[sparse.weight].num_elements
    assert asked == [3, whole, 3, whole], "the frequency is two steps"
    (layer_step,) = decision.layer_steps
    assert sparse.scheduled_totals[0] in {s.total for s in plan.layer_steps[layer_step].sums}


@pytest.mark.parametrize("algorithm", ["gmp", "set"])
def test_where_no_gradient_is_scheduled_nothing_waits_for_a_step_to_begin(algorithm):
    _, decision, _ = decision_of(algorithm)
    assert not decision.layer_steps
