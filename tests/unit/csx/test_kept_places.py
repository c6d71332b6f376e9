"""Loads that are received where they stay: every visit reads what its own step was sent."""

import dataclasses

import numpy as np
import pytest

from appliance.core.ir.sharding import split_batch
from appliance.core.plans.loads.packed import streamed_type
from appliance.core.plans.loads.residency import deliveries
from appliance.core.plans.micro_batches import visits
from appliance.core.plans.plan import Execution
from appliance.core.pods.pod_options import StreamMode
from appliance.streams.stream_topology import MAX_RING_SLOTS, load_layout
from appliance.streams.torch_views import SlotTensors
from tests.support.masked_plans import masked_plan
from tests.support.narrow_plans import GPT, narrow_plan
from tests.support.plans import two_layer_plan
from workers.csx.loads.kept_places import places_of
from workers.csx.loads.residents import Residents
from workers.csx.system_plan import system_part

EVERYTHING = 1 << 40


def pipelined(plan):
    return dataclasses.replace(plan, execution=Execution.PIPELINED)


def whole(plan):
    return dataclasses.replace(plan, sparse=())


PLANS = {
    "two layers": two_layer_plan(),
    "micro-batches": dataclasses.replace(two_layer_plan(), micro_batch_size=2),
    "pipelined": pipelined(two_layer_plan()),
    "gpt": whole(masked_plan(text=GPT)),
    "gpt pipelined": pipelined(whole(masked_plan(text=GPT))),
    "narrow": narrow_plan(),
    "sparse": masked_plan(text=GPT),
}


def content(plan, name, step):
    """Return what a load holds in a step: the same in every one unless an update changes it."""
    seed = [sum(name.encode()), 0 if name in unchanging(plan) else step]
    return np.random.default_rng(seed).integers(0, 256, streamed_type(plan, name).num_bytes, "u1")


def unchanging(plan):
    sent = deliveries(plan, 1, keep_bytes=EVERYTHING)
    if plan.execution is not Execution.PIPELINED:
        return set()
    again = {name for row in sent.later_steps for name in sent.rows[row]}
    return {name for row in sent.first_step for name in sent.rows[row]} - again


@pytest.mark.parametrize("num_slots", [2, MAX_RING_SLOTS])
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_bridge_far_ahead_overwrites_nothing_that_is_still_read(plan, num_slots):
    order = visits(plan, 1)
    sent = deliveries(plan, 1, keep_bytes=EVERYTHING)
    places = places_of(plan, sent, order)
    if places.scatter is None:
        pytest.fail("nothing is received where it stays")
    sparse = {name for each in plan.sparse for name in each.loads}
    layouts = tuple(load_layout(plan, row) for row in sent.rows)
    views = SlotTensors(layouts)
    residents = Residents(plan, sent, places)
    slot_bytes = max(layout.num_bytes for layout in layouts)
    slots = [np.zeros(slot_bytes, dtype=np.uint8) for _ in range(num_slots)]
    area = np.zeros(places.scatter.area_bytes, dtype=np.uint8)
    residents.receive_in(area)
    num_messages = 3 * len(order)
    received = 0
    for number in range(num_messages):
        # So far a bridge may be: every slot but the visit's own has been filled anew.
        while received < min(number + num_slots, num_messages):
            step, visit = divmod(received, len(order))
            layout = layouts[sent.row(step, visit)]
            message = np.zeros(layout.num_bytes, dtype=np.uint8)
            for item in layout.items:
                end = item.offset + item.type.num_bytes
                message[item.offset : end] = content(plan, item.name, step)
            targets = places.scatter.targets(
                received, len(message), slots[received % num_slots], area
            )
            assert sum(map(len, targets)) == len(message)
            start = 0
            for target in targets:
                target[:] = message[start : start + len(target)]
                start += len(target)
            received += 1
        step, visit = divmod(number, len(order))
        row, layer_step = sent.row(step, visit), order[visit].layer_step
        arrived = views.of(slots[number % num_slots], row)
        loads = residents.loads(layer_step, arrived)
        assert set(loads) == set(plan.layer_steps[layer_step].loads)
        for name, tensor in loads.items():
            if name not in sparse:
                found = tensor.numpy().reshape(-1).view(np.uint8)
                assert found.tobytes() == content(plan, name, step).tobytes(), (name, number)


def test_what_the_next_step_could_overwrite_too_early_is_copied():
    plan = two_layer_plan()
    order = visits(plan, 1)
    sent = deliveries(plan, 1, keep_bytes=EVERYTHING)
    # w2 comes with the second of five visits; the fourth reads it last, three messages before it
    # comes again, and the ring has three slots.
    assert [item.name for item in places_of(plan, sent, order).area.items] == ["w2"]
    # Without the last visit, only two.
    shorter = dataclasses.replace(sent, first_step=sent.first_step[:4], later_steps=(0, 1, 2, 3))
    assert places_of(plan, shorter, order[:4]).scatter is None


def test_in_a_slot_with_sparse_values_everything_is_copied():
    plan = masked_plan(text=GPT)
    order = visits(plan, 1)
    sent = deliveries(plan, 1, keep_bytes=EVERYTHING)
    sparse = {name for each in plan.sparse for name in each.loads}
    placed = {item.name for item in places_of(plan, sent, order).area.items}
    assert placed
    for row in sent.rows:
        if sparse.intersection(row):
            assert not placed.intersection(row)


def test_a_message_of_another_size_has_no_place():
    plan = two_layer_plan()
    sent = deliveries(plan, 1, keep_bytes=EVERYTHING)
    scatter = places_of(plan, sent, visits(plan, 1)).scatter
    slot, area = np.zeros(1 << 16, dtype=np.uint8), np.zeros(scatter.area_bytes, dtype=np.uint8)
    right = load_layout(plan, sent.rows[sent.row(0, 1)]).num_bytes
    assert scatter.targets(1, right, slot, area) is not None
    assert scatter.targets(1, right - 64, slot, area) is None


def test_a_system_that_keeps_nothing_asks_for_no_area():
    plan = two_layer_plan()
    (share,) = split_batch(plan.batch_size, 1)
    for keep_bytes, has_area in ((0, False), (EVERYTHING, True)):
        part = system_part(
            plan, share, num_systems=1, num_shards=1, mode=StreamMode.RING, keep_bytes=keep_bytes
        )
        assert (part.residents.scatter is not None) is has_area
