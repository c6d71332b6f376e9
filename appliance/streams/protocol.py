"""The one interface of tensor transport: rings of slots, numbered messages, credits.

A *ring* has one writer, one or more readers and a few slots of equal size. The writer reserves the
next slot (waiting until every reader has released what was in it), fills it in place, and
publishes it; each reader acquires the slots in order and releases them. What a slot holds follows
from its sequence number and the plan, so a message on the wire is nothing but that number. A
*store* is a set of named segments that a process owns and others attach.

Transports: `shared_memory` (slots are mapped by both sides; nothing is copied) and, for other
hosts, a bridge that ends the network in a local ring. Code above this package only ever sees these
protocols.
"""

from types import TracebackType
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray


class RingWriter(Protocol):
    """The producing end of a ring."""

    def reserve(self, timeout_seconds: float | None = None) -> NDArray[np.uint8]:
        """Return the next slot's bytes, once every reader has released it.

        Raises:
            StreamClosedError: A reader went away; the message names the stream and the reader.
            StreamAbandonedError: A reader closed its end in order.
            TimeoutError: No slot became free in time.
        """
        ...

    def publish(self) -> int:
        """Hand the reserved slot to the readers and return its sequence number, from 0."""
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
