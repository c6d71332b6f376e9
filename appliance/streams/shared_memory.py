"""Rings of slots on one host: memory that both ends map, and a doorbell for each slot.

The writer owns one segment that holds all slots and listens at a Unix socket. Each reader connects
there once and gets the segment's descriptor; from then on a message is one sequence number: the
writer rings "slot n is published" to every reader, each reader rings back "slot n is released". No
tensor is copied by the transport itself. An end that is closed before the stream's end says so, so
that the other side can tell a pod that gave up from one that died.

The number of messages in flight is bounded by the number of slots, so a send never blocks. A ring's
end belongs to one thread, except `close`, which any thread may call and which wakes the owner.
"""

from collections.abc import Callable

from appliance.core.clock import Clock, SystemClock
from appliance.streams.handshake import (
    close_all,
    introduce,
    own_label,
)
from appliance.streams.ring_messages import area_of, slots_of
from appliance.streams.ring_reader import SharedMemoryRingReader
from appliance.streams.ring_writer import SharedMemoryRingWriter
from appliance.streams.segment import map_segment


def serve_ring(
    address: str,
    *,
    name: str,
    num_slots: int,
    slot_bytes: int,
    num_readers: int,
    owner: str = "",
    clock: Clock | None = None,
) -> SharedMemoryRingWriter:
    """Create a ring and listen for its readers at once.

    Readers are let in by a thread of their own, so it does not matter in which order the two sides
    of several streams come up. The socket's file is gone as soon as the last reader is in.

    Args:
        address: Path of the Unix socket.
        name: Name of the stream; readers must ask for it.
        num_slots: Slots in the ring, 1 to 64.
        slot_bytes: Bytes of a slot; 0 for a stream of mere doorbells.
        num_readers: Readers without which `reserve` waits.
        owner: How readers' errors name this end, as in a pod's name.
        clock: Source of time for timeouts.
    """
    return SharedMemoryRingWriter(
        address,
        name=name,
        num_slots=num_slots,
        slot_bytes=slot_bytes,
        num_readers=num_readers,
        owner=owner or own_label(),
        clock=clock or SystemClock(),
    )


def local_ring(
    address: str | None = None,
    *,
    name: str,
    num_slots: int,
    slot_bytes: int,
    num_readers: int = 1,
    owner: str,
    reader: str,
    clock: Clock,
    on_close: Callable[[], None],
    area_bytes: int = 0,
) -> tuple[SharedMemoryRingWriter, SharedMemoryRingReader]:
    """Return both ends of a ring within this process; a bridge is its writer.

    Args:
        address: Path of the Unix socket at which other processes may read it, too; None if none do.
        name: Name of the stream.
        num_slots: Slots in the ring, 1 to 64.
        slot_bytes: Bytes of a slot.
        num_readers: Readers, the returned one among them.
        owner: How the reader's errors name who writes.
        reader: How the writer's errors name who reads.
        clock: Source of time for timeouts.
        on_close: Called once the reading end has been closed.
        area_bytes: Bytes beside the slots (`appliance.streams.network.scatter`).
    """
    writer = SharedMemoryRingWriter(
        address,
        name=name,
        num_slots=num_slots,
        slot_bytes=slot_bytes,
        num_readers=num_readers,
        owner=owner,
        clock=clock,
        area_bytes=area_bytes,
    )
    end = writer.attach(reader)
    end.on_close = on_close
    return writer, end


def connect_ring(
    address: str,
    *,
    name: str,
    timeout_seconds: float,
    reader: str = "",
    clock: Clock | None = None,
) -> SharedMemoryRingReader:
    """Connect to a ring that another process serves.

    Args:
        address: Path of the Unix socket.
        name: Name of the stream.
        timeout_seconds: How long to wait for the writer to listen and to answer.
        reader: How the writer's errors name this end, as in a pod's name.
        clock: Source of time for timeouts.

    Raises:
        StreamClosedError: Nobody served the ring in time, or the writer refused.
    """
    clock = clock or SystemClock()
    connection, answer, descriptors = introduce(
        address,
        {"stream": name, "label": reader or own_label()},
        what=f"stream {name!r}",
        timeout_seconds=timeout_seconds,
        clock=clock,
    )
    num_slots, slot_bytes = int(answer["num_slots"]), int(answer["slot_bytes"])
    memory = map_segment(descriptors[0])
    close_all(descriptors)
    return SharedMemoryRingReader(
        connection,
        name=name,
        writer=str(answer["label"]),
        slots=slots_of(memory, num_slots, slot_bytes),
        slot_bytes=slot_bytes,
        area=area_of(memory, num_slots, slot_bytes, int(answer["area_bytes"])),
        clock=clock,
    )
