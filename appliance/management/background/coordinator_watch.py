"""Detects frozen coordinators and reports them by name.

A coordinator looks at the pods of its job; of the coordinator itself the pods know only that it is
silent, and they can tell people through it alone. Where it runs on this node, management sees what
its process does. Nothing follows from it but an event: a frozen coordinator goes on where it was.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from appliance.core.cluster.liveness import NOTICE_SECONDS, Activity, describe
from appliance.core.cluster.records import EventRecord, PodRecord
from appliance.core.errors import StaleWriterError
from appliance.core.ids import Role
from appliance.management.store.state import State
from appliance.pods.process_state import SilentProcess
from appliance.storage.engine.write_failures import is_of_database

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
_NAMED = (Activity.STOPPED, Activity.BLOCKED)
"""What is seen of a process without asking it anything. One that waits for its turn on a busy
processor may do so for good reasons; only who misses its answers can say that it is starved."""


@dataclass(slots=True)
class _Frozen:
    process: SilentProcess
    since: float
    is_told: bool = field(default=False)


class CoordinatorWatch:
    """Looks at the coordinators' processes every few seconds, in a thread of its own.

    Args:
        state: Where jobs and their events are kept.
        process_of: Returns the process of a pod on this node, looked at again and again; None if
            it runs elsewhere or not any more.
    """

    def __init__(
        self, state: State, process_of: Callable[[PodRecord], SilentProcess | None] | None = None
    ) -> None:
        self._state = state
        self._process_of = process_of or local_process
        self._frozen: dict[str, _Frozen] = {}
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="coordinator-watch", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._is_closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=_LOOK_SECONDS)

    def look(self) -> None:
        """Check every coordinator of this node once, and report those that froze or continued."""
        now = self._state.clock.monotonic_seconds()
        seen: set[str] = set()
        for pod in self._coordinators():
            seen.add(pod.name)
            self._look_at(pod, now)
        for name in self._frozen.keys() - seen:
            del self._frozen[name]

    def _coordinators(self) -> Iterator[PodRecord]:
        granted = [job.id for job in self._state.jobs.unfinished() if job.phase.holds_resources]
        for pod in self._state.pods.running(granted) if granted else ():
            if pod.role is Role.COORDINATOR:
                yield pod

    def _look_at(self, pod: PodRecord, now: float) -> None:
        known = self._frozen.get(pod.name)
        process = known.process if known else self._process_of(pod)
        if process is None:
            return
        silent_seconds = now - known.since if known else 0.0
        activity = process.activity(silent_seconds)
        if activity not in _NAMED:
            if known is not None and known.is_told:
                self._tell(pod, "PodAnswers", f"{pod.name} goes on again.")
            self._frozen.pop(pod.name, None)
            return
        if known is None:
            known = self._frozen[pod.name] = _Frozen(process, now)
        if not known.is_told and silent_seconds >= NOTICE_SECONDS - _LOOK_SECONDS:
            known.is_told = True
            sentence = f"{pod.name} cannot answer: {describe(activity, process.pid)}."
            self._tell(pod, "PodSilent", sentence, is_warning=True)

    def _tell(self, pod: PodRecord, reason: str, message: str, *, is_warning: bool = False) -> None:
        logger.warning(message, extra={"job": pod.job})
        self._state.jobs.add_event(
            EventRecord(
                job=pod.job,
                at=self._state.clock.now(),
                reason=reason,
                message=message,
                subject=pod.name,
                is_warning=is_warning,
            )
        )

    def _run(self) -> None:
        while not self._is_closing.wait(_LOOK_SECONDS):
            try:
                self.look()
            except StaleWriterError:
                return  # the reconciler ends this management
            except Exception as error:  # outermost loop of the thread
                if not is_of_database(error):
                    logger.exception("Coordinators were not looked at")


def local_process(pod: PodRecord) -> SilentProcess | None:
    """Return the process of a pod, if it runs on this node and shows the pod's name."""
    shown = b""
    with contextlib.suppress(OSError):
        shown = Path(f"/proc/{pod.pid}/cmdline").read_bytes().partition(b"\0")[0]
    return SilentProcess(pid=pod.pid) if pod.pid and shown == pod.name.encode() else None
