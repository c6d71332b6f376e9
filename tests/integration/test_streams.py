"""The shared-memory ring and the store, between real processes."""

import contextlib
import multiprocessing
import os
import signal
import threading

import numpy as np
import pytest

from appliance.core.errors import (
    InternalError,
    NotFoundError,
    StreamAbandonedError,
    StreamClosedError,
)
from appliance.core.ir.tensors import DType, TensorType
from appliance.streams.shared_memory import connect_ring, serve_ring
from appliance.streams.slot_layout import SlotLayout
from appliance.streams.store import StoreServer, attach_store

_SPAWN = multiprocessing.get_context("spawn")
_SECONDS = 120.0


@pytest.fixture
def address(tmp_path):
    return str(tmp_path / "1-ring.stream")


@contextlib.contextmanager
def child(target, *arguments):
    process = _SPAWN.Process(target=target, args=arguments, daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def write_counters(address, num_messages, num_readers):
    with serve_ring(
        address, name="ring", num_slots=3, slot_bytes=24, num_readers=num_readers, owner="w-0"
    ) as writer:
        for number in range(num_messages):
            writer.reserve(_SECONDS).view(np.int64)[:] = number
            writer.publish()
        writer.end()


def write_then_hang(address, num_messages):
    writer = serve_ring(
        address, name="ring", num_slots=3, slot_bytes=24, num_readers=1, owner="w-0"
    )
    for number in range(num_messages):
        writer.reserve(_SECONDS).view(np.int64)[:] = number
        writer.publish()
    threading.Event().wait()


def read_all(address, store_address):
    """Read the whole ring; leave the sum of what was read in the store."""
    total = attach_store(store_address).attach("total")[:8].view(np.int64)
    with connect_ring(address, name="ring", timeout_seconds=_SECONDS, reader="r-1") as reader:
        while (slot := reader.acquire(_SECONDS)) is not None:
            total += int(slot.view(np.int64)[1])
            del slot
            reader.release()


def connect_then_hang(address):
    reader = connect_ring(address, name="ring", timeout_seconds=_SECONDS, reader="r-0")
    reader.acquire(_SECONDS)
    threading.Event().wait()


@pytest.mark.slow
def test_every_reader_sees_every_slot_in_order(address, tmp_path):
    num_messages = 2000
    store_address = str(tmp_path / "1-store.stream")
    layout = SlotLayout.of([("total", TensorType((1,), DType.I64))])
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(StoreServer(store_address))
        total = store.add_segment("total", layout)[:8].view(np.int64)
        stack.enter_context(child(write_counters, address, num_messages, 2))
        other = stack.enter_context(child(read_all, address, store_address))
        reader = stack.enter_context(connect_ring(address, name="ring", timeout_seconds=_SECONDS))
        for number in range(num_messages):
            slot = reader.acquire(_SECONDS)
            assert slot is not None
            assert list(slot.view(np.int64)) == [number] * 3
            reader.release()
        assert reader.acquire(_SECONDS) is None
        assert reader.acquire(_SECONDS) is None
        other.join(_SECONDS)
        assert total[0] == sum(range(num_messages))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_killed_writer_is_named_after_its_last_message(address):
    with (
        child(write_then_hang, address, 2) as writer,
        connect_ring(address, name="ring", timeout_seconds=_SECONDS) as reader,
    ):
        assert reader.acquire(_SECONDS) is not None
        assert reader.acquire(_SECONDS) is not None
        os.kill(writer.pid, signal.SIGKILL)
        with pytest.raises(StreamClosedError, match=r"Stream 'ring' lost its writer w-0 after 2"):
            reader.acquire(_SECONDS)


@pytest.mark.slow
def test_a_killed_reader_is_named_to_the_waiting_writer(address):
    with (
        serve_ring(address, name="ring", num_slots=3, slot_bytes=8, num_readers=1) as writer,
        child(connect_then_hang, address) as reader,
    ):
        for _ in range(3):
            writer.reserve(_SECONDS)
            writer.publish()
        threading.Timer(0.05, reader.kill).start()
        with pytest.raises(StreamClosedError, match=r"Stream 'ring' lost its reader r-0"):
            writer.reserve(_SECONDS)


def pair(address, *, num_slots=3, slot_bytes=64):
    writer = serve_ring(
        address, name="ring", num_slots=num_slots, slot_bytes=slot_bytes, num_readers=1
    )
    reader = connect_ring(address, name="ring", timeout_seconds=_SECONDS)
    return writer, reader


def test_the_writer_waits_for_the_slowest_slot(address):
    writer, reader = pair(address, num_slots=2)
    with writer, reader:
        for _ in range(2):
            writer.reserve(_SECONDS)
            writer.publish()
        with pytest.raises(TimeoutError, match="no slot became free"):
            writer.reserve(0.01)
        reader.acquire(_SECONDS)
        reader.release()
        writer.reserve(_SECONDS)


def test_the_slot_after_the_next_may_be_reserved_before_the_next_is_published(address):
    writer, reader = pair(address)
    with writer, reader:
        first, second = writer.reserve(_SECONDS), writer.reserve(_SECONDS, ahead=1)
        second[:], first[:] = 2, 1
        writer.publish()
        writer.publish()
        assert [bytes(reader.acquire(_SECONDS)[:1]) for _ in range(2)] == [b"\x01", b"\x02"]
        with pytest.raises(InternalError, match="publish without reserve"):
            writer.publish()


def test_a_slot_ahead_is_waited_for_like_any_other(address):
    writer, reader = pair(address)
    with writer, reader:
        for _ in range(writer.num_slots - 1):
            writer.reserve(_SECONDS)
            writer.publish()
        writer.reserve(_SECONDS)
        with pytest.raises(TimeoutError, match="no slot became free"):
            writer.reserve(0.0, ahead=1)
        reader.acquire(_SECONDS)
        reader.release()
        writer.reserve(_SECONDS, ahead=1)


def test_a_reader_may_hold_several_slots(address):
    writer, reader = pair(address)
    with writer, reader:
        for number in range(3):
            writer.reserve(_SECONDS)[:] = number
            writer.publish()
        slots = [reader.acquire(_SECONDS) for _ in range(3)]
        assert [int(slot[0]) for slot in slots if slot is not None] == [0, 1, 2]
        assert reader.num_held == 3
        for left in (2, 1, 0):
            reader.release()
            assert reader.num_held == left
        with pytest.raises(InternalError, match="release without acquire"):
            reader.release()


def test_a_reader_that_finds_nothing_times_out(address):
    writer, reader = pair(address)
    with writer, reader, pytest.raises(TimeoutError, match="published nothing"):
        reader.acquire(0.01)


def test_slots_may_be_empty(address):
    writer, reader = pair(address, slot_bytes=0)
    with writer, reader:
        assert writer.reserve(_SECONDS).size == 0
        assert writer.publish() == 0
        slot = reader.acquire(_SECONDS)
        assert slot is not None
        assert slot.size == 0


def test_closing_wakes_a_waiting_reader(address):
    writer, reader = pair(address)
    with writer, reader:
        threading.Timer(0.05, reader.close).start()
        with pytest.raises(StreamClosedError, match="closed by this pod"):
            reader.acquire(_SECONDS)


def test_closing_wakes_a_writer_that_waits_for_readers(address, tmp_path):
    with serve_ring(address, name="ring", num_slots=1, slot_bytes=8, num_readers=1) as writer:
        threading.Timer(0.05, writer.close).start()
        with pytest.raises(StreamClosedError, match="closed by this pod"):
            writer.reserve(_SECONDS)
    assert list(tmp_path.iterdir()) == []


def test_a_writer_may_leave_after_the_end_with_slots_still_out(address):
    writer, reader = pair(address)
    with writer, reader:
        for _ in range(2):
            writer.reserve(_SECONDS)[:] = 7
            writer.publish()
        slot = reader.acquire(_SECONDS)
        reader.release()
        writer.end()
        writer.close()
        assert slot is not None
        assert slot[0] == 7
        assert reader.acquire(_SECONDS) is not None
        reader.release()
        assert reader.acquire(_SECONDS) is None


def test_a_reader_that_leaves_in_order_is_told_apart_from_one_that_dies(address):
    writer, reader = pair(address, num_slots=1)
    with writer, reader:
        writer.reserve(_SECONDS)
        writer.publish()
        reader.close()
        with pytest.raises(StreamAbandonedError, match="abandoned by its reader"):
            writer.reserve(_SECONDS)


def test_a_writer_that_leaves_in_order_is_told_apart_from_one_that_dies(address):
    writer, reader = pair(address)
    with writer, reader:
        writer.reserve(_SECONDS)
        writer.publish()
        writer.close()
        assert reader.acquire(_SECONDS) is not None
        with pytest.raises(StreamAbandonedError, match="abandoned by its writer"):
            reader.acquire(_SECONDS)


def test_asking_for_another_stream_is_refused_and_harms_nobody(address):
    with serve_ring(address, name="ring", num_slots=1, slot_bytes=8, num_readers=1) as writer:
        with pytest.raises(StreamClosedError, match="serves 'ring', not 'sums'"):
            connect_ring(address, name="sums", timeout_seconds=_SECONDS)
        with connect_ring(address, name="ring", timeout_seconds=_SECONDS):
            writer.reserve(_SECONDS)


def test_a_stream_that_nobody_serves_is_named(address):
    with pytest.raises(StreamClosedError, match=r"Nobody served stream 'ring'"):
        connect_ring(address, name="ring", timeout_seconds=0.02)


def test_publishing_what_was_not_reserved_is_our_defect(address):
    writer, reader = pair(address)
    with writer, reader, pytest.raises(InternalError, match="publish without reserve"):
        writer.publish()


def test_an_attached_segment_is_the_same_memory_with_its_layout(tmp_path):
    store_address = str(tmp_path / "1-store.stream")
    names = [f"state.model.block.{index}.weight" for index in range(5000)]
    layout = SlotLayout.of((name, TensorType((2, 3), DType.F32)) for name in names)
    with StoreServer(store_address) as store, attach_store(store_address) as client:
        own = store.add_segment("state", layout)
        attached = client.attach("state")
        assert client.layout("state") == layout
        layout.items[4321].view(attached)[1, 2] = 5.0
        assert layout.items[4321].view(own)[1, 2] == 5.0
        store.remove_segment("state")
        client.detach("state")
        with pytest.raises(NotFoundError, match="no segment 'state'"):
            client.attach("state")


def test_a_segment_may_be_empty(tmp_path):
    store_address = str(tmp_path / "1-store.stream")
    with StoreServer(store_address) as store, attach_store(store_address) as client:
        store.add_segment("computed", SlotLayout.of([]))
        assert client.attach("computed").size == 0
        assert client.layout("computed").items == ()
