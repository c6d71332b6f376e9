"""The jobs that have not ended, as the reconciler has them in memory: the one table of them.

A job is a frozen value: each change puts another one in its place, and an event that fails puts the
one from before back. Other threads see what is committed: the records of `JobRepository`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from appliance.core.changed_values import changed
from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import JobRecord
from appliance.core.ids import JobId, Role, WorkflowId, pod_name
from appliance.core.pods.end_cause import EndCause
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.scheduling.run_progress import ProgressBook
from appliance.scheduler.snapshot import Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveJob:
    """A job that has not ended.

    Attributes:
        record: Its record, as the present turn leaves it; labels and the directory of artifacts,
            which others change, as they were when it was taken in.
        run: What the job machine decides by.
        grant: What it holds; None while it waits.
    """

    record: JobRecord
    run: machine.JobState
    grant: Grant | None = None

    @property
    def id(self) -> JobId:
        """The job's id."""
        return self.record.id


class LiveJobs:
    """The table of the jobs that have not ended, and which of them hold a grant.

    Args:
        progress: How far running jobs are.
    """

    def __init__(self, progress: ProgressBook) -> None:
        self._progress = progress
        self._jobs: dict[JobId, LiveJob] = {}
        self._holders: dict[JobId, Grant] = {}

    def __contains__(self, job: JobId) -> bool:
        return job in self._jobs

    def __getitem__(self, job: JobId) -> LiveJob:
        return self._jobs[job]

    def find(self, job: JobId) -> LiveJob | None:
        """Return a job; None if it has ended or never was."""
        return self._jobs.get(job)

    def put(self, live: LiveJob) -> LiveJob:
        """Keep a job as it is now, in place of what it was; one that has a grant holds it."""
        job = live.record.id
        self._jobs[job] = live
        if live.grant is not None:
            self._holders[job] = live.grant
        elif self._holders.pop(job, None) is not None:
            self._progress.forget(job)
        return live

    def put_record(self, record: JobRecord) -> LiveJob:
        """Keep another record of a job; what it holds and where it stands remain."""
        live = self._jobs[record.id]
        live = LiveJob(record=record, run=live.run, grant=live.grant)
        self._jobs[record.id] = live
        return live

    def remove(self, job: JobId) -> None:
        """Forget a job, and what it holds."""
        self._jobs.pop(job, None)
        self._holders.pop(job, None)
        self._progress.forget(job)

    def workflows(self) -> Iterator[WorkflowId]:
        """Yield the workflow of each job."""
        return (live.record.workflow for live in self._jobs.values())

    def held(self) -> Iterator[Grant]:
        """Yield what each job holds that holds something."""
        return iter(self._holders.values())

    def grants(self) -> Iterator[Grant]:
        """Return what each job holds, as the scheduler sees it."""
        return map(self._seen, self._holders.values())

    def _seen(self, grant: Grant) -> Grant:
        grant = self.with_progress(grant)
        is_ending = self._jobs[grant.job].run.is_ending
        return changed(grant, is_ending=True) if is_ending else grant

    def with_progress(self, grant: Grant) -> Grant:
        """Return what a job holds, with how far it is."""
        progress, completed = self._progress.sessions(grant.job)
        if progress is None and completed is None:
            return grant
        return changed(grant, progress=progress, completed=completed)


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
