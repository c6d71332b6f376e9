"""Whether a detached run's script is restarted after it has ended or its pod was lost.

Restarts are counted by their events, so that a restart of management forgets none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from appliance.core.cluster.drivers import (
    DISRUPTED_RESTART_EVENT,
    DISRUPTION_EVENT,
    END_EVENT,
    LAST_WORDS_EVENT,
    NODE_LOST_EVENT,
    POD_FAILED_EVENT,
    POD_LOST_EVENT,
    PREEMPTED_EVENT,
    PREEMPTION_EVENT,
    RESTART_EVENT,
    Losses,
    Restart,
    decide,
)
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import EventRecord, JobRecord
from appliance.core.errors import NotFoundError, UserError
from appliance.core.ids import JobId
from appliance.core.pods.end_cause import EndCause
from appliance.core.queries.job_filter import JobFilter
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.mailbox import Happened, Mailbox
from appliance.management.store.state import State

_RESTARTS = (RESTART_EVENT, PREEMPTED_EVENT, DISRUPTED_RESTART_EVENT)
_STARTS = (*_RESTARTS, END_EVENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Starts:
    """The stored record of a driver's starts.

    Attributes:
        count: Restarts so far.
        counted: Those that count against the user's limit.
        has_ended: Whether its script was told not to start again since the last one.
    """

    count: int
    counted: int
    has_ended: bool
    events: Sequence[EventRecord]


class DriverRestarts:
    """Decides whether scripts are restarted, and records it.

    Args:
        state: The appliance's database.
        mailbox: Takes the ends of jobs that a script has left.
    """

    def __init__(self, state: State, mailbox: Mailbox) -> None:
        self._state, self._mailbox = state, mailbox

    def count(self, job: JobId) -> int:
        """Return how often a driver's script was started again."""
        return self._starts(job).count

    def ended(self, job: JobId, exit_code: int, last_words: str = "") -> tuple[Restart, int]:
        """Decide whether a script that has ended is started again, and write that down.

        Args:
            job: The driver.
            exit_code: How the script ended; 128 and the number for a signal.
            last_words: The last error that it printed; may be empty.

        Returns:
            The decision, and how often the script was started again, this time included.
        """
        record = self._state.jobs.load(job)
        if record.type is not JobType.DRIVER:
            raise UserError(f"Job {job} is no driver.")
        starts = self._starts(job)
        if last_words:
            self._write_event(job, LAST_WORDS_EVENT, last_words)
        restart = self._decide(record, starts, self._losses(record, starts), exit_code=exit_code)
        if restart.is_wanted:
            self.script_ended(record, restart.reason)
        else:
            self._write_event(job, END_EVENT, restart.reason)
        return restart, starts.count + int(restart.is_wanted)

    def last_words(self, driver: JobRecord) -> str:
        """Return the last error of a driver's script that has ended for good; else nothing."""
        events = self._state.jobs.events(driver.id)
        told = [event for event in events if event.reason in (LAST_WORDS_EVENT, *_STARTS)]
        if not told or told[-1].reason != END_EVENT or len(told) == 1:
            return ""
        before = told[-2]
        return before.message if before.reason == LAST_WORDS_EVENT else ""

    def pod_lost(self, driver: JobRecord, end: machine.PodExited) -> str:
        """Decide whether a driver whose pod has ended is restarted, and record it.

        Args:
            end: How its pod ended.

        Returns:
            Why it is started again; empty if it is not, as the user's policy says no or the pod
            has only passed on how the script has ended.
        """
        starts = self._starts(driver.id)
        if starts.has_ended:
            return ""
        try:
            restart = self._decide(driver, starts, _loss(end), exit_code=end.exit_code)
        except NotFoundError:
            return ""  # what it runs is lost, so there is nothing to start again
        return f"the driver's pod is started again: {restart.reason}" if restart.is_wanted else ""

    def script_ended(self, driver: JobRecord, how: str) -> None:
        """Cancel what the script of a detached run has left when it ended badly.

        No client will end these jobs, and a script that is started again may need what they hold.

        Args:
            how: Why the script, or its pod, has ended.
        """
        message = f"The script of {driver.id}, which submitted it, has ended: {how}"
        end = machine.EndRequested(phase=Phase.CANCELLED, message=message)
        for job in self._state.jobs.list(JobFilter(workflow=driver.workflow, uid=driver.user.uid)):
            if job.id != driver.id:
                self._mailbox.post(Happened(job=job.id, event=end))

    def _decide(
        self, driver: JobRecord, starts: _Starts, losses: Losses, *, exit_code: int
    ) -> Restart:
        spec = self._state.driver_specs.load(driver.id)
        restart = decide(spec.restart, losses, exit_code=exit_code, num_restarts=starts.counted)
        if restart.is_wanted:
            number = f", {starts.counted + 1} of {spec.restart.limit}" if restart.is_counted else ""
            message = f"the script is started again{number}: {restart.reason}"
            self._write_event(driver.id, restart.event, message)
        return restart

    def _starts(self, job: JobId) -> _Starts:
        events = [event for event in self._state.jobs.events(job) if event.reason in _STARTS]
        restarts = [event for event in events if event.reason != END_EVENT]
        return _Starts(
            count=len(restarts),
            counted=sum(event.reason == RESTART_EVENT for event in restarts),
            has_ended=bool(events) and events[-1].reason == END_EVENT,
            events=restarts,
        )

    def _losses(self, driver: JobRecord, starts: _Starts) -> Losses:
        since = starts.events[-1].at if starts.events else None
        wanted = JobFilter(workflow=driver.workflow, uid=driver.user.uid, with_finished=True)
        members = [
            job
            for job in self._state.jobs.list(wanted)
            if job.id != driver.id and (since is None or job.created_at > since)
        ]
        told = [event for each in members for event in self._state.jobs.events(each.id)]
        preemptions = [each for each in told if each.reason == PREEMPTION_EVENT]
        return Losses(
            pods=[loss for member in members for loss in self._lost_pods(member.id)],
            nodes=[each.message for each in told if each.reason == NODE_LOST_EVENT],
            preemptions=[f"{each.job} was {each.message}" for each in preemptions],
            disruptions=[each.message for each in told if each.reason == DISRUPTION_EVENT],
        )

    def _lost_pods(self, job: JobId) -> list[str]:
        """Return the pods that a job has lost: as its launcher says, else as its coordinator.

        One that failed by itself, as by the user's code, is not lost: it would fail again.
        """
        events = self._state.jobs.events(job)
        failed = {event.subject for event in events if event.reason == POD_FAILED_EVENT}
        pods = self._state.pods.of_job(job)
        ended = [pod for pod in pods if pod.phase == "Failed" and pod.name not in failed]
        if ended:
            return [f"{pod.name} {pod.message}" for pod in ended]
        return [event.message for event in events if event.reason == POD_LOST_EVENT]

    def _write_event(self, job: JobId, reason: str, message: str) -> None:
        event = EventRecord(
            job=job,
            at=self._state.clock.now(),
            reason=reason,
            message=message,
            subject=job,
            is_warning=True,
        )
        self._state.jobs.add_event(event)


def _loss(end: machine.PodExited) -> Losses:
    """Return what the end of a driver's own pod is to its run."""
    lost = [f"{end.pod} {end.reason}"]
    if end.is_disruption:
        return Losses(disruptions=lost)
    return Losses(nodes=lost) if end.cause is EndCause.NODE_LOST else Losses(pods=lost)
