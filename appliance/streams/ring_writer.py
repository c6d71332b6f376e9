"""The writing end of a ring of slots on one node; see `appliance.streams.shared_memory`."""

import logging
import os
import select
import socket
import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from appliance.core.clock import Clock
from appliance.core.errors import (
    ConflictError,
    InternalError,
    StreamAbandonedError,
    StreamClosedError,
    WscError,
)
from appliance.streams.closing import ClosedOnExit
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
    receive_message,
    send_message,
)
from appliance.streams.ring_messages import (
    ABANDONED,
    END,
    PUBLISHED,
    SEQUENCE,
    area_of,
    slots_of,
    stride_of,
)
from appliance.streams.ring_reader import SharedMemoryRingReader
from appliance.streams.segment import create_segment, map_segment

logger = logging.getLogger(__name__)

_HANDSHAKE_SECONDS = 10.0
_MAX_SLOTS = 64
"""Messages in flight stay far below what a socket buffer holds (a few hundred)."""


class _Reader:
    """What the writer knows of one reader."""

    def __init__(self, connection: socket.socket, label: str) -> None:
        self.connection = connection
        self.label = label
        self.num_released = 0


class SharedMemoryRingWriter(ClosedOnExit):
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
        area_bytes: int = 0,
    ) -> None:
        if not 1 <= num_slots <= _MAX_SLOTS or min(slot_bytes, area_bytes) < 0 or num_readers < 1:
            raise InternalError(
                f"Stream {name!r} cannot have {num_slots} slots of {slot_bytes} bytes, "
                f"{area_bytes} bytes beside them and {num_readers} readers."
            )
        self._name, self._address, self._owner, self._clock = name, address, owner, clock
        self._num_readers, self.num_slots, self.slot_bytes = num_readers, num_slots, slot_bytes
        self._listener = None if address is None else listen(address)
        self._segment = create_segment(name, num_slots * stride_of(slot_bytes) + area_bytes)
        memory = map_segment(self._segment)
        self._slots = slots_of(memory, num_slots, slot_bytes)
        self.area = area_of(memory, num_slots, slot_bytes, area_bytes)
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

    @property
    def num_readers(self) -> int:
        """Readers without which `reserve` waits."""
        return self._num_readers

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
            area=self.area,
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
            message = PUBLISHED.pack(sequence, num_bytes)
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
                send(reader.connection, END)

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
                        send(reader.connection, ABANDONED)
                    reader.connection.close()
                self._slots, self.area = (), np.empty(0, dtype=np.uint8)
                self._bell.close()
                self._entrance_bell.close()
                os.close(self._segment)

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
        while (message := receive(reader.connection, SEQUENCE.size)) is not None:
            if not message:
                raise self._lost(reader)
            if message == ABANDONED:
                raise StreamAbandonedError(
                    f"Stream {self._name!r} was abandoned by its reader {reader.label}."
                )
            reader.num_released = SEQUENCE.unpack(message)[0] + 1

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
            "area_bytes": self.area.nbytes,
        }
        send_message(connection, answer, descriptors=[self._segment])
        return str(hello.get("label"))
