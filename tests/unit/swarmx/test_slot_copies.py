import dataclasses

import numpy as np

from appliance.streams.stream_topology import computed_layout, load_layout, state_layout
from tests.support.plans import two_layer_plan
from workers.swarmx.slot_copies import broadcast_copies


def copies(plan):
    return broadcast_copies(plan, [plan], [step.loads for step in plan.layer_steps])


def with_loads(plan, index, loads):
    steps = list(plan.layer_steps)
    steps[index] = dataclasses.replace(steps[index], loads=loads)
    return dataclasses.replace(plan, layer_steps=tuple(steps))


def test_tensors_that_are_adjacent_in_store_and_slot_are_copied_in_one_go():
    plan = with_loads(two_layer_plan(), 0, ("w1", "scale", "w2"))
    (copy,) = copies(plan)[0]
    assert (copy.segment, copy.source, copy.target) == ("state", 0, 0)
    assert copy.num_bytes == 512 + 64 + 256


def test_tensors_in_another_order_are_copied_one_by_one():
    plan = with_loads(two_layer_plan(), 3, ("w2", "w1"))
    assert [(copy.source, copy.target) for copy in copies(plan)[3]] == [
        (512, 0),
        (0, 256),
    ]


def test_a_layer_step_without_loads_copies_nothing():
    assert copies(two_layer_plan())[4] == ()


def test_a_slot_receives_what_the_store_holds():
    plan = with_loads(two_layer_plan(), 2, ("w1", "gs", "scale", "w2"))
    memory = {}
    for segment, layout in (("state", state_layout(plan)), ("computed", computed_layout(plan))):
        memory[segment] = np.zeros(layout.num_bytes, dtype=np.uint8)
        for number, view in enumerate(layout.views(memory[segment]).values()):
            view[...] = number + len(segment)
    layout = load_layout(plan, plan.layer_steps[2].loads)
    slot = np.zeros(layout.num_bytes, dtype=np.uint8)
    for copy in copies(plan)[2]:
        slot[copy.target :][: copy.num_bytes] = memory[copy.segment][copy.source :][
            : copy.num_bytes
        ]
    means = {name: float(view.mean()) for name, view in layout.views(slot).items()}
    assert means == {"w1": 5.0, "gs": 8.0, "scale": 7.0, "w2": 6.0}
