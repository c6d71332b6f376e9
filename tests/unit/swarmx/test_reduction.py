import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.micro_batches import Visit
from appliance.core.tensors import DType, TensorType
from appliance.streams.layout import SlotLayout
from appliance.swarmx.reduction import Accumulation, Reduction, spans

LAYOUT = SlotLayout.of([
    ("a", TensorType((3, 5), DType.F32)),
    ("b", TensorType((7,), DType.F32)),
    ("empty", TensorType((0,), DType.F32)),
    ("count", TensorType((), DType.I64)),
    ("c", TensorType((2,), DType.BF16)),
])  # fmt: skip


def slots_of(values):
    """Return one slot for each system, with its values in every tensor."""
    slots = []
    for value in values:
        slot = np.zeros(LAYOUT.num_bytes, dtype=np.uint8)
        for view in LAYOUT.views(slot).values():
            view[...] = value
        slots.append(slot)
    return slots


def reduce(slots, *, fan_in=2):
    total = np.zeros(LAYOUT.num_bytes, dtype=np.uint8)
    taken = []

    def take(system):
        taken.append(system)
        return slots[system]

    Reduction(len(slots), fan_in=fan_in).run(spans(LAYOUT), take, total)
    assert taken == list(range(len(slots)))
    return LAYOUT.views(total)


def test_neighbours_of_one_element_type_are_added_in_one_go():
    assert [(span.dtype.name, span.start, span.end) for span in spans(LAYOUT)] == [
        ("float32", 0, 92),
        ("int64", 128, 136),
        ("float32", 192, 200),
    ]


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=20), st.integers(2, 5))
def test_every_tensor_becomes_the_sum_over_the_systems(values, fan_in):
    for name, total in reduce(slots_of(values), fan_in=fan_in).items():
        assert np.all(total == sum(values)), name


@given(
    st.lists(st.integers(-(2**20), 2**20).map(lambda value: value * 1.1), min_size=1, max_size=12),
    st.integers(2, 4),
)
def test_the_bits_follow_from_the_tree_alone(values, fan_in):
    want = [np.float32(value) for value in values]
    width = 1
    while width < len(want):
        for first in range(0, len(want), width * fan_in):
            for child in range(first + width, min(first + width * fan_in, len(want)), width):
                want[first] += want[child]
        width *= fan_in
    layout = SlotLayout.of([("a", TensorType((), DType.F32))])
    slots = [np.zeros(64, dtype=np.uint8) for _ in values]
    for slot, value in zip(slots, values, strict=True):
        slot[:4].view(np.float32)[:] = value
    total = np.zeros(64, dtype=np.uint8)
    Reduction(len(values), fan_in=fan_in).run(spans(layout), slots.__getitem__, total)
    assert total[:4].tobytes() == want[0].tobytes()


def test_an_overflow_is_a_sum_like_any_other():
    slots = slots_of([0, 0])
    for slot in slots:
        LAYOUT.views(slot)["a"][...] = 3e38
    assert np.all(np.isinf(reduce(slots)["a"]))


@pytest.mark.parametrize("num_micro_batches", [1, 2, 4])
def test_the_sums_of_micro_batches_are_added_anew_in_every_step(num_micro_batches):
    accumulation = Accumulation([LAYOUT, LAYOUT])
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
                target = total if is_last else accumulation.target(visit)
                target[:] = slots_of([10 * step + layer_step + 1])[0]
                accumulation.add(visit, spans(LAYOUT), target)
                if is_last:
                    want = num_micro_batches * (10 * step + layer_step + 1)
                    for name, view in LAYOUT.views(total).items():
                        assert np.all(view == want), name
