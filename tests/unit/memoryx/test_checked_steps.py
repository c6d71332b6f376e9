"""What a step compares, and before what."""

import os
import queue
import tempfile
from pathlib import Path

import numpy as np
import pytest

from appliance.core.errors import ClusterError
from appliance.streams.segment import create_file_segment, map_segment
from appliance.streams.slot_layout import SlotLayout
from appliance.streams.stream_topology import packed_layout, state_layout
from tests.support.plans import deep_plan_with_momentum
from workers.memoryx.on_disk.checked_steps import CheckedSteps
from workers.memoryx.on_disk.paging import Paged
from workers.memoryx.on_disk.store_checksums import StoreChecksums

NUM_LAYERS = 4
PLAN = deep_plan_with_momentum(num_layers=NUM_LAYERS, width=32)
LAYER_STEPS = tuple(range(2 * NUM_LAYERS))


def file_of(directory, name, layout):
    descriptor = create_file_segment(Path(directory), name, layout.num_bytes)
    return Paged(layout, map_segment(descriptor), descriptor)


@pytest.fixture
def files():
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as directory:
        files = {
            "state": file_of(directory, "state", state_layout(PLAN)),
            "deferred": file_of(directory, "deferred", SlotLayout.of([])),
            "packed": file_of(directory, "packed", packed_layout(PLAN)),
        }
    yield files
    for paged in files.values():
        os.close(paged.descriptor)


@pytest.fixture
def checksums(files):
    checksums = StoreChecksums(PLAN, Path("/data"), **files)
    yield checksums
    checksums.close()


@pytest.fixture
def steps(checksums):
    """A session whose state has just been given its values."""
    checksums.state.written(tensor.value for tensor in PLAN.state)
    for tensor in PLAN.state:
        checksums.state.compare(tensor.value)
    return CheckedSteps(PLAN, checksums, LAYER_STEPS)


def flip(files, name):
    paged = files["state"]
    place = next(item.offset for item in paged.layout.items if item.name == name)
    (found,) = os.pread(paged.descriptor, 1, place)
    os.pwrite(paged.descriptor, bytes([found ^ 1]), place)


def announce(steps, positions):
    for position in positions:
        steps.before_announcing(position)
        steps.require_loads(position)


def update(steps, files, index, names):
    """Run an update that writes some tensors."""
    steps.before_update(index)
    for name in names:
        item = next(item for item in files["state"].layout.items if item.name == name)
        item.view(files["state"].memory)[...] += np.float32(1)
    steps.after_update(index, lambda: None)


def run_step(steps, files):
    announce(steps, LAYER_STEPS)
    for index in range(NUM_LAYERS):
        layer = NUM_LAYERS - 1 - index
        update(steps, files, index, [f"w{layer}", f"m{layer}"])


def test_steps_whose_file_nobody_changes_find_nothing(steps, files):
    steps.begin()
    for _ in range(3):
        run_step(steps, files)


@pytest.mark.parametrize("layer", range(NUM_LAYERS))
def test_a_weight_is_compared_before_the_forward_pass(steps, files, layer):
    flip(files, f"w{layer}")
    steps.begin()
    announce(steps, range(layer))
    with pytest.raises(ClusterError, match=f"State tensor 'w{layer}' is not what was written"):
        announce(steps, [layer])


@pytest.mark.parametrize("layer", range(NUM_LAYERS - 1))
def test_a_weight_is_compared_again_before_the_backward_pass(steps, files, layer):
    steps.begin()
    announce(steps, range(NUM_LAYERS))
    flip(files, f"w{layer}")
    backward = 2 * NUM_LAYERS - 1 - layer
    announce(steps, range(NUM_LAYERS, backward))
    with pytest.raises(ClusterError, match=f"State tensor 'w{layer}' is not what was written"):
        announce(steps, [backward])


@pytest.mark.parametrize("layer", range(NUM_LAYERS))
def test_a_moment_is_compared_before_its_first_update(steps, files, layer):
    flip(files, f"m{layer}")
    steps.begin()
    announce(steps, LAYER_STEPS)
    index = NUM_LAYERS - 1 - layer
    for before in range(index):
        update(steps, files, before, [])
    with pytest.raises(ClusterError, match=f"State tensor 'm{layer}' is not what was written"):
        update(steps, files, index, [])


@pytest.mark.parametrize("layer", range(NUM_LAYERS - 2))
def test_a_moment_is_compared_again_in_each_step(steps, files, layer):
    steps.begin()
    run_step(steps, files)
    announce(steps, LAYER_STEPS)
    index = NUM_LAYERS - 1 - layer
    for before in range(index - 1):
        update(steps, files, before, [])
    flip(files, f"m{layer}")
    update(steps, files, index - 1, [])
    with pytest.raises(ClusterError, match=f"State tensor 'm{layer}' is not what was written"):
        update(steps, files, index, [])


def test_what_an_update_has_written_is_noted_before_what_comes_after_it(steps, checksums, files):
    steps.begin()
    before = checksums.state.sums("w3")
    steps.before_update(0)
    files["state"].memory[...] += 1
    after = queue.Queue()
    steps.after_update(0, lambda: after.put(checksums.state.sums("w3")))
    assert after.get(timeout=60) not in {before, ()}
