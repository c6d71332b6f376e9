"""Accepts new jobs and workflows, and recognises submissions that come again.

The client's gRPC repeats a call up to four times, within half a minute, when its connection ends or
the answer is UNAVAILABLE, UNKNOWN or RESOURCE_EXHAUSTED; the header `grpc-previous-rpc-attempts`
marks the repeat. The earlier attempt may have been committed, by this management or by one that was
killed before it could answer. So each job stores a digest of its request, and a repeat gets the
existing job unless its client has shown since that it knows that job: a client that wants the same
thing twice has looked at the first one.
"""

import asyncio
import datetime as dt
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Mapping
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock

from appliance.coordinator.compile.artifacts import CompileCache, parse_compile_dir
from appliance.core.cluster.notifications import Target
from appliance.core.cluster.records import (
    DEFAULT_SESSION,
    MAX_LABELS,
    EventRecord,
    JobRecord,
    NewJob,
    User,
)
from appliance.core.ids import JobId, WorkflowId, new_authority, new_job_id, new_workflow_id
from appliance.core.queries.run_line import inherited_labels
from appliance.management.access.authorization import write_down
from appliance.management.changes.watch import Awaited
from appliance.management.cluster.cluster_model import ClusterModel
from appliance.management.cluster.demands import requirements_of
from appliance.management.cluster.session_service import SessionService
from appliance.management.jobs.artifact_directories import ArtifactDirectories
from appliance.management.jobs.driver_service import DriverService
from appliance.management.reconciler.mailbox import Arrived, Holds, Mailbox, Releases
from appliance.management.store.state import State
from appliance.management.store.versions import CLIENT_BUILDS, SERVED_RELEASES
from appliance.observability import tracing
from appliance.storage.engine.database import ask
from appliance.storage.queue.job_requests import JobRequest
from appliance.wire.caller import Caller
from appliance.wire.requests.submissions import Submission, named_workflow

logger = logging.getLogger(__name__)

REPEAT_SECONDS = 120.0
"""How old a job may be that a repeat is answered with. The client waits 2, 4, 8 and 10 seconds,
each a fifth more or less, before its repeats; the attempts themselves may take a while too."""

