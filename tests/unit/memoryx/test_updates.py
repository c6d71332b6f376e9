"""The update part on its own: state, sums and outputs are plain tensors."""

import dataclasses

import numpy as np
import torch

from appliance.core.plans.plan import Commit, Update
from appliance.streams.torch_views import tensors_of
from tests.support.plans import f32, node, two_layer_data, two_layer_plan
from workers.memoryx.readiness import Readiness, deferred_sum_layout
from workers.memoryx.updates import Updates


def prepare(plan):
    state, _ = two_layer_data(plan, num_steps=1)
    tensors = {t.value: torch.from_numpy(state[t.resource_name].copy()) for t in plan.state}
    computed = {"gs": torch.zeros(())}
    late = deferred_sum_layout(plan)
    kept = tensors_of(late, np.zeros(late.num_bytes, dtype=np.uint8))
    updates = Updates(plan, state=tensors, computed=computed, deferred_sums=kept)
    return updates, tensors, computed


def run_step(plan, updates, sums):
    """Run one step on the given sums, which are overwritten when their layer step departs."""
    outputs = {
        output.output_name: torch.zeros(plan.types[output.value].shape) for output in plan.outputs
    }
    updates.begin(0, outputs)
    for point in Readiness(plan).points:
        arrived = {}
        if point.layer_step >= 0:
            names = [sum_.total for sum_ in plan.layer_steps[point.layer_step].sums]
            arrived = {name: sums[name].clone() for name in names}
            updates.arrive(point.layer_step, arrived)
        for update in point.updates:
            updates.run(update)
        if point.layer_step >= 0:
            updates.depart(point.layer_step)
        for tensor in arrived.values():
            tensor.fill_(float("nan"))
    return outputs


def some_sums():
    generator = torch.Generator().manual_seed(3)
    return {
        "loss_sum": torch.tensor(6.0),
        "g1": torch.rand(16, 8, generator=generator),
        "g2": torch.rand(4, 16, generator=generator),
    }


def with_update(plan, index, *, nodes=(), commits=(), types=None):
    updates = list(plan.updates)
    old = updates[index]
    updates[index] = Update(
        after=old.after, nodes=(*old.nodes, *nodes), commits=(*old.commits, *commits)
    )
    return dataclasses.replace(plan, updates=tuple(updates), types={**plan.types, **(types or {})})


def test_state_is_overwritten_in_place_and_outputs_show_the_values_of_the_step():
    plan = two_layer_plan()
    updates, state, computed = prepare(plan)
    before = {name: tensor.clone() for name, tensor in state.items()}
    sums = some_sums()
    outputs = run_step(plan, updates, sums)
    torch.testing.assert_close(state["w2"], before["w2"] - 0.05 * sums["g2"])
    torch.testing.assert_close(state["w1"], before["w1"] - 0.5 * sums["g1"])
    assert computed["gs"] == before["scale"]
    assert outputs["output_loss"] == 3.0
    assert torch.equal(outputs["output_w2"], before["w2"])
    assert torch.equal(outputs["output_g2"], sums["g2"])
    norm = (sums["g1"] ** 2).sum() + (sums["g2"] ** 2).sum()
    torch.testing.assert_close(outputs["output_norm"], norm)


def test_a_view_of_state_that_a_later_update_reads_keeps_the_old_value():
    plan = two_layer_plan()
    plan = with_update(
        plan, 2,
        nodes=(node("Reshape", "w2", "flat", f32(64)),),
        types={"flat": f32(64), "flat_back": f32(4, 16)},
    )  # fmt: skip
    plan = with_update(plan, 3, nodes=(node("Reshape", "flat", "flat_back", f32(4, 16)),))
    shown = dataclasses.replace(plan.outputs[0], value="flat_back", type=f32(4, 16))
    plan = dataclasses.replace(plan, outputs=(shown,))
    updates, state, _ = prepare(plan)
    before = state["w2"].clone()
    outputs = run_step(plan, updates, some_sums())
    assert torch.equal(outputs["output_loss"], before)


def test_two_state_tensors_may_change_places():
    plan = two_layer_plan()
    state = (*plan.state, dataclasses.replace(plan.state[0], resource_name="state.v", value="v"))
    plan = dataclasses.replace(plan, state=state, types={**plan.types, "v": plan.types["w1"]})
    updates = list(plan.updates)
    swap = (Commit(state="w1", value="v"), Commit(state="v", value="w1"))
    updates[3] = Update(after=4, nodes=updates[3].nodes, commits=swap)
    plan = dataclasses.replace(plan, updates=tuple(updates))
    prepared, tensors, _ = prepare(plan)
    w1, v = tensors["w1"].clone(), tensors["v"].clone()
    run_step(plan, prepared, some_sums())
    assert torch.equal(tensors["w1"], v)
    assert torch.equal(tensors["v"], w1)


def test_a_step_without_outputs_writes_none():
    plan = two_layer_plan()
    updates, _, _ = prepare(plan)
    updates.begin(0, {})
    updates.run(0)
