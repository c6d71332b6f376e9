"""Where sums lie in slots, some of which come by their non-zeros."""

import numpy as np
import pytest

from appliance.core.plans.sparse.as_executed import matrix_shapes
from appliance.streams.sparse_slots import COUNTS
from appliance.streams.stream_topology import sum_slots
from tests.support.masked_plans import masked_plan
from workers.swarmx.sum_parts import SumParts


@pytest.fixture(scope="module")
def plan():
    return masked_plan()


@pytest.fixture(scope="module")
def row(plan):
    """A layer step with sums that are sent by their non-zeros."""
    return next(i for i in range(len(plan.layer_steps)) if sum_slots(plan).names(i))


def slot_with(plan, row, missing):
    """Return a slot whose matrices have so many values less than elements."""
    slots, shapes = sum_slots(plan), matrix_shapes(plan)
    weights = {total: sparse.weight for sparse in plan.sparse for total in sparse.totals}
    counts = [shapes[weights[name]].num_elements - missing for name in slots.names(row)]
    slot = np.zeros(slots.most_bytes(row), np.uint8)
    slot[: slots.header_bytes(row)].view(np.int64)[...] = counts
    return slot, tuple(counts)


def test_the_layout_of_a_slot_follows_its_counts(plan, row):
    found = SumParts(plan, [plan])
    for missing in (1, 1, 2, 1):
        slot, counts = slot_with(plan, row, missing)
        wanted = sum_slots(plan).layout(row, counts)
        layout = found.of(row, slot)
        assert layout.up.num_bytes == wanted.num_bytes
        assert [sent.num_bytes for sent in layout.by_shard] == [wanted.num_bytes]
        assert layout.header_bytes == sum_slots(plan).header_bytes(row)
        assert COUNTS in {item.name for item in wanted.items}


def test_slots_of_the_same_counts_share_a_layout(plan, row):
    found = SumParts(plan, [plan])
    first = found.of(row, slot_with(plan, row, 1)[0])
    assert found.of(row, slot_with(plan, row, 1)[0]) is first
