"""Micro-batches on their own: slices of a share, and none where a share is too small."""

import dataclasses

import numpy as np
import pytest

from appliance.core.ir.sharding import split_batch
from appliance.core.plans.micro_batches import num_micro_batches, visits
from appliance.streams.stream_topology import batch_layout, load_layout, sum_layout
from appliance.streams.torch_views import tensors_of
from tests.support.plans import two_layer_data, two_layer_plan
from workers.csx.samples.micro_batches import MicroBatches, share_parts


def sums_of(plan, values, *, num_systems, system):
    """Run one step and return the sums over all micro-batches."""
    shard = split_batch(plan.batch_size, num_systems)[system]
    count = num_micro_batches(plan, num_systems)
    micro_batches = MicroBatches(share_parts(plan, shard, count=count)[0])
    layout = batch_layout(plan, shard)
    batch = np.zeros(layout.num_bytes, dtype=np.uint8)
    for name, view in layout.views(batch).items():
        view[...] = values[name][shard.offset : shard.offset + shard.size]
    micro_batches.begin(0, tensors_of(layout, batch))
    found = {}
    for visit in visits(plan, num_systems):
        step = plan.layer_steps[visit.layer_step]
        loads, sums = load_layout(plan, step.loads), sum_layout(plan, step)
        load_slot = np.zeros(loads.num_bytes, dtype=np.uint8)
        sum_slot = np.full(sums.num_bytes, 0xFF, dtype=np.uint8)
        for name, view in loads.views(load_slot).items():
            view[...] = values[name]
        micro_batches.compute(visit, tensors_of(loads, load_slot), tensors_of(sums, sum_slot))
        for name, view in sums.views(sum_slot).items():
            found[name] = found.get(name, 0) + np.array(view)
        load_slot[:] = 0xFF
    micro_batches.end()
    assert not list(micro_batches.activations())
    return found


@pytest.mark.parametrize("micro_batch_size", [1, 2, 3])
@pytest.mark.parametrize(("num_systems", "system"), [(1, 0), (2, 0), (2, 1), (3, 2)])
def test_the_sums_are_those_of_the_share_at_once(num_systems, system, micro_batch_size):
    plan = two_layer_plan(batch_size=5)
    state, (batch,) = two_layer_data(plan, num_steps=1)
    weights = {tensor.value: state[tensor.resource_name] for tensor in plan.state}
    values = {**weights, **batch, "gs": np.float32(0.1)}
    want = sums_of(plan, values, num_systems=num_systems, system=system)
    split = dataclasses.replace(plan, micro_batch_size=micro_batch_size)
    found = sums_of(split, values, num_systems=num_systems, system=system)
    for name, value in want.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
