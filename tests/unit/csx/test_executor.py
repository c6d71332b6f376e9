"""The executor on its own: slots are plain arrays, and reused as a ring would reuse them."""

import dataclasses

import numpy as np
import torch

from appliance.core.ir.sharding import split_batch
from appliance.core.plans.plan import Sum
from appliance.streams.stream_topology import batch_layout, load_layout, sum_layout
from appliance.streams.torch_views import tensors_of
from tests.support.plans import f32, node, two_layer_data, two_layer_plan
from workers.csx.executor import Executor
from workers.csx.wafer_program import are_computed_alike, wafer_part


def compute_step(plan, values, *, num_systems=1, system=0):
    """Run one step and return all sums; every slot is overwritten once its step is over."""
    shard = split_batch(plan.batch_size, num_systems)[system]
    executor = Executor(wafer_part(plan, shard))
    layout = batch_layout(plan, shard)
    batch = np.zeros(layout.num_bytes, dtype=np.uint8)
    for name, view in layout.views(batch).items():
        view[...] = values[name][shard.offset : shard.offset + shard.size]
    executor.begin(0, tensors_of(layout, batch))
    found = {}
    for index, step in enumerate(plan.layer_steps):
        loads, sums = load_layout(plan, step.loads), sum_layout(plan, step)
        load_slot = np.zeros(loads.num_bytes, dtype=np.uint8)
        sum_slot = np.zeros(sums.num_bytes, dtype=np.uint8)
        for name, view in loads.views(load_slot).items():
            view[...] = values[name]
        executor.compute(index, tensors_of(loads, load_slot), tensors_of(sums, sum_slot))
        found |= {name: np.array(view) for name, view in sums.views(sum_slot).items()}
        load_slot[:] = sum_slot[:] = 0xFF
    return found, executor


def values_of(plan):
    state, (batch,) = two_layer_data(plan, num_steps=1)
    weights = {tensor.value: state[tensor.resource_name] for tensor in plan.state}
    return {**weights, **batch, "gs": np.float32(0.1)}


def changed(plan, index, **changes):
    steps = list(plan.layer_steps)
    steps[index] = dataclasses.replace(steps[index], **changes)
    return dataclasses.replace(plan, layer_steps=tuple(steps))


def want_sums(values):
    x, y, w1, w2 = (torch.from_numpy(values[name]) for name in ("x", "y", "w1", "w2"))
    h = x @ w1.T
    d = h @ w2.T - y
    dp = d * 0.1
    return {"loss_sum": (d * d).sum(), "g2": dp.T @ h, "g1": (dp @ w2).T @ x}


def assert_sums(found, want):
    for name, tensor in want.items():
        np.testing.assert_allclose(found[name], tensor.numpy(), rtol=1e-5, atol=1e-6)


def test_the_shares_of_all_systems_add_up_to_the_whole():
    plan = two_layer_plan(batch_size=5)
    values = values_of(plan)
    parts = [compute_step(plan, values, num_systems=3, system=system)[0] for system in range(3)]
    total = {name: sum(part[name] for part in parts) for name in parts[0]}
    assert_sums(total, want_sums(values))


def test_a_view_of_a_weight_that_outlives_its_layer_step_keeps_its_value():
    plan = two_layer_plan()
    types = {**plan.types, "w2_t": f32(16, 4)}
    transpose = node("Transpose", "w2", "w2_t", f32(16, 4), permutation=(1, 0))
    plan = dataclasses.replace(plan, types=types)
    plan = changed(plan, 1, nodes=(*plan.layer_steps[1].nodes, transpose))
    dh, g2 = plan.layer_steps[3].nodes
    dh = dataclasses.replace(dh, operands=("dp", "w2_t"), attributes={"transpose_b": True})
    plan = changed(plan, 3, nodes=(dh, g2), loads=())
    values = values_of(plan)
    assert_sums(compute_step(plan, values)[0], want_sums(values))


def test_a_sum_that_is_read_again_later_keeps_its_value():
    plan = two_layer_plan()
    plan = dataclasses.replace(plan, types={**plan.types, "g2_again": plan.types["g2"]})
    later = changed(
        plan, 4, sums=(*plan.layer_steps[4].sums, Sum(partial="g2_part", total="g2_again"))
    )
    values = values_of(plan)
    found, _ = compute_step(later, values)
    assert found["g2_again"].tobytes() == found["g2"].tobytes()
    assert_sums(found, want_sums(values))


def test_one_partial_may_be_sent_twice_in_a_layer_step():
    plan = two_layer_plan()
    plan = dataclasses.replace(plan, types={**plan.types, "g2_again": plan.types["g2"]})
    twice = changed(
        plan, 3, sums=(*plan.layer_steps[3].sums, Sum(partial="g2_part", total="g2_again"))
    )
    found, _ = compute_step(twice, values_of(plan))
    assert found["g2_again"].tobytes() == found["g2"].tobytes()


def test_nothing_but_inputs_and_constants_is_left_after_the_last_layer_step():
    plan = two_layer_plan()
    _, executor = compute_step(plan, values_of(plan))
    assert set(executor.activations) <= {"x", "y"}
    executor.end()
    assert executor.activations == {}


def test_shares_that_are_computed_alike_share_their_programs():
    plan = two_layer_plan(batch_size=5)
    first, second, third = split_batch(plan.batch_size, 3)
    assert are_computed_alike(plan, first, second)
    assert not are_computed_alike(plan, first, third), "it has one sample less"
    executor = Executor(wafer_part(plan, first))
    twin = executor.twin()
    twin.begin(0, {"x": torch.zeros(2, 8)})
    assert twin.activations
    assert not executor.activations


def test_shares_that_draw_other_random_numbers_do_not():
    plan = two_layer_plan(batch_size=6)
    type_ = f32(6, 16)
    noise = node("RandomUniform", "", "noise", type_, low=0.0, high=1.0, seed=1, stream=0)
    plan = changed(plan, 0, nodes=(*plan.layer_steps[0].nodes, noise))
    plan = dataclasses.replace(
        plan,
        types={**plan.types, "noise": type_},
        sharded={**plan.sharded, "noise": 0},
    )
    first, second = split_batch(plan.batch_size, 2)
    assert not are_computed_alike(plan, first, second)
