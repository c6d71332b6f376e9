"""The jobs that have not ended, as the reconciler has them in memory."""

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import EventRecord, JobRecord, PodRecord
from appliance.core.errors import ClusterError
from appliance.core.ids import JobId, Role, WorkflowId, pod_name
from appliance.core.pods.end_cause import EndCause
from appliance.core.pods.pod_spec import PodSpec
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.scheduling.run_progress import ProgressBook
from appliance.management.reconciler.scheduling.scheduler_snapshots import holding_of
from appliance.scheduler.admission import Admit, Reject
from appliance.scheduler.snapshot import Grant
from appliance.scheduler.waiting.wait_reasons import Wait

logger = logging.getLogger(__name__)

_COMMIT_SECONDS = 10.0
_STORY_EVENTS = 20

Committed = TypeVar("Committed")


@dataclass(slots=True)
class Live:
    """A job that has not ended."""

    state: machine.JobState
    job: JobRecord
    grant: Grant | None = None


class LiveJobs:
    """The unfinished jobs, and which of them hold a grant.

    Args:
        progress: How far running jobs are.
    """

    def __init__(self, progress: ProgressBook) -> None:
        self._progress = progress
        self._jobs: dict[JobId, Live] = {}
        self._holders: dict[JobId, Live] = {}

    def __contains__(self, job: JobId) -> bool:
        return job in self._jobs

    def __getitem__(self, job: JobId) -> Live:
        return self._jobs[job]

    def find(self, job: JobId) -> Live | None:
        """Return a job; None if it has ended or never was."""
        return self._jobs.get(job)

    def add(self, live: Live) -> None:
        """Take a job in; one that has a grant holds it."""
        self._jobs[live.job.id] = live
        if live.grant is not None:
            self._holders[live.job.id] = live

    def hold(self, live: Live) -> None:
        """Record that a job holds its grant from now on."""
        self._holders[live.job.id] = live

    def give_back(self, live: Live) -> None:
        """Note that a job holds nothing any more."""
        self._holders.pop(live.job.id, None)
        self._progress.forget(live.job.id)
        live.grant = None

    def remove(self, job: JobId) -> None:
        """Forget a job, and what it holds."""
        self._jobs.pop(job, None)
        self._holders.pop(job, None)
        self._progress.forget(job)

    def workflows(self) -> Iterator[WorkflowId]:
        """Yield the workflow of each job."""
        return (live.job.workflow for live in self._jobs.values())

    def held(self) -> Iterator[Grant | None]:
        """Yield what each job holds that holds something."""
        return (live.grant for live in self._holders.values())

    def grants(self) -> Iterator[Grant]:
        """Yield what each job holds, as the scheduler sees it."""
        for live in self._holders.values():
            if live.grant is not None:
                grant = live.grant
                progress, completed = (
                    self._progress.find(grant.job),
                    self._progress.completed(grant.job),
                )
                if progress is not None or completed is not None:
                    grant = replace(grant, progress=progress, completed=completed)
                yield replace(grant, is_ending=True) if live.state.is_ending else grant


@contextmanager
def answering(answer: "Future[Admit | Reject | Wait]") -> Iterator[None]:
    """Set an exception on the awaited answer and raise it again."""
    try:
        yield
    except BaseException as error:
        answer.set_exception(error)
        raise


def granted(live: Live) -> JobRecord:
    """Return a job's record with its grant."""
    if live.grant is None:
        return live.job
    return live.job.changed({"systems": live.grant.systems, "holding": holding_of(live.grant)})


def limit_of(live: Live | None) -> float:
    """Return for how many seconds a job may hold its resources; 0 if nothing is said."""
    return 0.0 if live is None else live.job.requirements.limit_seconds or 0.0


def reprioritise(live: Live, priority: int) -> None:
    """Change the priority by which a job is queued again, and by which it may be preempted."""
    live.job = replace(live.job, priority=priority)
    if live.grant is not None:
        live.grant = replace(live.grant, priority=priority)


def log_unexpected(
    job: JobRecord, state: machine.JobState, event: machine.Event, story: Sequence[EventRecord]
) -> None:
    """Log that a job got an event that its state does not allow, with the job's history.

    The job is not changed. It is a defect of the event's sender, or of the job machine.
    """
    logger.error(
        "A job was told of something that its phase does not allow; it goes on as before",
        extra={
            "job": job.id,
            "event": str(event),
            "phase": state.phase.value,
            "verdict": "" if state.verdict is None else state.verdict.phase.value,
            "story": [f"{each.reason}: {each.message}" for each in story[-_STORY_EVENTS:]],
        },
    )


def lost_pod(job: JobRecord, reason: str) -> machine.PodExited:
    """Return the end of the pod that a job stands and falls with, as its launcher was lost."""
    role = Role.DRIVER if job.type is JobType.DRIVER else Role.COORDINATOR
    return machine.PodExited(
        pod=pod_name(job.id, role, 0),
        role=role,
        exit_code=137,
        reason=reason,
        cause=EndCause.NODE_LOST,
    )


def pod_record(spec: PodSpec, node: str) -> PodRecord:
    """Return a pod that is about to be launched."""
    return PodRecord(name=spec.name, job=spec.job, role=spec.role, index=spec.index, node=node)


def wait_until_committed(committed: "Future[Committed]", sentence: str, *, hint: str) -> Committed:
    """Wait for a commit; raises `ClusterError` with a sentence after ten seconds."""
    try:
        return committed.result(timeout=_COMMIT_SECONDS)
    except TimeoutError as error:
        raise ClusterError(f"{sentence} within {_COMMIT_SECONDS:g} seconds.", hint=hint) from error
