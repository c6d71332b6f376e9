import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.cluster.swarmx_tree import FAN_OUTS, swarmx_tree
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.plans.micro_batches import Visit
from appliance.streams.slot_layout import SlotLayout, Span
from workers.swarmx.reduction import Accumulation, Pending, PlacedSpan, Reduction, parts

LAYOUT = SlotLayout.of([
    ("a", TensorType((3, 5), DType.F32)),
    ("b", TensorType((7,), DType.F32)),
    ("empty", TensorType((0,), DType.F32)),
    ("count", TensorType((), DType.I64)),
    ("c", TensorType((2,), DType.BF16)),
])  # fmt: skip
WHOLE = parts(LAYOUT, LAYOUT)


def slots_of(values):
    """Return one slot for each system, with its values in every tensor."""
    slots = []
    for value in values:
        slot = np.zeros(LAYOUT.num_bytes, dtype=np.uint8)
        for view in LAYOUT.views(slot).values():
            view[...] = value
        slots.append(slot)
    return slots


def reduce(slots):
    total = np.zeros(LAYOUT.num_bytes, dtype=np.uint8)
    taken = []

    def take(system):
        taken.append(system)
        return slots[system]

    Reduction(len(slots)).run(WHOLE, take).write(total, WHOLE)
    assert taken == list(range(len(slots)))
    return LAYOUT.views(total)


def test_adjacent_spans_of_one_element_type_are_added_in_one_go():
    assert (
        PlacedSpan(span=Span(dtype=np.dtype("float32"), start=0, end=92), target=0),
        PlacedSpan(span=Span(dtype=np.dtype("int64"), start=128, end=136), target=128),
        PlacedSpan(span=Span(dtype=np.dtype("float32"), start=192, end=200), target=192),
    ) == WHOLE


@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.sets(st.sampled_from("abc")))
def test_each_shard_receives_the_sums_that_it_needs(one, other, names):
    items = [(item.name, item.type) for item in LAYOUT.items]
    rest = {name for name, _ in items} - names
    pending = Reduction(2).run(WHOLE, slots_of([one, other]).__getitem__)
    for wanted in (names, rest):
        layout = SlotLayout.of([(name, type_) for name, type_ in items if name in wanted])
        slot = np.zeros(layout.num_bytes, dtype=np.uint8)
        pending.write(slot, parts(LAYOUT, layout))
        for name, view in layout.views(slot).items():
            assert np.all(view == one + other), name


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=20))
def test_every_tensor_becomes_the_sum_over_the_systems(values):
    for name, total in reduce(slots_of(values)).items():
        assert np.all(total == sum(values)), name


UNEVEN = st.integers(-(2**20), 2**20).map(lambda value: value * 1.1)


@given(st.lists(UNEVEN, min_size=1, max_size=12))
def test_the_bits_follow_from_the_tree_alone(values):
    want = [np.float32(value) for value in values]
    width = 1
    while width < len(want):
        for first in range(0, len(want) - width, 2 * width):
            want[first] += want[first + width]
        width *= 2
    assert added([np.float32(value) for value in values]).tobytes() == want[0].tobytes()


@given(st.lists(UNEVEN, min_size=1, max_size=70), st.sampled_from(FAN_OUTS))
def test_any_number_of_pods_adds_up_to_the_same_bits(values, fan_out):
    parts = [np.float32(value) for value in values]
    pods = swarmx_tree(len(parts), fan_out=fan_out)

    def sum_of(pod):
        return added([
            parts[child.first_system] if child.pod is None else sum_of(pods[child.pod])
            for child in pod.children
        ])  # fmt: skip

    assert sum_of(pods[0]).tobytes() == added(parts).tobytes()


def added(values):
    """Return what one pod makes of a number of each child."""
    layout = SlotLayout.of([("a", TensorType((), DType.F32))])
    slots = [np.zeros(64, dtype=np.uint8) for _ in values]
    for slot, value in zip(slots, values, strict=True):
        slot[:4].view(np.float32)[:] = value
    total = np.zeros(64, dtype=np.uint8)
    whole = parts(layout, layout)
    Reduction(len(values)).run(whole, slots.__getitem__).write(total, whole)
    return total[:4].view(np.float32)[0]


def test_an_overflow_is_a_sum_like_any_other():
    slots = slots_of([0, 0])
    for slot in slots:
        LAYOUT.views(slot)["a"][...] = 3e38
    assert np.all(np.isinf(reduce(slots)["a"]))


@pytest.mark.parametrize("num_micro_batches", [1, 2, 4])
def test_the_sums_of_micro_batches_are_added_anew_in_every_step(num_micro_batches):
    accumulation = Accumulation([LAYOUT.num_bytes] * 2)
    total = np.zeros(LAYOUT.num_bytes, dtype=np.uint8)
    for step in range(2):
        for micro_batch in range(num_micro_batches):
            is_last = micro_batch == num_micro_batches - 1
            for layer_step in range(2):
                visit = Visit(
                    layer_step=layer_step,
                    micro_batch=micro_batch,
                    is_first=micro_batch == 0,
                    is_last=is_last,
                )
                (slot,) = slots_of([10 * step + layer_step + 1])
                pending = accumulation.add(visit, WHOLE, Pending(left=slot))
                slot[:] = 0
                assert (pending is not None) == is_last
                if num_micro_batches == 1:
                    assert pending.left is slot
                elif pending is not None:
                    pending.write(total, WHOLE)
                    want = num_micro_batches * (10 * step + layer_step + 1)
                    for name, view in LAYOUT.views(total).items():
                        assert np.all(view == want), name
