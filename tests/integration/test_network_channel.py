"""A connection between two hosts by itself: sending from a segment's pages, and its settings."""

import contextlib
import gc
import os
import socket
import threading
import warnings

import numpy as np
import pytest
import xxhash

from appliance.core.clock import SystemClock
from appliance.core.errors import InternalError
from appliance.streams.network.channel import Channel, open_channel
from appliance.streams.network.checksums import Checksums
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.server import connect, prepare
from appliance.streams.network.tcp_frames import ChannelBrokenError, Frame, Kind
from appliance.streams.segment import Extent, create_segment, map_segment
from appliance.streams.shared_memory import connect_ring, local_ring, serve_ring

_SECONDS = 120.0
_BUFFER_BYTES = 1 << 16
_NUM_BYTES = 8_000_000
_BEFORE = 4096 + 7
"""Where the run begins: not where a page does."""


@contextlib.contextmanager
def connected():
    """Yield both ends of a TCP connection with small buffers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
    with near, far:
        yield near, far


@contextlib.contextmanager
def random_extent():
    """Yield an extent of a segment with random bytes around it."""
    descriptor = create_segment("test", _NUM_BYTES + 2 * _BEFORE)
    memory = map_segment(descriptor)
    memory[:] = np.random.default_rng(5).integers(0, 256, len(memory), dtype=np.uint8)
    view = memory[_BEFORE : _BEFORE + _NUM_BYTES].data
    yield Extent(view=view, descriptor=descriptor, offset=_BEFORE)
    os.close(descriptor)


class CountingChannel(Channel):
    """Says when the kernel has let it wait in vain a few times."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.num_waits, self.has_waited = 0, threading.Event()

    def _send_file(self, descriptor, offset, num_bytes):
        count = super()._send_file(descriptor, offset, num_bytes)
        self.num_waits += count == 0
        if self.num_waits == 3:
            self.has_waited.set()
        return count


def frame_of(extent):
    return Frame(kind=Kind.DATA, number=3, amount=len(extent.view))


def test_an_extent_arrives_whole_although_its_reader_keeps_the_sender_waiting():
    options = NetworkOptions(
        ping_seconds=0.02, silence_seconds=_SECONDS, gone_seconds=600, block_bytes=3_000_001
    )
    with connected() as (near, far), random_extent() as extent:
        sender = CountingChannel(near, peer="far", options=options, clock=SystemClock())
        reader = open_channel(far, peer="near", options=options, clock=SystemClock())
        sending = threading.Thread(
            target=sender.send_extent, args=(frame_of(extent), extent), daemon=True
        )
        sending.start()
        assert sender.has_waited.wait(_SECONDS)
        assert reader.receive_frame(lambda: None) == frame_of(extent)
        target = bytearray(_NUM_BYTES)
        reader.receive_payload([memoryview(target)], lambda: None)
        sending.join(_SECONDS)
        assert target == extent.view


@pytest.mark.parametrize("is_right", [True, False])
def test_a_known_checksum_is_sent_as_it_is(is_right):
    with connected() as (near, far), random_extent() as extent:
        sender, reader = (
            open_channel(end, peer="other", options=NetworkOptions(), clock=SystemClock())
            for end in (near, far)
        )
        known = Checksums().of(3, extent.view) ^ (not is_right)
        sending = threading.Thread(
            target=sender.send_extent, args=(frame_of(extent), extent, known), daemon=True
        )
        sending.start()
        reader.receive_frame(lambda: None)
        target = memoryview(bytearray(_NUM_BYTES))
        refusal = pytest.raises(ChannelBrokenError, match="arrived damaged")
        with contextlib.nullcontext() if is_right else refusal:
            reader.receive_payload([target], lambda: None)
        sending.join(_SECONDS)


def test_a_message_of_several_senders_is_summed_once():
    checksums = Checksums()
    first = checksums.of(0, memoryview(b"first"))
    assert first == xxhash.xxh3_64_intdigest(b"first")
    assert checksums.of(0, memoryview(b"not looked at")) == first
    assert checksums.of(1, memoryview(b"second")) != first
    for number in range(2, 66):
        checksums.of(number, memoryview(b""))
    assert checksums.of(0, memoryview(b"anew")) == xxhash.xxh3_64_intdigest(b"anew")


def test_an_extent_that_nobody_reads_breaks_the_connection():
    options = NetworkOptions(ping_seconds=0.02, silence_seconds=0.1)
    with connected() as (near, _), random_extent() as extent:
        sender = open_channel(near, peer="far", options=options, clock=SystemClock())
        with pytest.raises(ChannelBrokenError, match=r"nothing could be sent for \d+\.\d s"):
            sender.send_extent(frame_of(extent), extent)


def congestion_control(connection):
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


def test_sockets_have_their_congestion_control_before_they_connect():
    reno = NetworkOptions(congestion_control="reno")  # every kernel has and allows it
    with socket.socket() as listener:
        prepare(listener, reno)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with connect(*listener.getsockname(), reno) as near:
            far, _ = listener.accept()
            with far:
                for end in (near, far):
                    assert congestion_control(end) == b"reno"
                    assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                    timeout = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
                    assert timeout == 1000 * reno.gone_seconds


def test_a_congestion_control_that_the_kernel_does_not_have_leaves_the_systems():
    with connected() as (near, _):
        own = congestion_control(near)
        prepare(near, NetworkOptions(congestion_control="no-such"))
        assert congestion_control(near) == own


def test_a_host_on_which_nobody_listens_is_an_error_and_leaves_no_socket():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConnectionRefusedError):
            connect(*address, NetworkOptions())
        gc.collect()


def test_a_slot_is_an_extent_of_its_rings_segment():
    writer, reader = local_ring(
        name="ring",
        num_slots=2,
        slot_bytes=5000,
        owner="w-0",
        reader="r-0",
        clock=SystemClock(),
        on_close=lambda: None,
    )
    with writer, reader:
        with pytest.raises(InternalError, match="0 slots are held"):
            reader.extent()
        for number in range(3):
            writer.reserve(_SECONDS)[:] = number
            writer.publish(4000 + number)
            reader.acquire(_SECONDS)
            extent = reader.extent()
            content = os.pread(extent.descriptor, len(extent.view), extent.offset)
            assert content == extent.view == bytes([number]) * (4000 + number)
            reader.release()


def test_a_reader_in_another_process_has_no_extents(tmp_path):
    address = str(tmp_path / "ring.stream")
    with (
        serve_ring(address, name="ring", num_slots=2, slot_bytes=8, num_readers=1) as writer,
        connect_ring(address, name="ring", timeout_seconds=_SECONDS) as reader,
    ):
        writer.reserve(_SECONDS)
        writer.publish()
        reader.acquire(_SECONDS)
        with pytest.raises(InternalError, match="descriptor is None"):
            reader.extent()
