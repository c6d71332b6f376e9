"""What is copied of the state, and when."""

import numpy as np
import pytest

from appliance.core.cluster.run import RunSchedule
from appliance.core.errors import ClusterError, NotFoundError
from appliance.core.ir.tensors import DType, TensorType
from appliance.streams.slot_layout import SlotLayout
from appliance.streams.stream_topology import STATE_SEGMENT, snapshot_segment
from workers.memoryx.snapshots import Snapshots

LAYOUT = SlotLayout.of([(name, TensorType((4,), DType.F32)) for name in ("w1", "w2")])


class Served:
    """The segments that a store's server would serve, by name."""

    def __init__(self):
        self.segments = {}

    def add_segment(self, name, layout, directory):
        assert name not in self.segments
        self.segments[name] = np.zeros(layout.num_bytes, np.uint8)
        return self.segments[name]

    def remove_segment(self, name):
        del self.segments[name]


@pytest.fixture
def served():
    return Served()


@pytest.fixture
def state():
    state = np.zeros(LAYOUT.num_bytes, np.uint8)
    fill(state, 1.0)
    return state


@pytest.fixture
def snapshots(served, state, tmp_path):
    return Snapshots(served, LAYOUT, state, tmp_path)


def fill(state, value):
    for view in LAYOUT.views(state).values():
        view[...] = value


def values(served, number):
    views = LAYOUT.views(served.segments[snapshot_segment(number)])
    return {name: float(view.mean()) for name, view in views.items()}


def test_what_is_overwritten_is_copied_once_into_one_segment(snapshots, served, state):
    snapshots.keep(1)
    snapshots.preserve(["w1"])
    snapshots.preserve(["w1", "w2"])
    fill(state, 2.0)
    snapshots.preserve(["w1", "w2"])
    assert values(served, 1) == {"w1": 1.0, "w2": 1.0}
    assert snapshots.num_bytes_copied == 2 * 16


def test_each_snapshot_has_the_values_of_its_step(snapshots, served, state):
    for number in (1, 2):
        snapshots.preserve(["w1", "w2"])
        fill(state, float(number))
        snapshots.keep(number)
    snapshots.preserve(["w1", "w2"])
    fill(state, 3.0)
    assert values(served, 1) == {"w1": 1.0, "w2": 1.0}
    assert values(served, 2) == {"w1": 2.0, "w2": 2.0}


def test_nothing_is_copied_of_a_state_that_stays(snapshots, served):
    snapshots.keep(1)
    snapshots.settle()
    assert snapshots.locate(1, "w1") == STATE_SEGMENT
    assert served.segments == {}
    snapshots.release(1)


def test_a_tensor_that_is_fetched_while_updates_go_on_is_copied(snapshots, served):
    snapshots.keep(1)
    assert snapshots.locate(1, "w2") == snapshot_segment(1)
    assert values(served, 1) == {"w1": 0.0, "w2": 1.0}
    snapshots.release(1)
    assert served.segments == {}
    with pytest.raises(NotFoundError, match="was released before"):
        snapshots.release(1)
    with pytest.raises(NotFoundError, match="after step 1 is not kept"):
        snapshots.locate(1, "w2")


def test_a_snapshot_that_is_released_before_it_is_taken_is_not_taken(snapshots):
    snapshots.release(1)
    snapshots.keep(1)
    with pytest.raises(NotFoundError, match="is not kept"):
        snapshots.locate(1, "w1")


@pytest.mark.parametrize(
    ("checkpoints", "is_refused"),
    [({2}, True), ({2, 5}, True), ({5}, False), ({9}, False), (set(), False)],
)
def test_a_run_whose_checkpoints_the_disk_cannot_hold_is_refused_before_its_first_step(
    served, state, tmp_path, checkpoints, is_refused
):
    layout = SlotLayout.of([("w", TensorType((1 << 50,), DType.F32))])
    schedule = RunSchedule(num_steps=5, output_interval=1, checkpoint_steps=frozenset(checkpoints))
    snapshots = Snapshots(served, layout, state, tmp_path)
    if not is_refused:
        snapshots.require_room(schedule)
        return
    with pytest.raises(ClusterError, match=r"needs 4,503,599,627,370,496 bytes in .* are free"):
        snapshots.require_room(schedule)


def test_a_run_whose_checkpoints_have_room_begins(snapshots):
    schedule = RunSchedule(num_steps=5, output_interval=1, checkpoint_steps=frozenset({2}))
    snapshots.require_room(schedule)
