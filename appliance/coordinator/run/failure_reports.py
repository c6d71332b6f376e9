"""Collects the failure reports of an execute job and chooses the one that is the reason."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from appliance.coordinator.console import Topic
from appliance.coordinator.failure import Blame, Failure, cause
from appliance.coordinator.run.execution_context import ExecutionContext
from appliance.coordinator.starvation import HINT
from appliance.core.cluster.drivers import POD_FAILED_EVENT, POD_LOST_EVENT
from appliance.core.errors import PodFailedError, StreamClosedError, WscError
from appliance.core.failure_causes import cause_of
from appliance.core.ids import PodName, Role, pod_name
from protos.wsc.v1 import pods_pb2
from protos.wsc.v1.management_pb2 import JobEventReport

logger = logging.getLogger(__name__)

_SETTLE_SECONDS = 0.5
"""How long to collect reports before one is blamed; the peers of a dead pod are often first."""
_ANNOUNCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnd:
    """How failures end a job, and learn that it has ended.

    Attributes:
        is_over: Whether it has failed or is closed.
        error: The error that a call ends with once it is over.
        wait: Waits for its end, at most so many seconds.
        fail: Ends it for a reason.
    """

    is_over: Callable[[], bool]
    error: Callable[[], WscError]
    wait: Callable[[float], bool]
    fail: Callable[[Failure], None]


class Failures:
    """Takes reports of what broke, and fails the job for one of them.

    Args:
        context: What the job works with.
        job: How it ends.
    """

    def __init__(self, context: ExecutionContext, job: JobEnd) -> None:
        self._context = context
        self._job = job
        self._changed = threading.Condition()
        self._reports: list[Failure] = []

    def report(self, failure: Failure) -> None:
        """Take a report that something broke; the job fails for one of those that come in."""
        with self._changed:
            self._reports.append(failure)
            if len(self._reports) == 1 and not self._job.is_over():
                threading.Thread(target=self._settle, name="settle", daemon=True).start()
            self._changed.notify_all()

    def report_stream(self, error: Exception) -> None:
        """Take a report that a stream broke, which may be a consequence of something else."""
        self.report(Failure(blame=Blame.REPORTED, message=str(error)))

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turn the loss of a pod, which may be a consequence, into the reason why the job fails."""
        try:
            yield
        except (PodFailedError, StreamClosedError) as error:
            if not self._job.is_over():
                self.report_stream(error)
                self._job.wait(_SETTLE_SECONDS + _ANNOUNCE_SECONDS)
            raise (self._job.error() if self._job.is_over() else error) from error

    def watch_input(self, index: int, heartbeat: pods_pb2.HeartbeatRequest) -> None:
        """Look whether a system waits for its batches; warn, or fail the job if it does not end.

        Args:
            index: Number of the system.
            heartbeat: What its chief reports.
        """
        if self._job.is_over():
            return
        with self._changed:
            found = self._context.starvation.look(
                index,
                session=heartbeat.session,
                step=heartbeat.step,
                readings=heartbeat.readings,
                now_seconds=self._context.clock.monotonic_seconds(),
            )
        if found is None:
            return
        if found.is_stall:
            self.report(
                Failure(
                    blame=Blame.USER,
                    message=found.message,
                    role=Role.CHIEF,
                    index=index,
                    is_stall=True,
                )
            )
            return
        logger.warning("Input starvation", extra={"reason": found.message})
        self._context.console.write(Topic.STALL, found.message, hint=HINT, is_warning=True)
        self._context.announce_event(
            JobEventReport(
                reason="InputStarvation",
                message=f"{found.message} {HINT}.",
                is_warning=True,
                pod=heartbeat.pod,
            )
        )

    def note_silence(self, pod: PodName, sentence: str, is_silent: bool) -> None:
        """Report a pod that does not answer while its job waits, or that answers again."""
        if self._job.is_over():
            return
        logger.warning("Silent pod", extra={"pod": pod, "reason": sentence})
        self._context.console.write(Topic.STALL, sentence, is_warning=is_silent)
        event = JobEventReport(
            reason="PodSilent" if is_silent else "PodAnswers",
            message=sentence,
            is_warning=is_silent,
            pod=pod,
        )
        # Management may be away, and whoever looks at the pods must not wait for it.
        threading.Thread(
            target=self._context.announce_event, args=(event,), name="silence", daemon=True
        ).start()

    def _settle(self) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: any(report.blame <= Blame.ENDED for report in self._reports),
                timeout=_SETTLE_SECONDS,
            )
            failure = cause(self._reports)
        if self._job.is_over():
            return
        logger.error("Job fails", extra={"reason": failure.message})
        # Management first: the client asks it for the reason as soon as it hears of the failure.
        self._context.announce_failure(failure.text, self._events_of(failure))
        self._job.fail(failure)

    def _events_of(self, failure: Failure) -> list[JobEventReport]:
        """Return the event that names the pod at fault; none if none is.

        The launcher may not say in time that a pod has ended, and of one that lives and cannot go
        on it says only that it was stopped with its job.
        """
        is_own = failure.blame in (Blame.USER, Blame.REPORTED) and not failure.is_stall
        if failure.blame is Blame.LOST:
            reason, message = POD_LOST_EVENT, failure.message
        elif is_own and failure.role is not Role.COORDINATOR:
            reason, message = POD_FAILED_EVENT, cause_of(failure.text).line
        else:
            return []
        pod = pod_name(self._context.spec.job, failure.role, failure.index)
        return [JobEventReport(reason=reason, message=message, is_warning=True, pod=pod)]
