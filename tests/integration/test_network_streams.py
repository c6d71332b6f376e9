"""Streams over TCP: order, credits, cuts, damage, keys, a peer that is gone."""

import datetime as dt
import ssl
import threading

import numpy as np
import pytest

from appliance.core.clock import SystemClock
from appliance.core.errors import (
    InternalError,
    NotFoundError,
    StreamAbandonedError,
    StreamClosedError,
)
from appliance.core.ir.tensors import DType, TensorType
from appliance.management.access.stream_secrets import ensure_identity
from appliance.streams import endpoint as endpoint_module
from appliance.streams.network.channel import Channel
from appliance.streams.network.scatter import Fragment, Scatter
from appliance.streams.network.tcp_frames import Kind
from appliance.streams.protocol import Piece
from appliance.streams.slot_layout import SlotLayout
from tests.support.faulty_link import FaultyLink
from tests.support.stream_ends import Ends

_SECONDS = 120.0
_CHIEFS = tuple(f"chief-{index}" for index in range(4))


def publish(ring, count, timeout_seconds=_SECONDS):
    """Publish empty messages."""
    for _ in range(count):
        ring.reserve(timeout_seconds)
        ring.publish()


def write(ring, messages):
    """Write messages, each as many bytes as it has, in a thread; return the thread."""

    def body():
        for message in messages:
            ring.reserve(_SECONDS)[: len(message)] = message
            ring.publish(len(message))
        ring.end()

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    return thread


def read(reader):
    """Return the used bytes of every slot up to the end."""
    found = []
    while (slot := reader.acquire(_SECONDS)) is not None:
        found.append(slot[: reader.num_bytes].copy())
        reader.release()
    return found


def random_messages(count, max_bytes, seed=7):
    generator = np.random.default_rng(seed)
    sizes = generator.integers(0, max_bytes + 1, count)
    return [generator.integers(0, 256, size, dtype=np.uint8) for size in sizes]


def assert_same(found, want):
    assert len(found) == len(want)
    for got, message in zip(found, want, strict=True):
        np.testing.assert_array_equal(got, message)


