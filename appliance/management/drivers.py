"""Detached runs: takes in drivers and says whether their scripts are started again."""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance.core.drivers import DRIVER_FILE, RESTART_EVENT, DriverSpec, Losses, Restart, decide
from appliance.core.errors import ConflictError, UnschedulableError, UserError
from appliance.core.ids import JobId, WorkflowId, new_job_id, new_workflow_id
from appliance.core.jobs import JobType
from appliance.core.records import EventRecord, JobRecord, NewJob, User
from appliance.management.driver_tokens import DriverTokens
from appliance.management.reconciler import Reconciler
from appliance.management.resumption import NODE_LOST
from appliance.management.sessions import SessionService
from appliance.management.state import State
from appliance.storage.jobs import JobFilter
from appliance.wire.submissions import check_labels

logger = logging.getLogger(__name__)

MAX_DRIVERS = 64
"""Unfinished drivers of one user: each is a process of some hundred megabytes that mostly waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSubmission:
    """A detached run as it is asked for.

    Attributes:
        spec: What to run.
        session: Where the driver is listed; empty for the user's own.
        user: Whom it runs as.
        priority: From 0 to `MAX_PRIORITY`.
        labels: The user's tags.
    """

    spec: DriverSpec
    session: str
    user: User
    priority: int
    labels: Mapping[str, str]


class DriverService:
    """Takes in drivers and says whether their scripts are started again.

    Args:
        state: What is kept.
        reconciler: Runs them.
        tokens: Their tokens.
        sessions: Where they are listed.
        data_dir: Where jobs' directories are.
    """

    def __init__(
        self,
        state: State,
        reconciler: Reconciler,
        tokens: DriverTokens,
        sessions: SessionService,
        data_dir: Path,
    ) -> None:
        self._sessions = sessions
        self._state = state
        self._reconciler = reconciler
        self._tokens = tokens
        self._data_dir = data_dir

    def submit(self, submission: DriverSubmission) -> JobRecord:
        """Start a driver; it waits for nothing, as it needs no system: its jobs do.

        Raises:
            ConflictError: The user has too many drivers already.
            UserError: We may not run a program as that user, or a label is not valid.
            NotFoundError: There is no such session.
            UnschedulableError: The cluster has fewer systems than the script will ask for.
        """
        _check_user(submission.user)
        self._check_systems(submission.spec.num_systems)
        self._check_number(submission.user)
        labels = check_labels(submission.labels)
        session = self._sessions.session_for(submission.session, submission.user.name)
        job, workflow = new_job_id(), new_workflow_id()
        self._state.workflows.ensure(workflow, session=session, user=submission.user)
        work_dir = self._data_dir / "jobs" / job
        (work_dir / "logs").mkdir(parents=True)
        _write_private(work_dir / DRIVER_FILE, submission.spec.to_json())
        record = self._state.jobs.create(
            NewJob(
                id=job,
                type=JobType.DRIVER,
                session=session,
                workflow=workflow,
                user=submission.user,
                priority=submission.priority,
                labels=labels,
                work_dir=str(work_dir),
                client_workdir=submission.spec.work_dir,
            )
        )
        self._reconciler.submit(record)
        logger.info("Driver submitted", extra={"job": job, "user": submission.user.name})
        return record

    def workflow_of(self, token: str) -> WorkflowId | None:
        """Return the workflow that a caller's jobs belong to; None if it is no driver's script."""
        driver = self._running(token)
        return driver.workflow if driver else None

    def owner_of(self, token: str) -> User | None:
        """Return whose driver a token is of; None if it is no running driver's."""
        driver = self._running(token)
        return driver.user if driver else None

    def ended(self, job: JobId, exit_code: int) -> tuple[Restart, int]:
        """Decide whether a script is started again, and write down that it is.

        Args:
            job: The driver.
            exit_code: How the script ended; 128 and the number for a signal.

        Returns:
            The decision, and how often the script was started again, this time included.
        """
        record = self._state.jobs.load(job)
        if record.type is not JobType.DRIVER:
            raise UserError(f"Job {job} is no driver.")
        spec = DriverSpec.from_json((Path(record.work_dir) / DRIVER_FILE).read_text())
        restarts = [each for each in self._state.jobs.events(job) if each.reason == RESTART_EVENT]
        since = restarts[-1].at if restarts else record.created_at
        members = [
            each
            for each in self._state.jobs.list(
                JobFilter(workflow=record.workflow, with_finished=True)
            )
            if each.id != job and each.created_at >= since
        ]
        restart = decide(
            spec.restart,
            self._losses(members),
            exit_code=exit_code,
            num_restarts=len(restarts),
        )
        if not restart.is_wanted:
            return restart, len(restarts)
        count = len(restarts) + 1
        message = f"the script is started again, {count} of {spec.restart.limit}: {restart.reason}"
        self._write_event(job, message)
        return restart, count

    def _running(self, token: str) -> JobRecord | None:
        driver = self._tokens.find(token) if token else None
        record = self._state.jobs.find(driver) if driver else None
        return record if record and not record.phase.is_terminal else None

    def _losses(self, members: list[JobRecord]) -> Losses:
        pods = [
            f"{pod.name} {pod.message}"
            for member in members
            for pod in self._state.pods.of_job(member.id)
            if pod.phase == "Failed"
        ]
        nodes = [f"{each.id}: {each.message}" for each in members if NODE_LOST in each.message]
        return Losses(pods=pods, nodes=nodes)

    def _check_systems(self, wanted: int) -> None:
        there = len(self._state.systems.list())
        if wanted > there:
            raise UnschedulableError(
                f"The run asks for {wanted} systems; the cluster has {there}.",
                hint="Ask for fewer.",
            )

    def _check_number(self, user: User) -> None:
        """Refuse one driver too many."""
        mine = self._state.jobs.list(JobFilter(uid=user.uid))
        count = sum(job.type is JobType.DRIVER for job in mine)
        if count >= MAX_DRIVERS:
            raise ConflictError(
                f"User {user.name or user.uid} has {count} unfinished drivers; the most is "
                f"{MAX_DRIVERS}.",
                hint="Wait for one, or cancel one.",
            )

    def _write_event(self, job: JobId, message: str) -> None:
        event = EventRecord(
            job=job,
            at=self._state.clock.now(),
            reason=RESTART_EVENT,
            message=message,
            subject=job,
            is_warning=True,
        )
        self._state.jobs.add_event(event)


def _check_user(user: User) -> None:
    if user.uid < 0:
        raise UserError("The call does not say whom to run the script as.")
    ours = os.geteuid()
    if ours not in (0, user.uid):
        raise UserError(
            f"This appliance runs as uid {ours} and cannot run a script as uid {user.uid}.",
            hint="Submit as that user, or run the appliance as root.",
        )


def _write_private(path: Path, text: str) -> None:
    """Write a file that only we can read: an environment may hold secrets."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