_MAX_KNOWN = 10_000
"""Jobs remembered that their clients have asked about; more than are submitted in that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionOptions:
    """How submissions are handled.

    Attributes:
        data_dir: Where jobs' directories and the compile cache are.
        lease_seconds: How long a job lives without a sign of its client.
        notifies: Who is told of every job, beside those whom its request names.
    """

    data_dir: Path
    lease_seconds: int
    notifies: tuple[Target, ...]
    compile_cache: CompileCache


class SubmissionService:
    """Accepts jobs and workflows.

    Args:
        state: The appliance's database.
        mailbox: Leads to the reconciler, which takes over the new jobs.
        options: See `SubmissionOptions`.
        drivers: Knows which callers are scripts of drivers; their jobs are the driver's.
        model: What the cluster has.
        sessions: Where jobs go.
    """

    def __init__(
        self,
        state: State,
        mailbox: Mailbox,
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
        self._mailbox = mailbox
        self._options = options
        self._repeats = RepeatedCalls(state)
        self._directories = ArtifactDirectories(state, mailbox)

    def client_knows(self, job: JobId) -> None:
        """Take note that the client of a job has heard of it; see the module."""
        self._repeats.client_knows(job)

    async def submit(self, submission: Submission, caller: Caller) -> JobRecord:
        """Queue a job; it is committed when this returns.

        A call that comes again gets the job that it made before, if it made one.

        Raises:
            NotFoundError: It names a session that does not exist.
            ConflictError: Another script lowers its programs where this one does.
        """
        job = new_job_id()
        committed: asyncio.Future[JobRecord] = asyncio.get_running_loop().create_future()
        written_at = await self._directories.written_at(submission)
        call = (job, submission, caller, written_at, committed)
        await ask(self._state.database, self._hand_over, *call)
        record = await committed
        logger.info(
            "Job submitted" if record.id == job else "Job of a repeated call was there already",
            extra={"job": record.id, "type": record.type.value, "user": caller.user.name},
        )
        return record

    def _hand_over(
        self,
        job: JobId,
        submission: Submission,
        caller: Caller,
        written_at: dt.datetime | None,
        committed: Awaited,
    ) -> None:
        """Submit a job to the reconciler's next turn."""
        driver = self._drivers.running(caller.token)
        session = self.session_of(submission.session, caller, driver)
        labels: Mapping[str, str] = submission.labels
        if driver is not None:
            workflow = driver.workflow
            labels = inherited_labels(driver.labels, labels, most=MAX_LABELS)
        else:
            named = named_workflow(submission.workflow, caller.workflow)
            workflow = WorkflowId(named) or new_workflow_id()
        new = NewJob(
            id=job,
            type=submission.type,
            session=session,
            workflow=workflow,
            user=caller.user,
            priority=submission.priority,
            num_systems=submission.num_systems,
            workers_per_system=submission.workers_per_system,
            labels=labels,
            work_dir=f"{self._options.data_dir}/jobs/{job}",
            client_workdir=submission.client_workdir,
            service_authority=new_authority(job),
            requirements=requirements_of(
                self._limited(submission, driver),
                self._model.facts.description,
                max_groups=self._max_groups(session) if submission.num_shards > 1 else None,
            ),
            request_digest=digest_of(submission, caller),
            client_release=caller.client_release,
        )
        # It keeps the job's place in a trace too, which is below the call that is served here.
        store = partial(copy_context().run, self._store, new, submission, caller, written_at)
        self._mailbox.post(Arrived(job=job, store=store, committed=committed))

    def _limited(self, submission: Submission, driver: JobRecord | None) -> Submission:
        """Return a submission with the limit of its run, if that is shorter than its own."""
        limit = None if driver is None else self._drivers.time_limit_of(driver)
        own = submission.limit_seconds
        if limit is None or (own is not None and own <= limit):
            return submission
        return replace(submission, limit_seconds=limit)

    def _max_groups(self, session: str) -> int | None:
        record = self._state.sessions.find(session)
        return None if record is None else record.spec.max_node_groups

    def _store(
        self, new: NewJob, submission: Submission, caller: Caller, written_at: dt.datetime | None
    ) -> JobRecord:
        """Write a job down unless it is there already; called within a batch."""
        if (first := self._repeats.find_first(new.request_digest, caller)) is not None:
            write_down(first.id)
            return first
        self._directories.claim(new, written_at)
        try:
            return self._store_new(new, submission, caller)
        except BaseException:
            self._directories.forget(new.id)
            raise

    def _store_new(self, new: NewJob, submission: Submission, caller: Caller) -> JobRecord:
        """Write a new job with its request, its workflow and its lease."""
        record = self._state.jobs.create(new)
        self._state.workflows.ensure(new.workflow, session=new.session, user=new.user, first=record)
        trace, parent = tracing.begin_job()
        request = JobRequest(message=submission.request, trace=trace, trace_parent=parent)
        self._state.requests.keep(new.id, request)
        self._warn_of_release(new.id, caller.client_release)
        self._state.leases.grant(new.id, seconds=self._options.lease_seconds)
        targets = (*self._options.notifies, *submission.notifications)
        self._state.notifications.follow(new.id, targets)
        write_down(new.id)
        return record

    def open_workflow(self, caller: Caller, *, seconds: int, reserve: bool) -> WorkflowId:
        """Open a workflow under a fresh id; its client keeps it alive by heartbeats.

        Args:
            caller: Who opens it.
            seconds: Length of its lease; 0 for the appliance's own.
            reserve: Whether what its jobs get stays its own between jobs.
        """
        driver = self._drivers.running(caller.token)
        workflow = driver.workflow if driver else new_workflow_id()
        self._state.workflows.ensure(
            workflow,
            session=self.session_of("", caller, driver),
            user=caller.user,
            reserves_resources=reserve,
        )
        self._state.leases.grant(workflow, seconds=seconds or self._options.lease_seconds)
        if reserve:
            self._mailbox.post(Holds(workflow=workflow))
        return workflow

    def release_workflow(self, workflow: WorkflowId) -> None:
        """Give up what a workflow reserved, and its lease."""
        self._state.workflows.release(workflow)
        self._state.leases.end(workflow)
        self._mailbox.post(Releases(workflow=workflow))

    def reserve_for(self, job: JobRecord) -> None:
        """Let the workflow of a job retain what its jobs get; raises `NotFoundError`."""
        self._state.workflows.reserve(job.workflow)
        self._mailbox.post(Holds(workflow=job.workflow))

    def release_for(self, job: JobRecord) -> None:
        """Let the workflow of a job release what it retains; raises `NotFoundError`."""
        self._state.workflows.release(job.workflow)
        self._mailbox.post(Releases(workflow=job.workflow))

    def session_of(self, wanted: str, caller: Caller, driver: JobRecord | None) -> str:
        """Return the session of a caller's job; `driver` is that whose script the caller is.

        Clients name the default session where their configuration knows no other, so that one says
        nothing: the jobs of a driver's script are then in the driver's session.
        """
        named = wanted or caller.session
        if driver is not None and named in ("", DEFAULT_SESSION):
            named = driver.session
        return self._sessions.session_for(named, caller.user.name)

    def compile_dir(self, relative: str, user: User) -> Path:
        """Return the directory for compile artifacts that a user's client names.

        Raises:
            UserError: The path would leave the cluster's compile directory, or is not for clients.
        """
        root = self._options.compile_cache.root_of(user.uid)
        return parse_compile_dir(relative, root.resolve()).path

    def _warn_of_release(self, job: JobId, release: str) -> None:
        if not release or release in CLIENT_BUILDS:
            return
        message = (
            f"Warning: client version {release} is inconsistent with cluster server version "
            f"{SERVED_RELEASES}, there's a risk job could fail due to inconsistent setup."
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


def digest_of(submission: Submission, caller: Caller) -> str:
    """Return a digest that is equal for all attempts of one call, and differs for other calls."""
    user = caller.user
    who = (user.uid, user.gid, user.name, caller.token, caller.workflow, caller.session)
    digest = hashlib.sha256(repr((submission.type.value, *who)).encode())
    digest.update(submission.request)
    return digest.hexdigest()


class RepeatedCalls:
    """Finds the jobs of submissions that come again.

    Args:
        state: Where jobs are kept.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._lock = Lock()
        self._known: OrderedDict[JobId, None] = OrderedDict()

    def client_knows(self, job: JobId) -> None:
        """Take note that a client has asked about a job that there is: it has heard of it."""
        with self._lock:
            self._known[job] = None
            if len(self._known) > _MAX_KNOWN:
                self._known.popitem(last=False)

    def find_first(self, digest: str, caller: Caller) -> JobRecord | None:
        """Return the job that an earlier attempt of a call made; None if there is none.

        Called within the batch that would store another one, so that it sees attempts that are yet
        to be committed.
        """
        if not caller.num_previous_attempts:
            return None
        since = self._state.clock.now() - dt.timedelta(seconds=REPEAT_SECONDS)
        with self._lock:
            known = frozenset(self._known)
        unclaimed = self._state.jobs.unclaimed(digest, since=since)
        return next((job for job in unclaimed if job.id not in known), None)
