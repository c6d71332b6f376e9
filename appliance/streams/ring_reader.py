"""The reading end of a ring of slots on one node; see `appliance.streams.shared_memory`."""

import logging
import os
import select
import socket
import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from appliance.core.clock import Clock
from appliance.core.errors import (
    InternalError,
    StreamAbandonedError,
    StreamClosedError,
)
from appliance.streams.closing import ClosedOnExit
from appliance.streams.doorbell import (
    Bell,
    Deadline,
    receive,
    send,
)
from appliance.streams.ring_messages import ABANDONED, END, PUBLISHED, SEQUENCE, stride_of
from appliance.streams.segment import Extent

logger = logging.getLogger(__name__)


class SharedMemoryRingReader(ClosedOnExit):
    """A reading end of a ring; see `connect_ring`."""

    def __init__(
        self,
        connection: socket.socket,
        *,
        name: str,
        writer: str,
        slots: tuple[NDArray[np.uint8], ...],
        slot_bytes: int,
        area: NDArray[np.uint8],
        clock: Clock,
        segment: int | None = None,
    ) -> None:
        self._connection, self._name, self._writer, self._clock = connection, name, writer, clock
        self._segment = segment
        self._slots, self._num_slots = slots, len(slots)
        self.slot_bytes = slot_bytes
        self.area = area
        """What the ring has beside its slots; see `appliance.streams.network.scatter`."""
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
            message = receive(self._connection, PUBLISHED.size)
            if message is None:
                message = self._wait_for_message(timeout_seconds)
            if not message:
                raise StreamClosedError(
                    f"Stream {self._name!r} lost its writer {self._writer} after "
                    f"{self._num_acquired} messages."
                )
            if message == ABANDONED:
                raise StreamAbandonedError(
                    f"Stream {self._name!r} was abandoned by its writer {self._writer}."
                )
            if message == END:
                self._is_ended = True
                return None
            sequence, self.num_bytes = PUBLISHED.unpack(message)
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
                offset=number * stride_of(self.slot_bytes),
            )

    def release(self) -> None:
        """Give the oldest acquired slot back to the writer."""
        with self._lock:
            self._check_open()
            if self.num_held == 0:
                raise InternalError(f"Stream {self._name!r}: release without acquire.")
            # A writer that is gone has no use for the slot; `acquire` tells whether it ended well.
            send(self._connection, SEQUENCE.pack(self._num_released))
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
                    send(self._connection, ABANDONED)
                self._connection.close()
                self._slots, self.area = (), np.empty(0, dtype=np.uint8)
                self._bell.close()
                if self._segment is not None:
                    os.close(self._segment)
        if self.on_close is not None:
            self.on_close()

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
            message = receive(self._connection, PUBLISHED.size)
        return message
