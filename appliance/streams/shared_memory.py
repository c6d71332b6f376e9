"""Rings of slots on one host: memory that both ends map, and a doorbell for each slot.

The writer owns one segment that holds all slots and listens at a Unix socket. Each reader connects
there once and gets the segment's descriptor; from then on a message is one sequence number: the
writer rings "slot n is published" to every reader, each reader rings back "slot n is released". No
tensor is copied by the transport itself. An end that is closed before the stream's end says so, so
that the other side can tell a pod that gave up from one that died.

The number of messages in flight is bounded by the number of slots, so a send never blocks. A ring's
end belongs to one thread, except `close`, which any thread may call and which wakes the owner.
"""

import logging
import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from appliance.core.clock import Clock, SystemClock
from appliance.core.errors import (
    ConflictError,
    InternalError,
    StreamAbandonedError,
    StreamClosedError,
    WscError,
)
from appliance.streams.doorbell import (
    Bell,
    Deadline,
    listen,
    receive,
    send,
    unlink_socket,
    wait_readable,
)
from appliance.streams.handshake import (
    close_all,
    introduce,
    own_label,
    receive_message,
    send_message,
)
from appliance.streams.segment import Extent, create_segment, map_segment

logger = logging.getLogger(__name__)

_SEQUENCE = struct.Struct("<q")
_PUBLISHED = struct.Struct("<qq")
"""Sequence number and used bytes of a slot."""
_END = _SEQUENCE.pack(-1)
_ABANDONED = _SEQUENCE.pack(-2)
_PAGE_BYTES = 4096
_HANDSHAKE_SECONDS = 10.0
_MAX_SLOTS = 64
"""Messages in flight stay far below what a socket buffer holds (a few hundred)."""


class _Reader:
    """What the writer knows of one reader."""

    def __init__(self, connection: socket.socket, label: str) -> None:
        self.connection = connection
        self.label = label
        self.num_released = 0