def test_what_crosses_to_a_host_crosses_once_for_all_its_readers(tmp_path):
    messages = random_messages(40, 200_000)
    with Ends(tmp_path) as ends:
        swarmx = ends.pod("broadcastreduce")
        assert swarmx.num_readers(_CHIEFS) == 3
        ring = ends.ring(swarmx, slot_bytes=200_000, num_readers=3)
        chiefs = [ends.pod("chief", index, at=swarmx.network_address) for index in range(4)]
        readers = [ends.reader(chief, readers=_CHIEFS) for chief in chiefs]
        writing = write(ring, messages)
        found = {}
        threads = [
            threading.Thread(target=lambda n=number: found.update({n: read(readers[n])}))
            for number in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in (*threads, writing):
            thread.join(_SECONDS)
        for number in range(4):
            assert_same(found[number], messages)
        # To two other hosts; the reader on the writer's own one shares its memory.
        assert swarmx.num_bytes_sent(1, "broadcast-0") == 2 * sum(map(len, messages))
        assert ends.failures.empty()


def test_a_reader_that_gives_up_ends_the_stream_for_all_of_its_host(tmp_path):
    with Ends(tmp_path) as ends:
        swarmx = ends.pod("broadcastreduce")
        both = ("chief-1", "chief-2")
        ring = ends.ring(swarmx, num_readers=swarmx.num_readers(both))
        first, other = (
            ends.reader(ends.pod("chief", index, at=swarmx.network_address), readers=both)
            for index in (1, 2)
        )
        publish(ring, 1)
        for reader in (first, other):
            assert reader.acquire(_SECONDS) is not None
            reader.release()
        other.close()
        with pytest.raises(StreamAbandonedError):
            first.acquire(_SECONDS)
        with pytest.raises(StreamAbandonedError):
            publish(ring, 10)


def test_readers_on_other_hosts_get_every_used_byte_in_order(tmp_path):
    messages = random_messages(60, 200_000)
    with Ends(tmp_path, chunk_bytes=10_000, block_bytes=25_000) as ends:
        swarmx = ends.pod("broadcastreduce")
        ring = ends.ring(swarmx, slot_bytes=200_000, num_readers=2)
        readers = [
            ends.reader(ends.pod("chief", index, at=swarmx.network_address)) for index in range(2)
        ]
        writing = write(ring, messages)
        found = []
        other = threading.Thread(target=lambda: found.append(read(readers[1])))
        other.start()
        assert_same(read(readers[0]), messages)
        other.join(_SECONDS)
        assert_same(found[0], messages)
        writing.join(_SECONDS)
        assert ends.failures.empty()


@pytest.mark.parametrize("has_tls", [False, True])
def test_a_connection_that_is_cut_again_and_again_loses_nothing(tmp_path, has_tls):
    messages = random_messages(80, 60_000)
    identity = ensure_identity(tmp_path / "id.pem", SystemClock()) if has_tls else None
    with Ends(tmp_path, identity=identity, retry_seconds=0.001) as ends:
        swarmx = ends.pod("broadcastreduce")
        ring = ends.ring(swarmx, slot_bytes=60_000)
        with FaultyLink(swarmx.network_address, cut_every=150_000) as link:
            reader = ends.reader(ends.pod("chief", at=link.address))
            write(ring, messages)
            assert_same(read(reader), messages)
            assert link.num_cuts >= 10
        assert ends.failures.empty()


def test_damaged_bytes_are_noticed_and_sent_again(tmp_path):
    messages = random_messages(100, 50_000)
    with Ends(tmp_path, retry_seconds=0.001) as ends:
        swarmx = ends.pod("broadcastreduce")
        ring = ends.ring(swarmx, slot_bytes=50_000)
        # Further apart than what is on the way at a time, which is three slots: each is noticed.
        damage = [5_000 + 200_000 * index for index in range(8)]
        with FaultyLink(swarmx.network_address, damage_at=damage) as link:
            reader = ends.reader(ends.pod("chief", at=link.address))
            write(ring, messages)
            assert_same(read(reader), messages)
            assert link.num_connections > len(damage)
        assert ends.failures.empty()


def scattered(num_bytes, num_slots=3):
    """Return a scatter: of every other message the middle half goes to the area, in turns."""
    quarter = num_bytes // 4

    def parts(place):
        return (
            Fragment(start=0, num_bytes=quarter),
            Fragment(start=quarter, num_bytes=2 * quarter, area_start=place * 2 * quarter),
            Fragment(start=3 * quarter, num_bytes=num_bytes - 3 * quarter),
        )

    steps = tuple(() if number % 2 else parts(number // 2) for number in range(8))
    return Scatter(area_bytes=8 * quarter, num_slots=num_slots, first_step=steps, later_steps=steps)


def read_scattered(reader, num_bytes):
    """Return every message of a ring, put together from slots and area; nothing is left behind."""
    found, quarter = [], num_bytes // 4
    while (slot := reader.acquire(_SECONDS)) is not None:
        message, visit = slot[: reader.num_bytes].copy(), len(found) % 8
        if reader.area.nbytes and not visit % 2:
            place = visit // 2 * 2 * quarter
            message[quarter : 3 * quarter] = reader.area[place : place + 2 * quarter]
        found.append(message)
        reader.release()
    return found


@pytest.mark.parametrize("has_tls", [False, True])
def test_parts_of_messages_are_received_beside_the_slots_for_all_readers_of_a_host(
    tmp_path, has_tls
):
    size = 60_000
    generator = np.random.default_rng(11)
    messages = [generator.integers(0, 256, size, dtype=np.uint8) for _ in range(48)]
    identity = ensure_identity(tmp_path / "id.pem", SystemClock()) if has_tls else None
    with Ends(tmp_path, identity=identity, retry_seconds=0.001) as ends:
        swarmx = ends.pod("broadcastreduce")
        ring = ends.ring(swarmx, slot_bytes=size, num_readers=swarmx.num_readers(_CHIEFS[1:]))
        damage = [] if has_tls else [500_000]
        with FaultyLink(swarmx.network_address, cut_every=350_000, damage_at=damage) as link:
            readers = [
                ends.reader(
                    ends.pod("chief", index, at=link.address),
                    readers=_CHIEFS[1:],
                    scatter=scattered(size),
                )
                for index in (1, 2, 3)
            ]
            # The last one is on the writer's host and reads the writer's own slots.
            areas = [reader.area.nbytes for reader in readers]
            assert areas == [2 * size, 2 * size, 0]
            write(ring, messages)
            found = {}
            threads = [
                threading.Thread(target=lambda r=r: found.update({r: read_scattered(r, size)}))
                for r in readers
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(_SECONDS)
            for reader in readers:
                assert_same(found[reader], messages)
            assert link.num_connections > 5
        assert ends.failures.empty()


def test_a_connection_that_breaks_under_the_last_receipt_fails_nothing(tmp_path, monkeypatch):
    send_frame = Channel.send_frame

    def break_under_it(channel, frame):
        if frame.kind is Kind.PROGRESS and frame.number == 6:
            raise ConnectionResetError
        send_frame(channel, frame)

    monkeypatch.setattr(Channel, "send_frame", break_under_it)
    with Ends(tmp_path) as ends:
        swarmx = ends.pod("broadcastreduce")
        ring = ends.ring(swarmx)
        reader = ends.reader(ends.pod("chief", at=swarmx.network_address))
        (receiving,) = (t for t in threading.enumerate() if t.name == "receive-1/broadcast-0")
        messages = random_messages(5, 64)
        write(ring, messages)
        assert_same(read(reader), messages)
        receiving.join(_SECONDS)
        assert ends.failures.empty()


def test_a_message_that_does_not_fit_its_scatter_fails_the_stream(tmp_path):
    with Ends(tmp_path) as ends:
        swarmx = ends.pod("broadcastreduce")
        ring = ends.ring(swarmx, slot_bytes=64)
        reader = ends.reader(ends.pod("chief", at=swarmx.network_address), scatter=scattered(64))
        ring.reserve(_SECONDS)
        ring.publish(60)
        assert "Message 0 of stream '1/broadcast-0' has 60 bytes" in str(
            ends.failures.get(timeout=_SECONDS)
        )
        with pytest.raises(StreamAbandonedError):
            reader.acquire(_SECONDS)


def test_a_ring_with_more_slots_than_its_scatter_allows_is_refused(tmp_path):
    with Ends(tmp_path) as ends:
        swarmx = ends.pod("broadcastreduce")
        ends.ring(swarmx, num_slots=3)
        chief = ends.pod("chief", at=swarmx.network_address)
        with pytest.raises(InternalError, match=r"has 3 slots; .*chief-0 expects at most 2"):
            chief.connect_ring(1, "broadcast-0", scatter=scattered(64, num_slots=2))


def test_a_silent_connection_is_made_anew(tmp_path):
    with Ends(tmp_path, ping_seconds=0.05, silence_seconds=0.3, gone_seconds=_SECONDS) as ends:
        swarmx = ends.pod("broadcastreduce")
        ring = ends.ring(swarmx)
        with FaultyLink(swarmx.network_address) as link:
            reader = ends.reader(ends.pod("chief", at=link.address))
            link.hold()
            write(ring, random_messages(5, 64))
            link.wait_for_knock(_SECONDS)
            link.go_on()
            assert_same(read(reader), random_messages(5, 64))
            assert link.num_connections >= 2


def test_no_more_is_sent_than_there_are_free_slots(tmp_path):
    with Ends(tmp_path) as ends:
        swarmx = ends.pod("broadcastreduce")
        ring = ends.ring(swarmx, num_slots=2)
        reader = ends.reader(ends.pod("chief", at=swarmx.network_address))
        publish(ring, 3)  # two slots at the reader, one here; the other's receipt comes with room
        with pytest.raises(TimeoutError, match="no slot became free"):
            ring.reserve(0.3)
        for _ in range(2):
            reader.acquire(_SECONDS)
            reader.release()
        publish(ring, 2)


def test_a_reader_that_is_gone_fails_the_stream_with_numbers(tmp_path):
    limits = {"ping_seconds": 0.1, "silence_seconds": 1.0, "gone_seconds": 3.0}
    with Ends(tmp_path, **limits) as ends:
        swarmx = ends.pod("broadcastreduce")
        ring = ends.ring(swarmx, num_slots=2)
        with FaultyLink(swarmx.network_address) as link:
            reader = ends.reader(ends.pod("chief", at=link.address))
            publish(ring, 2)
            ring.reserve(_SECONDS)  # so the first message has been acknowledged
            for _ in range(2):
                reader.acquire(_SECONDS)
            link.take_down()
            reports = sorted(str(ends.failures.get(timeout=_SECONDS)) for _ in range(2))
            assert "There is no way back to stream '1/broadcast-0' at 127.0.0.1:" in reports[1]
            assert "after 2 messages" in reports[1]
            assert (
                "Stream 'broadcast-0' lost its reader wsjob-test-chief-0: it has not come back for "
                "3 s, after 1 messages acknowledged and 1 on the way." in reports[0]
            )
            with pytest.raises(StreamAbandonedError):
                publish(ring, 4)
            with pytest.raises(StreamAbandonedError):
                reader.acquire(_SECONDS)


def test_an_end_that_closes_early_says_so_to_the_other(tmp_path):
    with Ends(tmp_path) as ends:
        swarmx = ends.pod("broadcastreduce")
        first, second = (ends.ring(swarmx, session) for session in (1, 2))
        chief = ends.pod("chief", at=swarmx.network_address)
        readers = [ends.reader(chief, session) for session in (1, 2)]
        first.reserve(_SECONDS)
        first.close()
        with pytest.raises(StreamAbandonedError):
            readers[0].acquire(_SECONDS)
        readers[1].close()
        with pytest.raises(StreamAbandonedError):
            publish(second, 10)
        assert ends.failures.empty()


def test_a_stream_that_nobody_serves_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(endpoint_module, "CONNECT_SECONDS", 1.0)
    with Ends(tmp_path) as ends:
        swarmx = ends.pod("broadcastreduce")
        chief = ends.pod("chief", at=swarmx.network_address)
        with pytest.raises(StreamClosedError, match=r"Nobody served stream '3/broadcast-0' at 127"):
            chief.connect_ring(3, "broadcast-0")


def test_a_pod_without_the_jobs_key_is_turned_away(tmp_path):
    with Ends(tmp_path) as ends:
        swarmx = ends.pod("broadcastreduce")
        ends.ring(swarmx)
        chief = ends.pod("chief", at=swarmx.network_address, key=b"another key")
        with pytest.raises(StreamClosedError, match="key"):
            chief.connect_ring(1, "broadcast-0")


def test_an_encrypted_stream_refuses_whoever_lacks_the_identity(tmp_path, monkeypatch):
    clock = SystemClock()
    ours, theirs = (ensure_identity(tmp_path / f"{name}.pem", clock) for name in ("a", "b"))
    with Ends(tmp_path, identity=ours) as ends:
        swarmx = ends.pod("broadcastreduce")
        ring = ends.ring(swarmx)
        for identity in (theirs, None):
            chief = ends.pod(
                "chief",
                at=swarmx.network_address,
                key=b"the job's key",
                identity=identity,
                connect_seconds=0.2,
            )
            with monkeypatch.context() as patched:
                patched.setattr(endpoint_module, "CONNECT_SECONDS", 1.0)
                with pytest.raises(StreamClosedError):
                    chief.connect_ring(1, "broadcast-0")
        reader = ends.reader(ends.pod("chief", at=swarmx.network_address))
        write(ring, [np.arange(9, dtype=np.uint8)])
        assert_same(read(reader), [np.arange(9, dtype=np.uint8)])


def test_an_identity_is_kept_until_it_runs_out(tmp_path):
    class Later:
        def now(self):
            return SystemClock().now() + dt.timedelta(days=820)

    first = ensure_identity(tmp_path / "id.pem", SystemClock()).read_bytes()
    assert ensure_identity(tmp_path / "id.pem", SystemClock()).read_bytes() == first
    assert ensure_identity(tmp_path / "id.pem", Later()).read_bytes() != first
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "id.pem")
    assert (tmp_path / "id.pem").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("cut_every", [None, 60_000])
def test_a_store_on_another_host_is_read_and_written(tmp_path, cut_every):
    names = [f"state.block.{index}.weight" for index in range(300)]
    layout = SlotLayout.of((name, TensorType((50, 7), DType.F32)) for name in names)
    generator = np.random.default_rng(3)
    with Ends(tmp_path, retry_seconds=0.001) as ends:
        memoryx = ends.pod("weight")
        store = memoryx.serve_store(1, "store-0")
        own = store.add_segment("state", layout)
        own[:] = generator.integers(0, 256, own.size, dtype=np.uint8)
        with (
            FaultyLink(memoryx.network_address, cut_every=cut_every) as link,
            ends.pod("chief", at=link.address).attach_store(1, "store-0") as client,
        ):
            assert client.layout("state") == layout
            parts = [np.empty(size, dtype=np.uint8) for size in (1000, 20_000, 1)]
            offsets = (0, 64, own.size - 1)
            client.read(
                [
                    Piece(segment="state", source=offset, target=part)
                    for offset, part in zip(offsets, parts, strict=True)
                ]
            )
            for offset, part in zip(offsets, parts, strict=True):
                np.testing.assert_array_equal(part, own[offset : offset + len(part)])
            prepared = client.attach_to_write("state")
            assert not prepared.any()
            before = own.copy()
            for item in layout.items[10:20]:
                item.view(prepared)[...] = 5.0
            client.write_back("state", layout.items[10:20])
            first, end = layout.items[10].offset, layout.items[20].offset
            assert (layout.items[15].view(own) == 5.0).all()
            np.testing.assert_array_equal(own[:first], before[:first])
            np.testing.assert_array_equal(own[end:], before[end:])
            for use in (client.attach, client.layout):
                with pytest.raises(NotFoundError, match="no segment 'snapshot/3'"):
                    use("snapshot/3")
            with pytest.raises(NotFoundError):
                client.read([Piece(segment="none", source=0, target=parts[0])])
        store.close()
