"""The one interface of tensor transport: rings of slots, numbered messages, credits.

A *ring* has one writer, one or more readers and a few slots of equal size. The writer reserves the
next slot (waiting until every reader has released what was in it), fills it in place, and
publishes it; each reader acquires the slots in order and releases them. What a slot holds follows
from its sequence number and the plan, so a message on the wire is nothing but that number. A
*store* is a set of named segments that a process owns and others attach.

Transports: `shared_memory` (slots are mapped by both sides; nothing is copied) and, for other
hosts, `network`, whose bridges end in a ring on either side. Code above this package only ever sees
these protocols; `appliance.streams.endpoint` chooses.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from appliance.streams.slot_layout import LayoutItem, SlotLayout


class RingWriter(Protocol):
    """The producing end of a ring."""

    def reserve(self, timeout_seconds: float | None = None, *, ahead: int = 0) -> NDArray[np.uint8]:
        """Return the next slot's bytes, once every reader has released it.

        Args:
            timeout_seconds: How long to wait; None waits without end.
            ahead: So many slots after the next one, all of which are reserved already.

        Raises:
            StreamClosedError: A reader went away; the message names the stream and the reader.
            StreamAbandonedError: A reader closed its end in order.
            TimeoutError: No slot became free in time.
        """
        ...

    def publish(self, num_bytes: int | None = None) -> int:
        """Hand the reserved slot to the readers and return its sequence number, from 0.

        Args:
            num_bytes: How many of the slot's first bytes matter, so that the others need not cross
                the network; None for all.
        """
        ...

    def end(self) -> None:
        """Tell the readers that no further slot follows."""
        ...

    def close(self) -> None:
        """Free everything; readers that still wait see the stream as broken unless it was ended."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class RingReader(Protocol):
    """A consuming end of a ring."""

    def acquire(self, timeout_seconds: float | None = None) -> NDArray[np.uint8] | None:
        """Return the next slot's bytes, or None when the writer has ended the stream.

        Several slots may be held at once; they are released in the order they were acquired.

        Raises:
            StreamClosedError: The writer went away without ending the stream.
            StreamAbandonedError: The writer closed its end in order, without ending the stream.
            TimeoutError: Nothing was published in time.
        """
        ...

    def release(self) -> None:
        """Give the oldest acquired slot back to the writer."""
        ...

    def close(self) -> None:
        """Free everything."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A run of a segment's bytes, and where to put them.

    Attributes:
        segment: Segment of the store.
        source: First byte in the segment.
        target: Receives as many bytes as it has.
    """

    segment: str
    source: int
    target: NDArray[np.uint8]


class Store(Protocol):
    """Segments that another process owns."""

    def attach(self, name: str) -> NDArray[np.uint8]:
        """Return a segment's bytes: its memory on this node, what it now holds on another.

        Raises:
            NotFoundError: The store has no such segment.
            StreamClosedError: The store does not answer.
        """
        ...

    def attach_to_write(self, name: str) -> NDArray[np.uint8]:
        """Return memory in which to prepare what `write_back` sends; raises as `attach` does.

        On this node it is the segment itself; on another it begins as zeros.
        """
        ...

    def write_back(self, name: str, items: Iterable[LayoutItem]) -> None:
        """Make tensors that were written into `attach_to_write`'s memory those of the segment.

        Raises:
            NotFoundError: The store has no such segment.
            StreamClosedError: The store does not answer.
        """
        ...

    def read(self, pieces: Sequence[Piece]) -> None:
        """Copy runs of bytes as they are now; raises as `attach` does."""
        ...

    def fetch(self, name: str, start: int, num_bytes: int) -> NDArray[np.uint8]:
        """Return a run of a segment's bytes: its memory on this node, a copy from another.

        Raises:
            NotFoundError: The store has no such segment.
            StreamClosedError: The store does not answer.
        """
        ...

    def layout(self, name: str) -> SlotLayout:
        """Return a segment's layout; raises as `attach` does."""
        ...

    def detach(self, name: str) -> None:
        """Forget a segment; its memory is freed when the last view of it dies."""
        ...

    def close(self) -> None:
        """Forget every segment."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
