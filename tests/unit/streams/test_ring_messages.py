"""How a ring's memory is divided into slots."""

import numpy as np
import pytest

from appliance.streams.ring_messages import slots_of, stride_of


@pytest.mark.parametrize(("size", "stride"), [(0, 0), (1, 4096), (4096, 4096), (4097, 8192)])
def test_slots_begin_at_whole_pages(size, stride):
    assert stride_of(size) == stride


def test_slots_are_views_that_do_not_overlap():
    memory = np.zeros(3 * stride_of(5000), np.uint8)
    slots = slots_of(memory, 3, 5000)
    for number, slot in enumerate(slots, 1):
        slot[:] = number
    assert [slot.size for slot in slots] == [5000] * 3
    assert [int(memory[i * stride_of(5000)]) for i in range(3)] == [1, 2, 3]
    assert int((memory != 0).sum()) == 15_000
