"""What the shell lends to a pod's role: identity, streams, progress, a way to fail and to stop."""

import queue
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from appliance.core.clock import Clock
from appliance.core.errors import UserError, WscError
from appliance.core.pods.pod_spec import PodSpec
from appliance.streams.endpoint import StreamEndpoint
from appliance.streams.network.scatter import Scatter
from appliance.streams.protocol import Store
from appliance.streams.ring_reader import SharedMemoryRingReader
from appliance.streams.ring_writer import SharedMemoryRingWriter
from appliance.streams.store import StoreServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a pod cannot go on.

    Attributes:
        message: One sentence for the user.
        detail: Traceback; empty when the sentence says it all.
        is_user_error: Whether the user's own code or data is at fault.
    """

    message: str
    detail: str
    is_user_error: bool


def failure_of(error: BaseException, *, pod: str, where: str) -> Failure:
    """Return the failure that an exception amounts to.

    Args:
        error: What was raised.
        pod: Name of the pod.
        where: What the pod was doing.
    """
    if isinstance(error, WscError):
        return Failure(message=str(error), detail="", is_user_error=isinstance(error, UserError))
    return Failure(
        message=f"{pod} failed in {where}: {type(error).__name__}: {error}",
        detail="".join(traceback.format_exception(error)),
        is_user_error=False,
    )


class Progress:
    """How far the pod is; written by its loops, read by the heartbeat."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._session = 0
        self._step = 0
        self._readings: dict[str, float] = {}

    def begin(self, session: int) -> None:
        """Start counting for a session."""
        with self._lock:
            self._session, self._step, self._readings = session, 0, {}

    def record(self, *, step: int | None = None, readings: Mapping[str, float] = {}) -> None:
        """Note how far the session is.

        Args:
            step: Steps completed; None leaves the number as it is.
            readings: Current values by metric name; others stay as they are.
        """
        with self._lock:
            if step is not None:
                self._step = step
            self._readings.update(readings)

    def snapshot(self) -> tuple[int, int, dict[str, float]]:
        """Return session, completed steps and readings."""
        with self._lock:
            return self._session, self._step, dict(self._readings)


class PodContext:
    """What a role may use of its pod.

    Attributes:
        spec: Identity and context.
        progress: What the heartbeats tell the coordinator.
        report_failure: Tells the coordinator that the pod cannot go on; never raises.
        streams: The pod's end of its streams.
    """

    def __init__(
        self, spec: PodSpec, *, clock: Clock, report_failure: Callable[[Failure], None]
    ) -> None:
        self.spec = spec
        self.clock = clock
        self.progress = Progress()
        self.report_failure = report_failure
        self.streams = StreamEndpoint(spec, clock=clock, on_failure=self._report_stream)
        self._stop_reasons: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()

    def stop(self, reason: str, *, exit_code: int = 0) -> None:
        """Ask the process to end; safe in a signal handler."""
        self._stop_reasons.put((exit_code, reason))

    def wait_for_stop(self) -> tuple[int, str]:
        """Return exit code and reason once the process shall end."""
        return self._stop_reasons.get()

    def serve_ring(
        self, session: int, stream: str, *, num_slots: int, slot_bytes: int, num_readers: int = 1
    ) -> SharedMemoryRingWriter:
        """Serve a ring under this pod's name."""
        return self.streams.serve_ring(
            session, stream, num_slots=num_slots, slot_bytes=slot_bytes, num_readers=num_readers
        )

    def connect_ring(
        self,
        session: int,
        stream: str,
        *,
        readers: Sequence[str] = (),
        scatter: Scatter | None = None,
    ) -> SharedMemoryRingReader:
        """Connect to a ring under this pod's name; see `StreamEndpoint.connect_ring`."""
        return self.streams.connect_ring(session, stream, readers=readers, scatter=scatter)

    def serve_store(self, session: int, stream: str) -> StoreServer:
        """Serve a store under this pod's name."""
        return self.streams.serve_store(session, stream)

    def attach_store(self, session: int, stream: str, *, is_read_only: bool = False) -> Store:
        """Return a client of a store of a session."""
        return self.streams.attach_store(session, stream, is_read_only=is_read_only)

    def _report_stream(self, error: Exception) -> None:
        self.report_failure(failure_of(error, pod=self.spec.name, where="a stream"))
