"""Buffers what MemoryX has produced and the client has not fetched yet.

Outputs arrive in order of the steps. The client asks in order too, so a request for one step means
that earlier steps are no longer needed; that bounds the buffer. When it is full, the ring is not
read further, and the run waits for its client.
"""

import threading
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from appliance.core.errors import NotFoundError, StreamClosedError

MAX_BYTES = 512 << 20
_POLL_SECONDS = 0.2

Values = Mapping[str, NDArray[np.generic]]


class OutputBuffer:
    """Outputs of the steps that are kept, until the client is past them.

    Args:
        max_bytes: Room; a single step may exceed it.
    """

    def __init__(self, *, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._steps: dict[int, Values] = {}
        self._num_bytes = 0
        self._horizon = 0
        self._last = -1
        self._end: str | None = None
        self._is_open_ended = False
        self._changed = threading.Condition()

    def put(self, step: int, values: Values) -> None:
        """Add a step's outputs; waits while there is no room.

        Args:
            step: The step, 0-based.
            values: Arrays that nobody else writes to.
        """
        num_bytes = sum(value.nbytes for value in values.values())
        with self._changed:
            self._changed.wait_for(lambda: self._has_room(num_bytes) or step < self._horizon)
            self._last = step
            if self._end is None and step >= self._horizon and not self._is_open_ended:
                self._steps[step] = values
                self._num_bytes += num_bytes
            self._changed.notify_all()

    def get(self, step: int, name: str, is_over: Callable[[], bool]) -> NDArray[np.generic] | None:
        """Return an output, once its step is done; None if the job is over before that.

        Raises:
            NotFoundError: The step's outputs are not kept any more, or were never kept.
            StreamClosedError: The session ended before the step.
        """
        self.advance(step)
        with self._changed:
            while step not in self._steps:
                if self._last >= step:
                    raise NotFoundError(
                        f"Outputs of step {step} are not kept; the last kept step is {self._last}."
                    )
                if is_over():
                    return None
                if self._end is not None:
                    raise StreamClosedError(f"Output {name!r} of step {step}: {self._end}")
                self._changed.wait(_POLL_SECONDS)
            return self._steps[step][name]

    def advance(self, step: int) -> None:
        """Note that the client has come to a step; drops what belongs to earlier ones."""
        with self._changed:
            self._horizon = max(self._horizon, step)
            for passed in [number for number in self._steps if number < self._horizon]:
                values = self._steps.pop(passed)
                self._num_bytes -= sum(value.nbytes for value in values.values())
            self._changed.notify_all()

    @property
    def furthest(self) -> int:
        """The furthest step that the client has come to."""
        return self._horizon

    def stop_keeping(self) -> None:
        """Drop what is kept and what comes: the client fetches nothing more, the steps go on."""
        with self._changed:
            self._is_open_ended = True
            self._steps.clear()
            self._num_bytes = 0
            self._changed.notify_all()

    def close(self, reason: str) -> None:
        """End every wait.

        Args:
            reason: Why no further step will come, as a sentence.
        """
        with self._changed:
            self._end = self._end or reason
            self._changed.notify_all()

    def _has_room(self, num_bytes: int) -> bool:
        fits = not self._steps or self._num_bytes + num_bytes <= self._max_bytes
        return fits or self._is_open_ended or self._end is not None
