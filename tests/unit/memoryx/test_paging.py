"""What MemoryX keeps in memory of state that lies in a file."""

import ctypes
import dataclasses
import mmap
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from appliance.core.ir.tensors import DType
from appliance.streams.segment import create_file_segment
from appliance.streams.stream_topology import state_layout
from appliance.streams.torch_views import tensors_of
from tests.support.plans import deep_plan_with_momentum
from tests.support.waiting import wait_until
from workers.memoryx.on_disk.paging import Paged, Paging, used_once_a_step

NUM_LAYERS, WIDTH = 4, 512
MOMENT_BYTES = WIDTH * WIDTH * 4


def plan_with_momentum():
    return deep_plan_with_momentum(num_layers=NUM_LAYERS, width=WIDTH)


@pytest.fixture
def paged():
    """State of the plan in a file, written and in memory."""
    layout = state_layout(plan_with_momentum())
    # The checkout lies on a disk, which the directory for temporary files need not.
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as directory:
        descriptor = create_file_segment(Path(directory), "state", layout.num_bytes)
    memory = np.frombuffer(mmap.mmap(descriptor, layout.num_bytes), dtype=np.uint8)
    memory[...] = 1
    yield Paged(layout, memory, descriptor)
    os.close(descriptor)


@pytest.fixture
def paging_with(paged):
    """Make the paging of the plan, given the memory that tensors may take."""
    made = []

    def make(room_bytes):
        plan = plan_with_momentum()
        none = dataclasses.replace(paged, layout=dataclasses.replace(paged.layout, items=()))
        order = range(len(plan.layer_steps))
        made.append(Paging(plan, paged, none, order, room_bytes=room_bytes))
        return made[0]

    yield make
    for each in made:
        each.close()


def resident_bytes(paged, name):
    """Return how much of a tensor the kernel has in memory, whole pages."""
    item = next(item for item in paged.layout.items if item.name == name)
    first = -(-item.offset // mmap.PAGESIZE) * mmap.PAGESIZE
    num_pages = (item.offset + item.type.num_bytes) // mmap.PAGESIZE - first // mmap.PAGESIZE
    found = (ctypes.c_ubyte * num_pages)()
    address = ctypes.c_void_p(paged.memory.ctypes.data + first)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mincore(address, ctypes.c_size_t(num_pages * mmap.PAGESIZE), found) == 0
    return sum(page & 1 for page in found) * mmap.PAGESIZE


def test_what_only_updates_use_is_used_once_with_the_last_that_does():
    names = [set(each) for each in used_once_a_step(plan_with_momentum())]
    for layer, found in zip(reversed(range(NUM_LAYERS)), names, strict=True):
        assert f"m{layer}" in found
        assert not found & {f"w{i}" for i in range(NUM_LAYERS)}
        assert {name for name in found if name.startswith("m")} == {f"m{layer}"}


def test_weights_that_are_sent_as_packed_copies_are_used_once():
    plan = dataclasses.replace(
        plan_with_momentum(), packed={f"w{i}": DType.BF16 for i in range(NUM_LAYERS)}
    )
    assert all(
        f"w{layer}" in found
        for layer, found in zip(reversed(range(NUM_LAYERS)), used_once_a_step(plan), strict=True)
    )


def test_moments_without_room_leave_memory_and_keep_their_values(paged, paging_with):
    paging = paging_with(0)
    tensors_of(paged.layout, paged.memory)["m3"].fill_(2.5)
    for update in range(2):
        paging.after_update(update)
    wait_until(lambda: resident_bytes(paged, "m3") == 0, seconds=60, what="the moment's departure")
    assert resident_bytes(paged, "w3") > 0
    assert resident_bytes(paged, "m1") > 0
    assert bool((tensors_of(paged.layout, paged.memory)["m3"] == 2.5).all())


def test_moments_stay_as_long_as_there_is_room(paged, paging_with):
    paging = paging_with((NUM_LAYERS + 1) * MOMENT_BYTES)
    for update in range(3):
        paging.after_update(update)
    wait_until(lambda: resident_bytes(paged, "m2") == 0, seconds=60, what="the second's departure")
    assert resident_bytes(paged, "m3") > 0
