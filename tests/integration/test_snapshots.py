"""Snapshots of the state copy only what the next update is about to overwrite."""

import threading

import numpy as np
import pytest

from appliance.core.errors import NotFoundError
from appliance.core.ir.tensors import DType, TensorType
from appliance.streams.slot_layout import SlotLayout
from appliance.streams.store import StoreServer, attach_store
from appliance.streams.stream_topology import STATE_SEGMENT, snapshot_segment
from workers.memoryx.snapshots import MAX_SNAPSHOTS, Snapshots

LAYOUT = SlotLayout.of((name, TensorType((100,), DType.F32)) for name in "abc")


class Store:
    """A store with three tensors, as MemoryX has it."""

    def __init__(self, directory):
        self.server = StoreServer(str(directory / "store.sock"))
        self.state = self.server.add_segment(STATE_SEGMENT, LAYOUT)
        self.snapshots = Snapshots(self.server, LAYOUT, self.state, directory)
        self.client = attach_store(str(directory / "store.sock"))

    def update(self, name, value):
        """Overwrite a tensor as an update does."""
        self.snapshots.preserve([name])
        LAYOUT.views(self.state)[name][...] = value

    def fetch(self, number, name):
        """Return where a tensor of a snapshot was found, and its value."""
        segment = self.snapshots.locate(number, name)
        (value,) = set(LAYOUT.views(self.client.attach(segment))[name])
        return segment, float(value)


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path)
    yield made
    made.snapshots.close()
    made.client.close()
    made.server.close()


def test_only_what_is_overwritten_before_it_is_fetched_is_copied(store):
    for name, value in zip("abc", (1, 2, 3), strict=True):
        store.update(name, value)
    store.snapshots.keep(1)
    assert store.snapshots.num_bytes_copied == 0
    store.update("a", 10)
    store.update("a", 11)
    assert store.snapshots.num_bytes_copied == 400
    assert store.fetch(1, "a") == (snapshot_segment(1), 1)
    assert store.fetch(1, "b") == (snapshot_segment(1), 2)
    store.update("b", 20)
    assert store.fetch(1, "b") == (snapshot_segment(1), 2)
    assert store.snapshots.num_bytes_copied == 800


def test_after_the_last_step_the_state_itself_is_read(store):
    store.update("a", 1)
    store.snapshots.keep(5)
    store.update("a", 2)
    store.snapshots.keep(6)
    store.snapshots.settle()
    assert store.fetch(6, "a") == (STATE_SEGMENT, 2)
    assert store.fetch(5, "a") == (snapshot_segment(5), 1)
    assert store.fetch(5, "c") == (STATE_SEGMENT, 0)


def test_two_snapshots_have_values_of_their_own(store):
    for number in (1, 2):
        store.update("a", number)
        store.snapshots.keep(number)
    store.update("a", 3)
    assert [store.fetch(number, "a")[1] for number in (1, 2)] == [1, 2]


def test_a_step_waits_when_too_many_snapshots_are_kept(store):
    for number in range(MAX_SNAPSHOTS):
        store.snapshots.keep(number)
    thread = threading.Thread(target=store.snapshots.keep, args=(99,))
    thread.start()
    with pytest.raises(NotFoundError, match="The state after step 99 is not kept"):
        store.snapshots.locate(99, "a")
    store.snapshots.release(0)
    thread.join(120)
    assert not thread.is_alive()
    assert store.fetch(99, "a")[1] == 0


def test_closing_ends_the_wait(store):
    for number in range(MAX_SNAPSHOTS):
        store.snapshots.keep(number)
    thread = threading.Thread(target=store.snapshots.keep, args=(99,))
    thread.start()
    store.snapshots.close()
    thread.join(120)
    assert not thread.is_alive()


def test_a_snapshot_that_is_released_before_its_step_is_never_taken(store):
    store.snapshots.release(3)
    store.snapshots.keep(3)
    store.update("a", 1)
    assert store.snapshots.num_bytes_copied == 0
    with pytest.raises(NotFoundError, match="The state after step 3 is not kept"):
        store.snapshots.locate(3, "a")
    with pytest.raises(NotFoundError, match="The state after step 3 was released before"):
        store.snapshots.release(3)


def test_snapshots_leave_nothing_in_the_directory(store, tmp_path):
    store.snapshots.keep(1)
    store.update("a", 1)
    assert np.any(store.client.attach(snapshot_segment(1)) == 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store.sock"]


def test_the_copies_are_freed_when_the_snapshot_is_released(store):
    store.snapshots.keep(1)
    store.update("a", 1)
    store.snapshots.release(1)
    with pytest.raises(NotFoundError):
        store.client.attach(snapshot_segment(1))