class SharedMemoryRingWriter:
    """The writing end of a ring; see `serve_ring`."""

    def __init__(
        self,
        address: str | None,
        *,
        name: str,
        num_slots: int,
        slot_bytes: int,
        num_readers: int,
        owner: str,
        clock: Clock,
    ) -> None:
        if not 1 <= num_slots <= _MAX_SLOTS or slot_bytes < 0 or num_readers < 1:
            raise InternalError(
                f"Stream {name!r} cannot have {num_slots} slots of {slot_bytes} bytes and "
                f"{num_readers} readers."
            )
        self._name, self._address, self._owner, self._clock = name, address, owner, clock
        self._num_readers, self.num_slots, self.slot_bytes = num_readers, num_slots, slot_bytes
        self._listener = None if address is None else listen(address)
        self._segment = create_segment(name, num_slots * _stride(slot_bytes))
        self._slots = _slots(map_segment(self._segment), num_slots, slot_bytes)
        self._readers: list[_Reader] = []
        self._joined: list[_Reader] = []
        self._num_admitted = 0
        self._num_published = self._num_reserved = 0
        self._is_ended = self._is_closed = False
        self._bell, self._entrance_bell = Bell(), Bell()
        self._poller = select.poll()
        self._poller.register(self._bell, select.POLLIN)
        self._lock = threading.Lock()
        self._closing = threading.Lock()
        self._admission = threading.Lock()
        self._entrance = threading.Thread(
            target=self._admit_readers, name=f"entrance-{name}", daemon=True
        )
        self._entrance.start()

    def reserve(self, timeout_seconds: float | None = None, *, ahead: int = 0) -> NDArray[np.uint8]:
        """Return the next slot's bytes once all readers are there and have released it."""
        with self._lock:
            self._check_open()
            if not self._has_free_slot(ahead):
                self._wait_for_slot(timeout_seconds, ahead)
            self._num_reserved = max(self._num_reserved, ahead + 1)
            return self._slots[(self._num_published + ahead) % self.num_slots]

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    def num_free_slots(self) -> int:
        """Return how many slots can be filled without waiting; raises as `reserve` does."""
        with self._lock:
            self._check_open()
            self._take_in(self._poller.poll(0))
            if len(self._readers) < self._num_readers:
                return 0
            num_released = min(reader.num_released for reader in self._readers)
            return self.num_slots - (self._num_published - num_released)

    def attach(self, reader: str) -> "SharedMemoryRingReader":
        """Return a reading end for another thread of this process; it counts as a reader.

        Args:
            reader: How errors name it.

        Raises:
            ConflictError: The ring has all its readers.
            StreamClosedError: The ring is closed.
        """
        with self._admission:
            if self._is_closed:
                raise StreamClosedError(f"Stream {self._name!r} was closed by {self._owner}.")
            if self._num_admitted == self._num_readers:
                raise ConflictError(
                    f"Stream {self._name!r} of {self._owner} has all its {self._num_readers} "
                    f"readers; {reader} cannot join."
                )
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            segment = os.dup(self._segment)  # an end may outlive its ring
            self._join(_Reader(ours, reader))
            self._entrance_bell.ring()
        return SharedMemoryRingReader(
            theirs,
            name=self._name,
            writer=self._owner,
            slots=self._slots,
            slot_bytes=self.slot_bytes,
            clock=self._clock,
            segment=segment,
        )

    def publish(self, num_bytes: int | None = None) -> int:
        """Hand the reserved slot to the readers and return its sequence number, from 0."""
        num_bytes = self.slot_bytes if num_bytes is None else num_bytes
        with self._lock:
            self._check_open()
            if not self._num_reserved:
                raise InternalError(f"Stream {self._name!r}: publish without reserve.")
            sequence = self._num_published
            message = _PUBLISHED.pack(sequence, num_bytes)
            for reader in self._readers:
                if not send(reader.connection, message):
                    self._take_releases(reader)
                    raise self._lost(reader)
            self._num_published += 1
            self._num_reserved -= 1
            return sequence

    def end(self) -> None:
        """Tell the readers that no further slot follows; waits for readers still to connect."""
        with self._lock:
            self._check_open()
            while len(self._readers) < self._num_readers:
                self._wait(Deadline(self._clock, None), 0.0)
            self._is_ended = True
            for reader in self._readers:
                send(reader.connection, _END)

    def close(self) -> None:
        """Free everything and wake a thread that waits in `reserve`."""
        with self._closing:
            if self._is_closed:
                return
            with self._admission:
                self._is_closed = True
            self._bell.ring()
            self._entrance_bell.ring()
            self._entrance.join()
            with self._lock:
                for reader in self._readers + self._joined:
                    if not self._is_ended:
                        send(reader.connection, _ABANDONED)
                    reader.connection.close()
                self._slots = ()
                self._bell.close()
                self._entrance_bell.close()
                os.close(self._segment)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise StreamClosedError(f"Stream {self._name!r} was closed by this pod.")
        if self._is_ended:
            raise InternalError(f"Stream {self._name!r} has ended; nothing more can be written.")

    def _has_free_slot(self, ahead: int = 0) -> bool:
        oldest = self._num_published + ahead - self.num_slots
        return len(self._readers) == self._num_readers and all(
            reader.num_released > oldest for reader in self._readers
        )

    def _wait_for_slot(self, timeout_seconds: float | None, ahead: int) -> None:
        deadline = Deadline(self._clock, timeout_seconds)
        while not self._has_free_slot(ahead):
            self._wait(deadline, timeout_seconds or 0.0)

    def _wait(self, deadline: Deadline, timeout_seconds: float) -> None:
        """Take in whatever has arrived, waiting for something to arrive."""
        ready = self._poller.poll(deadline.remaining_milliseconds())
        if not ready:
            raise TimeoutError(
                f"Stream {self._name!r}: no slot became free in {timeout_seconds:g} s; "
                f"{len(self._readers)} of {self._num_readers} readers are connected."
            )
        self._take_in(ready)

    def _take_in(self, ready: Sequence[tuple[int, int]]) -> None:
        """Take in what a poll has found."""
        descriptors = {descriptor for descriptor, _ in ready}
        if self._bell.fileno() in descriptors:
            self._bell.quiet()
        self._check_open()
        while self._joined:
            reader = self._joined.pop()
            self._readers.append(reader)
            self._poller.register(reader.connection, select.POLLIN)
        for reader in self._readers:
            if reader.connection.fileno() in descriptors:
                self._take_releases(reader)

    def _take_releases(self, reader: _Reader) -> None:
        while (message := receive(reader.connection, _SEQUENCE.size)) is not None:
            if not message:
                raise self._lost(reader)
            if message == _ABANDONED:
                raise StreamAbandonedError(
                    f"Stream {self._name!r} was abandoned by its reader {reader.label}."
                )
            reader.num_released = _SEQUENCE.unpack(message)[0] + 1

    def _lost(self, reader: _Reader) -> StreamClosedError:
        return StreamClosedError(
            f"Stream {self._name!r} lost its reader {reader.label} after "
            f"{self._num_published} messages."
        )

    def _admit_readers(self) -> None:
        """Let the readers in, then stop listening; body of the entrance thread."""
        try:
            while self._listener is not None and self._num_admitted < self._num_readers:
                wait_readable(self._listener, self._entrance_bell, Deadline(self._clock, None))
                self._entrance_bell.quiet()
                if self._is_closed:
                    return
                self._admit_one(self._listener)
        finally:
            if self._listener is not None:
                self._listener.close()
                unlink_socket(str(self._address))

    def _admit_one(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            return
        connection.settimeout(_HANDSHAKE_SECONDS)
        try:
            label = self._greet(connection)
            connection.settimeout(None)
            with self._admission:
                self._join(_Reader(connection, label))
        except (WscError, OSError) as error:
            logger.warning(
                "Refused a stream reader", extra={"stream": self._name, "reason": str(error)}
            )
            connection.close()

    def _join(self, reader: _Reader) -> None:
        """Count a reader in; the ring's thread takes it up when it looks next."""
        if self._num_admitted == self._num_readers:
            raise InternalError(f"{reader.label} came when {self._name!r} had all its readers.")
        self._num_admitted += 1
        self._joined.append(reader)
        self._bell.ring()

    def _greet(self, connection: socket.socket) -> str:
        hello, descriptors = receive_message(connection, peer="A stream reader")
        close_all(descriptors)
        if hello.get("stream") != self._name:
            refusal = f"{self._address} serves {self._name!r}, not {hello.get('stream')!r}."
            send_message(connection, {"refusal": refusal})
            raise InternalError(refusal)
        answer = {
            "stream": self._name,
            "label": self._owner,
            "num_slots": self.num_slots,
            "slot_bytes": self.slot_bytes,
        }
        send_message(connection, answer, descriptors=[self._segment])
        return str(hello.get("label"))


class SharedMemoryRingReader:
    """A reading end of a ring; see `connect_ring`."""

    def __init__(
        self,
        connection: socket.socket,
        *,
        name: str,
        writer: str,
        slots: tuple[NDArray[np.uint8], ...],
        slot_bytes: int,
        clock: Clock,
        segment: int | None = None,
    ) -> None:
        self._connection, self._name, self._writer, self._clock = connection, name, writer, clock
        self._segment = segment
        self._slots, self._num_slots = slots, len(slots)
        self.slot_bytes = slot_bytes
        self.num_bytes = 0
        self.on_close: Callable[[], None] | None = None
        """Called once this end has been closed."""
        self._num_acquired = self._num_released = 0
        self._is_ended = self._is_closed = False
        self._bell = Bell()
        self._poller = select.poll()
        self._poller.register(connection, select.POLLIN)
        self._poller.register(self._bell, select.POLLIN)
        self._lock = threading.Lock()
        self._closing = threading.Lock()

    def fileno(self) -> int:
        """Return the descriptor to poll for the next slot."""
        return self._connection.fileno()

    @property
    def num_held(self) -> int:
        """Slots acquired and not yet released."""
        return self._num_acquired - self._num_released

    def acquire(self, timeout_seconds: float | None = None) -> NDArray[np.uint8] | None:
        """Return the next slot's bytes, or None when the writer has ended the stream."""
        with self._lock:
            self._check_open()
            if self._is_ended:
                return None
            message = receive(self._connection, _PUBLISHED.size)
            if message is None:
                message = self._wait_for_message(timeout_seconds)
            if not message:
                raise StreamClosedError(
                    f"Stream {self._name!r} lost its writer {self._writer} after "
                    f"{self._num_acquired} messages."
                )
            if message == _ABANDONED:
                raise StreamAbandonedError(
                    f"Stream {self._name!r} was abandoned by its writer {self._writer}."
                )
            if message == _END:
                self._is_ended = True
                return None
            sequence, self.num_bytes = _PUBLISHED.unpack(message)
            if sequence != self._num_acquired:
                raise InternalError(f"Stream {self._name!r}: a message is out of order.")
            slot = self._slots[self._num_acquired % self._num_slots]
            self._num_acquired += 1
            return slot

    def extent(self) -> Extent:
        """Return the used bytes of the slot that was acquired last, also as bytes of a file.

        Raises:
            InternalError: No slot is held, or this end has not come by `attach`.
        """
        with self._lock:
            self._check_open()
            if self.num_held == 0 or self._segment is None:
                raise InternalError(
                    f"Stream {self._name!r}: {self.num_held} slots are held, and the segment's "
                    f"descriptor is {self._segment}."
                )
            number = (self._num_acquired - 1) % self._num_slots
            return Extent(
                view=self._slots[number].data[: self.num_bytes],
                descriptor=self._segment,
                offset=number * _stride(self.slot_bytes),
            )

    def release(self) -> None:
        """Give the oldest acquired slot back to the writer."""
        with self._lock:
            self._check_open()
            if self.num_held == 0:
                raise InternalError(f"Stream {self._name!r}: release without acquire.")
            # A writer that is gone has no use for the slot; `acquire` tells whether it ended well.
            send(self._connection, _SEQUENCE.pack(self._num_released))
            self._num_released += 1

    def close(self) -> None:
        """Free everything and wake a thread that waits in `acquire`."""
        with self._closing:
            if self._is_closed:
                return
            self._is_closed = True
            self._bell.ring()
            with self._lock:
                if not self._is_ended:
                    send(self._connection, _ABANDONED)
                self._connection.close()
                self._slots = ()
                self._bell.close()
                if self._segment is not None:
                    os.close(self._segment)
        if self.on_close is not None:
            self.on_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise StreamClosedError(f"Stream {self._name!r} was closed by this pod.")

    def _wait_for_message(self, timeout_seconds: float | None) -> bytes:
        deadline = Deadline(self._clock, timeout_seconds)
        message = None
        while message is None:
            if not self._poller.poll(deadline.remaining_milliseconds()):
                raise TimeoutError(
                    f"Stream {self._name!r}: {self._writer} published nothing in "
                    f"{timeout_seconds:g} s, after {self._num_acquired} messages."
                )
            self._check_open()
            message = receive(self._connection, _PUBLISHED.size)
        return message


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
    *,
    name: str,
    num_slots: int,
    slot_bytes: int,
    owner: str,
    reader: str,
    clock: Clock,
    on_close: Callable[[], None],
) -> tuple[SharedMemoryRingWriter, SharedMemoryRingReader]:
    """Return both ends of a ring within this process; a bridge is its writer.

    Args:
        name: Name of the stream.
        num_slots: Slots in the ring, 1 to 64.
        slot_bytes: Bytes of a slot.
        owner: How the reader's errors name who writes.
        reader: How the writer's errors name who reads.
        clock: Source of time for timeouts.
        on_close: Called once the reading end has been closed.
    """
    writer = SharedMemoryRingWriter(
        None,
        name=name,
        num_slots=num_slots,
        slot_bytes=slot_bytes,
        num_readers=1,
        owner=owner,
        clock=clock,
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
    slot_bytes = int(answer["slot_bytes"])
    slots = _slots(map_segment(descriptors[0]), int(answer["num_slots"]), slot_bytes)
    close_all(descriptors)
    return SharedMemoryRingReader(
        connection,
        name=name,
        writer=str(answer["label"]),
        slots=slots,
        slot_bytes=slot_bytes,
        clock=clock,
    )


def _stride(slot_bytes: int) -> int:
    """Return the distance between two slots: whole pages."""
    return -(-slot_bytes // _PAGE_BYTES) * _PAGE_BYTES


def _slots(
    memory: NDArray[np.uint8], num_slots: int, slot_bytes: int
) -> tuple[NDArray[np.uint8], ...]:
    stride = _stride(slot_bytes)
    return tuple(memory[i * stride : i * stride + slot_bytes] for i in range(num_slots))
