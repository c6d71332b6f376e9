"""What a system keeps of a plan is made anew and runs as what it was made of."""

import dataclasses

import numpy as np
import pytest
import torch

from appliance.core.ir.sharding import split_batch
from appliance.core.plans.micro_batches import visits
from appliance.core.plans.plan import Execution
from appliance.core.pods.pod_options import StreamMode
from appliance.streams.stream_topology import load_layout, sum_layout
from appliance.streams.torch_views import tensors_of
from tests.support.plans import two_layer_data, two_layer_plan
from workers.csx.repack import Packed
from workers.csx.samples.micro_batches import MicroBatches
from workers.csx.system_plan import system_part

NUM_SYSTEMS = 2


def part_of(plan, mode=StreamMode.RING):
    share = split_batch(plan.batch_size, NUM_SYSTEMS)[1]
    return system_part(plan, share, num_systems=NUM_SYSTEMS, num_shards=1, mode=mode)


def sums_of(plan, part):
    """Run one step on what a system keeps; return every sum of every visit."""
    state, (batch,) = two_layer_data(plan, num_steps=1)
    values = {tensor.value: state[tensor.resource_name] for tensor in plan.state}
    values["gs"] = np.float32(0.1)
    share = part.strands[0].share
    taken = {name: value[share.offset : share.offset + share.size] for name, value in batch.items()}
    micro_batches = MicroBatches(part.strands[0])
    micro_batches.begin(0, {name: torch.from_numpy(value) for name, value in taken.items()})
    found = []
    for visit in visits(plan, NUM_SYSTEMS):
        step = plan.layer_steps[visit.layer_step]
        loads, sums = load_layout(plan, step.loads), sum_layout(plan, step)
        load_slot = np.zeros(loads.num_bytes, dtype=np.uint8)
        sum_slot = np.zeros(sums.num_bytes, dtype=np.uint8)
        for name, view in loads.views(load_slot).items():
            view[...] = values[name]
        micro_batches.compute(visit, tensors_of(loads, load_slot), tensors_of(sums, sum_slot))
        found.append(sum_slot)
    return found


@pytest.mark.parametrize("micro_batch_size", [None, 1])
@pytest.mark.parametrize("execution", Execution)
def test_what_is_made_anew_computes_the_same_bits(execution, micro_batch_size):
    plan = dataclasses.replace(
        two_layer_plan(batch_size=5), execution=execution, micro_batch_size=micro_batch_size
    )
    want = sums_of(plan, part_of(plan))
    found = sums_of(plan, Packed(part_of(plan)).make())
    assert [slot.tobytes() for slot in found] == [slot.tobytes() for slot in want]


@pytest.mark.parametrize("mode", StreamMode)
def test_nothing_that_lasts_was_made_with_the_plan(mode):
    part = part_of(two_layer_plan(), mode)
    made = Packed(part).make()
    assert made.step_names == part.step_names
    assert all(a is not b for a, b in zip(made.step_names, part.step_names, strict=True))
    (before,), (after,) = part.strands[0].parts, made.strands[0].parts
    assert after.layers == before.layers
    assert after.parts == before.parts
    assert all(a is not b for a, b in zip(after.parts, before.parts, strict=True))


def test_tensors_lie_where_they_lay():
    number = torch.tensor(2.0).expand(3, 4)
    (made,) = Packed([number]).make()
    assert made is not number
    assert made.data_ptr() == number.data_ptr()
    assert made.stride() == (0, 0), "so that a loop may still take it for a number"


def test_micro_batches_that_are_computed_alike_still_share_one_part():
    plan = dataclasses.replace(two_layer_plan(batch_size=8), micro_batch_size=2)
    first, second = Packed(part_of(plan)).make().strands[0].parts
    assert first is second
