"""Lines for the user's console, one queue for each topic that the client listens to."""

import threading
from collections import defaultdict, deque
from collections.abc import Callable

from protos.appliance.common_config_pb2 import LogSettings
from protos.appliance.message_queue_pb2 import MsgStatus, ValidTopics

Topic = ValidTopics

_MAX_LINES = 100


class Console:
    """Keeps lines until the client's long poll takes them."""

    def __init__(self) -> None:
        self._lines: dict[int, deque[MsgStatus]] = defaultdict(lambda: deque(maxlen=_MAX_LINES))
        self._changed = threading.Condition()
        self._is_closed = False

    def write(
        self, topic: "Topic.ValueType", text: str, *, hint: str = "", is_warning: bool = False
    ) -> None:
        """Add a line.

        Args:
            topic: `COMPILE` for a compile job, `STALL` for an execute job.
            text: The line.
            hint: What the user can do, on a line of its own.
            is_warning: Whether it is logged as a warning.
        """
        level = LogSettings.WARNING if is_warning else LogSettings.INFO
        line = MsgStatus(msg=text, action=hint)
        line.tag.level = level
        with self._changed:
            self._lines[topic].append(line)
            self._changed.notify_all()

    def next_line(
        self,
        topic: "Topic.ValueType",
        timeout_seconds: float,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> MsgStatus | None:
        """Return the oldest line of a topic; None if there is none in time, or nobody to see it.

        Args:
            timeout_seconds: How long to wait for a line.
            is_wanted: Whether there is still somebody who waits.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._lines[topic] or self._is_closed, timeout=timeout_seconds
            )
            return self._lines[topic].popleft() if self._lines[topic] and is_wanted() else None

    def close(self) -> None:
        """End every poll that waits."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
