"""Visits of layer steps whose sums are sent by their non-zeros."""

import numpy as np

from appliance.core.plans.sparse.as_executed import matrix_shapes
from appliance.streams.stream_topology import load_slots, sum_layout, sum_slots
from appliance.streams.torch_views import SlotTensors
from tests.support.masked_plans import masked_plan
from workers.csx.sparse_forms import NO_FORMS
from workers.csx.sparse_values import SparseValues


def loaded(plan, rows, row):
    """Return a slot of the broadcast stream in which masks let everything through."""
    slots = load_slots(plan, rows)
    shapes = matrix_shapes(plan)
    weights = {name: sparse.weight for sparse in plan.sparse for name in sparse.loads}
    counts = tuple(shapes[weights[name]].num_elements for name in slots.names(row))
    slot = np.zeros(slots.layout(row, counts).num_bytes, np.uint8)
    slot[: slots.header_bytes(row)].view(np.int64)[...] = counts
    return slot


def test_visits_write_their_sums_into_the_same_memory_again_and_again():
    plan = masked_plan()
    rows = [step.loads for step in plan.layer_steps]
    layouts = tuple(sum_layout(plan, step) for step in plan.layer_steps)
    values = SparseValues(plan, rows, SlotTensors(layouts), NO_FORMS)
    sent = sum_slots(plan)
    visits = [index for index in range(len(rows)) if sent.names(index)]
    assert visits
    rooms = []
    for index in visits * 3:
        slot = loaded(plan, rows, index)
        sums = np.zeros(sent.most_bytes(index), np.uint8)
        _, room, _ = values.begin(index, index, slot, values.sent(index, slot), sums)
        assert room is not sums
        room[...] = 0
        assert values.finish(index, sums) is not None
        rooms.append(room)
    assert len({id(room) for room in rooms}) == 1
