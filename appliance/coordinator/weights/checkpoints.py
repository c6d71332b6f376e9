"""Notices the checkpoints that a client makes: states after a step that it has fetched.

The client fetches the tensors of a checkpoint one by one and writes the file itself, so that one is
complete once the client goes on. Where the file lies only the client knows.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from appliance.core import quantities
from appliance.core.cluster.records import CHECKPOINT_EVENT
from protos.wsc.v1.management_pb2 import JobEventReport


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fetched:
    """What has been fetched of one state.

    Attributes:
        session: The session whose state it is.
        step: After which step, 1-based.
        num_tensors: Tensors that have been fetched.
        num_bytes: Their size.
    """

    session: int
    step: int
    num_tensors: int = 0
    num_bytes: int = 0


class Checkpoints:
    """Tells of each checkpoint once; several threads may fetch at a time.

    Args:
        announce: Takes the event for the job's list.
    """

    def __init__(self, announce: Callable[[JobEventReport], None]) -> None:
        self._announce = announce
        self._lock = threading.Lock()
        self._latest: _Fetched | None = None

    def note(self, session: int, step: int, num_bytes: int) -> None:
        """Count a tensor that has been fetched.

        Args:
            step: The step, 1-based.
            num_bytes: Size of the tensor.
        """
        with self._lock:
            before = self._latest or _Fetched(session=session, step=step)
            self._latest = replace(
                before,
                num_tensors=before.num_tensors + 1,
                num_bytes=before.num_bytes + num_bytes,
            )

    def go_on(self, session: int = 0, step: int = 0) -> None:
        """Tell of the checkpoint that the client has left, if it has left one.

        Args:
            session: Where it is now; 0 if it has left the session.
            step: At which step, 1-based.
        """
        with self._lock:
            left = self._latest
            if left is None or (left.session, left.step) == (session, step):
                return
            self._latest = None
        self._announce(
            JobEventReport(
                reason=CHECKPOINT_EVENT,
                message=(
                    f"session {left.session}, step {left.step}: the client has fetched "
                    f"{left.num_tensors} tensors, {quantities.size(left.num_bytes)}"
                ),
            )
        )
