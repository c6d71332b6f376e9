"""Changes to a job that must not overwrite concurrent ones.

A change names the state of the job that the caller has seen by its *mark*: a digest of everything
that can be edited. Comparing and changing are one transaction.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from appliance.core.cluster.access import name_of
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import JobRecord, User
from appliance.core.errors import ConflictError, StaleError
from appliance.core.ids import JobId
from appliance.management.jobs.job_service import JobService
from appliance.management.reconciler.mailbox import Mailbox, Reprioritised
from appliance.management.store.state import State
from appliance.wire.requests.submissions import check_label_changes, parse_priority


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEdit:
    """What to change of a job.

    Attributes:
        priority: Bucket or number, as a person writes it; None leaves it.
        labels: Labels to add or replace; None as a value removes one.
        mark: The state that the change was made for; empty changes any state.
    """

    priority: str | None = None
    labels: Mapping[str, str | None] | None = None
    mark: str = ""


def mark_of(job: JobRecord) -> str:
    """Return the digest of what can be edited of a job."""
    editable = {"priority": job.priority, "labels": dict(job.labels)}
    text = json.dumps(editable, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class JobEdits:
    """Changes jobs.

    Args:
        state: The appliance's database.
        mailbox: Leads to the reconciler, which serves jobs by their priorities.
    """

    def __init__(self, state: State, jobs: JobService, mailbox: Mailbox) -> None:
        self._state = state
        self._jobs = jobs
        self._mailbox = mailbox

    def edit(self, job: JobId, edit: JobEdit) -> JobRecord:
        """Change a job; a new priority is that of its workflow's other unfinished jobs as well.

        Raises:
            NotFoundError: There is no job of that id.
            StaleError: The job is not as it was when the change was made up.
            ConflictError: The job has ended, and its priority is to change.
            UserError: A label or the priority is not well formed.
        """
        priority = None if edit.priority is None else parse_priority(edit.priority)
        labels = edit.labels or {}
        check_label_changes(labels)

        def change(record: JobRecord) -> None:
            mark = mark_of(record)
            if edit.mark and mark != edit.mark:
                raise StaleError(
                    f"Job {job} has changed: it is at {mark}, the change is for {edit.mark}.",
                    hint="Get the job again and repeat the change.",
                )
            if priority is not None and record.phase.is_terminal:
                raise ConflictError(f"Job {job} is {record.phase.value}; its priority is history.")

        record = self._state.jobs.edit(job, check=change, labels=labels, priority=priority)
        if priority is not None:
            self._follow(record, priority)
        return record

    def hold(self, job: JobId, by: User, *, stops: bool = False) -> None:
        """Hold a waiting job: it keeps its place but does not start.

        Args:
            by: Who holds it.
            stops: Whether a driver that runs is stopped first, with its script's jobs.

        Raises:
            NotFoundError: There is no job of that id.
            ConflictError: It does not wait and is not to be stopped, or cannot be; or somebody
                holds it already.
        """
        record = self._jobs.load(job)
        _check_unfinished(record, "hold")
        if record.held_by:
            raise ConflictError(f"Job {job} is held by {record.held_by} already.")
        if stops:
            _check_restarts(record)
        self._mailbox.hold_back(job, name_of(by), stops=stops)

    def requeue(self, job: JobId, by: User) -> None:
        """Stop a driver with its script's jobs, and queue it again.

        Raises:
            NotFoundError: There is no job of that id.
            ConflictError: It is no driver that runs, or has ended.
        """
        record = self._jobs.load(job)
        _check_unfinished(record, "queue again")
        _check_restarts(record)
        if record.held_by:
            raise ConflictError(
                f"Job {job} is held by {record.held_by}.", hint="`csctl resume` lets it start."
            )
        self._mailbox.requeue(job, name_of(by))

    def release(self, job: JobId) -> None:
        """Let a held job start again.

        Raises:
            NotFoundError: There is no job of that id.
            ConflictError: It is not held.
        """
        record = self._jobs.load(job)
        _check_unfinished(record, "let start")
        if not record.held_by:
            raise ConflictError(f"Job {job} is {record.phase.value} and is not held.")
        self._mailbox.hold_back(job, "", stops=True)  # it may be stopping yet

    def suspend(self, job: JobId, by: str, why: str = "") -> None:
        """Hold a job, whoever holds it already; one that runs is stopped and queued again.

        Args:
            by: What holds it, as its users are to read it.
            why: Why, if that says more.

        Raises:
            ConflictError: It has ended.
        """
        self._mailbox.hold_back(job, by, stops=True, why=why)

    def resume(self, job: JobId) -> None:
        """Let a suspended job start again, also while it is still being stopped.

        Raises:
            ConflictError: It has ended.
        """
        self._mailbox.hold_back(job, "", stops=True)

    def _follow(self, record: JobRecord, priority: int) -> None:
        self._mailbox.post(Reprioritised(job=record.id, priority=priority))
        for member in self._jobs.of_workflow(record):
            if member.id != record.id:
                self._state.jobs.set_priority(member, priority)
                self._mailbox.post(Reprioritised(job=member.id, priority=priority))


def _check_unfinished(job: JobRecord, change: str) -> None:
    """Refuse what cannot be done to a job that has ended."""
    if job.phase.is_terminal:
        raise ConflictError(
            f"Job {job.id} is {job.phase.value}; there is nothing to {change}.",
            hint="Submit it again.",
        )


def _check_restarts(job: JobRecord) -> None:
    """Refuse to stop a job whose client would have lost it."""
    if job.type is not JobType.DRIVER and job.phase is not Phase.QUEUED:
        raise ConflictError(
            f"Job {job.id} is {job.phase.value} for a client, which would lose it.",
            hint="Cancel it; a detached run is stopped by its own name.",
        )
