"""Taking in jobs and workflows."""

import logging
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from appliance.core.errors import UserError
from appliance.core.ids import JobId, Role, WorkflowId, new_job_id, new_workflow_id, pod_name
from appliance.core.records import EventRecord, JobRecord, NewJob
from appliance.management.cluster_model import ClusterModel
from appliance.management.demands import requirements_of
from appliance.management.drivers import DriverService
from appliance.management.gang import REQUEST_FILE
from appliance.management.reconciler import Reconciler
from appliance.management.sessions import SessionService
from appliance.management.state import State
from appliance.management.versions import CLIENT_BUILDS, NEWEST_CLIENT
from appliance.wire.caller import Caller
from appliance.wire.submissions import Submission

logger = logging.getLogger(__name__)

AUTHORITY_SUFFIX = "cluster-server.cerebrassc.local"
"""Ending of every authority that clients call; the TLS certificate is for all names below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionOptions:
    """How jobs are taken in.

    Attributes:
        data_dir: Where jobs' directories and the compile cache are.
        lease_seconds: How long a job lives without a sign of its client.
    """

    data_dir: Path
    lease_seconds: int

    @property
    def compile_root(self) -> Path:
        """The compile cache."""
        return self.data_dir / "compile"


class SubmissionService:
    """Takes in jobs and workflows.

    Args:
        state: What is kept.
        reconciler: Takes over the new jobs.
        options: See `SubmissionOptions`.
        drivers: Knows which callers are scripts of drivers; their jobs are the driver's.
        model: What the cluster has.
        sessions: Where jobs go.
    """

    def __init__(
        self,
        state: State,
        reconciler: Reconciler,
        options: SubmissionOptions,
        *,
        drivers: DriverService,
        model: ClusterModel,
        sessions: SessionService,
    ) -> None:
        self._drivers = drivers
        self._state = state
        self._model = model
        self._sessions = sessions
        self._reconciler = reconciler
        self._options = options

    def submit(self, submission: Submission, caller: Caller) -> JobRecord:
        """Queue a job.

        Raises:
            NotFoundError: It names a session that does not exist.
        """
        session = self._session(submission.session, caller)
        job = new_job_id()
        work_dir = self._options.data_dir / "jobs" / job
        (work_dir / "logs").mkdir(parents=True)
        (work_dir / REQUEST_FILE).write_bytes(submission.request)
        with self._state.database.batch():
            record = self._keep(job, submission, caller, session=session)
        self._reconciler.submit(record)
        logger.info(
            "Job submitted",
            extra={"job": job, "type": record.type.value, "user": caller.user.name},
        )
        return record

    def _keep(
        self, job: JobId, submission: Submission, caller: Caller, *, session: str
    ) -> JobRecord:
        """Keep a job with its workflow and its lease, in one transaction of the caller's."""
        workflow = (
            self._drivers.workflow_of(caller.token)
            or WorkflowId(submission.workflow or caller.workflow)
            or new_workflow_id()
        )
        self._state.workflows.ensure(workflow, session=session, user=caller.user)
        work_dir = self._options.data_dir / "jobs" / job
        record = self._state.jobs.create(
            NewJob(
                id=job,
                type=submission.type,
                session=session,
                workflow=workflow,
                user=caller.user,
                priority=submission.priority,
                num_systems=submission.num_systems,
                workers_per_system=submission.workers_per_system,
                labels=submission.labels,
                work_dir=str(work_dir),
                client_workdir=submission.client_workdir,
                service_authority=f"{pod_name(job, Role.COORDINATOR, 0)}.{AUTHORITY_SUFFIX}",
                requirements=requirements_of(submission, self._model.facts.description),
            )
        )
        self._warn_of_version(job, caller.client_version)
        self._state.leases.grant(job, seconds=self._options.lease_seconds)
        return record

    def open_workflow(self, caller: Caller, *, seconds: int, reserve: bool) -> WorkflowId:
        """Open a workflow under a fresh id; its client keeps it alive by heartbeats.

        Args:
            caller: Who opens it.
            seconds: Length of its lease; 0 for the appliance's own.
            reserve: Whether what its jobs get stays its own between jobs.
        """
        workflow = self._drivers.workflow_of(caller.token) or new_workflow_id()
        self._state.workflows.ensure(
            workflow,
            session=self._session("", caller),
            user=caller.user,
            reserves_resources=reserve,
        )
        self._state.leases.grant(workflow, seconds=seconds or self._options.lease_seconds)
        return workflow

    def release_workflow(self, workflow: WorkflowId) -> None:
        """Give up what a workflow reserved, and its lease."""
        self._state.workflows.release(workflow)
        self._state.leases.end(workflow)
        self._reconciler.release(workflow)

    def reserve_for(self, job: JobRecord) -> None:
        """Let the workflow of a job keep what its jobs get; raises `NotFoundError`."""
        self._state.workflows.reserve(job.workflow)
        self._reconciler.hold(job.workflow)

    def release_for(self, job: JobRecord) -> None:
        """Let the workflow of a job give up what it keeps; raises `NotFoundError`."""
        self._state.workflows.release(job.workflow)
        self._reconciler.release(job.workflow)

    def _session(self, wanted: str, caller: Caller) -> str:
        return self._sessions.session_for(wanted or caller.session, caller.user.name)

    def compile_dir(self, relative: str) -> Path:
        """Return the directory for compile artifacts that a client names.

        Raises:
            UserError: The path would leave the cluster's compile directory.
        """
        parts = PurePosixPath(relative).parts
        if ".." in parts:
            raise UserError(f"Compile directory {relative!r} leads out of the compile cache.")
        return self._options.compile_root.joinpath(*(part for part in parts if part != "/"))

    def _warn_of_version(self, job: JobId, version: str) -> None:
        if not version or version in CLIENT_BUILDS:
            return
        message = (
            f"Warning: client version {version} is inconsistent with cluster server version "
            f"{NEWEST_CLIENT}, there's a risk job could fail due to inconsistent setup."
        )
        event = EventRecord(
            job=job,
            at=self._state.clock.now(),
            reason="InconsistentVersion",
            message=message,
            subject=job,
            is_warning=True,
        )
        self._state.jobs.add_event(event)
