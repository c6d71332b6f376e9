"""Refuses a second script in the artifact directory of another that has not ended.

The client lowers its program through two files of fixed names, `torch.mlir` and `cirh.mlir`, in
`<artifact directory>/executors/<number>`, and asks for its compile job afterwards. Two scripts that
do so at once in one directory may each send the other's program. Of two such scripts the younger is
refused; the older goes on, unless its own files were written again before it had sent them. Then
nobody can say whose program it runs, and it fails too.

Scripts that the appliance starts have directories of their own (`workers/driver/script_site`).
"""

import asyncio
import datetime as dt
import socket
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import EventRecord, JobRecord, NewJob
from appliance.core.errors import ConflictError
from appliance.core.ids import JobId
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.mailbox import Happened, Mailbox, Write
from appliance.management.store.state import State
from appliance.wire.requests.submissions import Submission

_PROGRAM = "torch.mlir"
"""The file that the client writes first."""

_LONGEST_LOWERING = dt.timedelta(minutes=5)
"""How long before its compile job a script may have begun to lower its program, where the file
cannot be seen: it lies on another machine."""

_ADVICE = (
    "Start one of them in another directory, give cstorch.backend() another artifact_dir, or use "
    "`csctl submit`, which gives each run its own."
)


class ArtifactDirectories:
    """Which scripts lower programs where.

    Args:
        state: Has the jobs.
        mailbox: Takes the end of jobs that may run another's program.
    """

    def __init__(self, state: State, mailbox: Mailbox) -> None:
        self._state = state
        self._mailbox = mailbox
        self._arriving: dict[JobId, NewJob] = {}

    async def written_at(self, submission: Submission) -> dt.datetime | None:
        """Return when the program of a compile request was written; None if that cannot be seen."""
        host, _, directory = submission.client_workdir.partition(":")
        if submission.type is not JobType.COMPILE or host != socket.gethostname():
            return None
        return await asyncio.to_thread(_written_at, Path(directory, _PROGRAM))

    def claim(self, new: NewJob, written_at: dt.datetime | None) -> None:
        """Take note that a new job's script lowers programs in its directory.

        Called by one thread, within the batch that stores the job.

        Args:
            written_at: See `written_at`.

        Raises:
            ConflictError: The script of an older job that has not ended does so there, or one that
                has ended did so at the same time.
        """
        if not (directory := new.artifact_dir_of_client):
            return
        others = self._others(new, directory)
        mixed = [job for job in others if _is_mixed_up(job, new, written_at, self._now())]
        for job in mixed:
            self._end(job, "Another script wrote its program over that of this job's script")
        live = [job for job in others if not job.phase.is_terminal]
        if arriving := self._arriving_in(directory, new):
            raise _refusal(new, arriving.id)
        if live and self._is_older(new, live[0]):
            for job in live:
                self._end(job, f"Job {new.id} is of a script that has run longer")
        elif live or mixed:
            raise _refusal(new, (live or mixed)[0].id)
        self._arriving[new.id] = new
        self._state.database.after_commit(lambda: self.forget(new.id))

    def forget(self, job: JobId) -> None:
        """Stop remembering a job that is committed, or never will be."""
        self._arriving.pop(job, None)

    def _others(self, new: NewJob, directory: str) -> Sequence[JobRecord]:
        found = self._state.jobs.in_directory(directory)
        return [job for job in found if job.workflow != new.workflow]

    def _arriving_in(self, directory: str, new: NewJob) -> NewJob | None:
        for job in self._arriving.values():
            if job.artifact_dir_of_client == directory and job.workflow != new.workflow:
                return job
        return None

    def _is_older(self, new: NewJob, other: JobRecord) -> bool:
        """Whether the workflow of a new job has lowered a program there before another did."""
        mine = (
            job
            for job in self._state.jobs.in_directory(new.artifact_dir_of_client)
            if job.workflow == new.workflow
        )
        first = next(mine, None)
        return first is not None and first.sequence < other.sequence

    def _end(self, job: JobRecord, why: str) -> None:
        message = f"{why} in {job.artifact_dir_of_client}: the results may be another program's."
        if not job.phase.is_terminal:
            end = machine.EndRequested(phase=Phase.FAILED, message=f"{message} {_ADVICE}")
            self._mailbox.post(Happened(job=job.id, event=end))
            return
        event = EventRecord(
            job=job.id,
            at=self._now(),
            reason="ProgramOverwritten",
            message=message,
            subject=job.id,
            is_warning=True,
        )
        # Not in this batch, which the refusal of the new job undoes.
        keep = partial(self._state.jobs.add_event, event)
        self._mailbox.post(Write(write=keep, committed=Future()))

    def _now(self) -> dt.datetime:
        return self._state.clock.now()


def _is_mixed_up(
    job: JobRecord, new: NewJob, written_at: dt.datetime | None, now: dt.datetime
) -> bool:
    """Whether a new compile job's program was written before an older one was sent from there."""
    if not (job.type is new.type is JobType.COMPILE and job.client_workdir == new.client_workdir):
        return False
    if written_at is not None:
        return job.created_at >= written_at
    return not job.phase.is_terminal and now - job.created_at < _LONGEST_LOWERING


def _refusal(new: NewJob, other: JobId) -> ConflictError:
    return ConflictError(
        f"The script of {other} lowers its programs in {new.artifact_dir_of_client} already; two "
        "at once overwrite each other's program there.",
        hint=f"{_ADVICE} If it runs no more, `csctl cancel job {other}`.",
    )


def _written_at(path: Path) -> dt.datetime | None:
    try:
        return dt.datetime.fromtimestamp(path.stat().st_mtime, tz=dt.UTC)
    except OSError:
        return None
