"""Questions about jobs and actions on them, for every entry point: gRPC, csctl, REST."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from appliance.coordinator.compile.artifacts import ArtifactStore, CompileCache
from appliance.core.cluster.drivers import POD_FAILED_EVENT
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import CoordinatorAddress, EventRecord, JobRecord, PodRecord
from appliance.core.cluster.run import Point, RunSession
from appliance.core.errors import ConflictError, UserError
from appliance.core.ids import JobId, PodName
from appliance.core.pods.pod_spec import EXIT_FAILED
from appliance.core.queries.job_filter import JobFilter, JobLine
from appliance.management.changes.watch import Awaited, JobWatch, Topic
from appliance.management.jobs.run_sessions import RunSessions
from appliance.management.jobs.submitted_requests import SubmittedRequests
from appliance.management.reconciler import job_machine as machine
from appliance.management.reconciler.mailbox import (
    Happened,
    Mailbox,
    Registered,
    Reprioritised,
    WantsCompile,
)
from appliance.management.store.state import State
from appliance.scheduler.waiting.wait_reasons import Wait
from appliance.storage.engine.database import ask
from appliance.wire.requests.submissions import check_label_changes, parse_priority

_Answer = TypeVar("_Answer")

FROM_OUTSIDE = "canceled-by-csctl"
"""Word in a job's message by which the client tells such an end from a failure, whoever cancelled
the job and however: the client knows no other."""


def cancelled_by(user: str, how: str) -> str:
    """Return a sentence about who cancelled a job and how, as in `with csctl`."""
    return f"cancelled by {user or 'a user'} {how}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job with all that belongs to it."""

    job: JobRecord
    pods: Sequence[PodRecord]
    events: Sequence[EventRecord]
    wait: Wait | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingress:
    """The state of a job's ingress.

    Attributes:
        message: What it waits for, for people.
        is_scheduled: Whether it has its resources.
        is_ready: Whether the coordinator listens.
        has_failed: Whether it never will.
        service_address: host:port of the coordinator.
        service_authority: Authority to call it by.
    """

    message: str
    is_scheduled: bool
    is_ready: bool = False
    has_failed: bool = False
    service_address: str = ""
    service_authority: str = ""

    @property
    def is_final(self) -> bool:
        """Whether the answer will not change any more."""
        return self.is_ready or self.has_failed


class JobService:
    """Questions about jobs, and what may be done to them.

    Attributes:
        run_sessions: The sessions of execute jobs.
        requests: The requests that submitted jobs.

    Args:
        state: The appliance's database.
        mailbox: Leads to the reconciler, which moves the jobs.
        dashboard_root: URL below which jobs have their pages.
        compile_cache: Where artifacts are.
        watch: Told of new readings.
        shared_address: host:port by which clients reach every coordinator; empty if each has one.
        namespace_of: Returns the Kubernetes namespace that a job is in; empty if it is in none.

    Attributes:
        pod_waits: Why pods of a job that were launched do not run yet, by job.
        namespace_of: See above.
    """

    def __init__(
        self,
        state: State,
        mailbox: Mailbox,
        dashboard_root: str,
        *,
        compile_cache: CompileCache,
        watch: JobWatch,
        shared_address: str = "",
        namespace_of: Callable[[JobRecord | JobLine], str] = lambda _: "",
    ) -> None:
        self._watch = watch
        self._compile_cache = compile_cache
        self._state = state
        self._mailbox = mailbox
        self.pod_waits: Mapping[JobId, str] = mailbox.pod_waits
        self._dashboard_root = dashboard_root
        self._shared_address = shared_address
        self.namespace_of = namespace_of
        self.run_sessions = RunSessions(state, mailbox)
        self.requests = SubmittedRequests(state)

    def look(
        self, question: Callable[..., _Answer], *arguments: object
    ) -> Coroutine[Any, Any, _Answer]:
        """Run one of the queries below: at once if it is in memory, else in a thread."""
        return ask(self._state.database, question, *arguments)

    def find(self, job: JobId) -> JobRecord | None:
        """Return a job, or None if there is none of that id."""
        return self._state.jobs.find(job)

    def load(self, job: JobId) -> JobRecord:
        """Return a job; raises `NotFoundError`."""
        return self._state.jobs.load(job)

    def list(self, wanted: JobFilter) -> Sequence[JobRecord]:
        """Return jobs by priority, newest first within equal priority."""
        return self._state.jobs.list(wanted)

    def view(self, job: JobId) -> JobView:
        """Return a job with its pods and events; raises `NotFoundError`."""
        return JobView(
            job=self.load(job),
            pods=self._state.pods.of_job(job),
            events=self._state.jobs.events(job),
            wait=self.wait_of(job),
        )

    def events(self, job: JobId) -> Sequence[EventRecord]:
        """Return what happened to a job, oldest first."""
        return self._state.jobs.events(job)

    def warnings(self, job: JobId) -> Sequence[EventRecord]:
        """Return the events that are shown to the user without a request."""
        events = self._state.jobs.events(job)
        return [event for event in events if event.is_warning and event.phase is None]

    def wait_of(self, job: JobId) -> Wait | None:
        """Return why a job waits; None if it does not."""
        waits = self._mailbox.waits_at(self._state.clock.now().timestamp())
        return None if waits is None else waits.get(job)

    def dashboard(self, job: JobId) -> str:
        """Return the address of the job's page."""
        return f"{self._dashboard_root}/jobs/{job}"

    def ingress(self, job: JobId) -> Ingress:
        """Return the state of a job's ingress; raises `NotFoundError`."""
        record = self.load(job)
        is_scheduled = record.started_at is not None
        match record.phase:
            case Phase.CREATED | Phase.QUEUED:
                self._state.database.about_to_wait()  # explaining a long queue takes a while
                wait = self.wait_of(job)
                reason = wait.reason if wait else "job is queueing."
                return Ingress(message=_waiting("Queueing", reason), is_scheduled=False)
            case Phase.SCHEDULED:
                on = f" on {', '.join(record.systems)}" if record.systems else ""
                return Ingress(
                    message=_waiting("Scheduled", f"job scheduled{on}."), is_scheduled=True
                )
            case Phase.INITIALIZING:
                waits = self.pod_waits.get(job, "")
                message = f"{_READINESS[:-1]}: {waits}" if waits else _READINESS
                return Ingress(message=message, is_scheduled=True)
            case Phase.RUNNING:
                return Ingress(
                    message=f"Job ingress ready, dashboard: {self.dashboard(job)}",
                    is_scheduled=True,
                    is_ready=True,
                    service_address=self._shared_address or record.service_address,
                    service_authority=record.service_authority,
                )
            case _:
                message = record.message or f"job is {record.phase.value} already"
                return Ingress(message=message, is_scheduled=is_scheduled, has_failed=True)

    def coordinator(self, job: JobId) -> CoordinatorAddress | None:
        """Return where clients find a job's coordinator; None if it has none yet or any more."""
        record = self.find(job)
        if record is None or record.phase.is_terminal:
            return None
        return CoordinatorAddress(
            address=record.service_address,
            authority=record.service_authority,
            owner_uid=record.user.uid,
        )

    def end(self, job: JobId, phase: Phase, message: str) -> None:
        """Let a job end as its client says; nothing happens to a job that has ended."""
        record = self.load(job)
        if record.type.is_sdk and message in NO_REASONS:
            message = _unsaid_end(phase, self.warnings(job))
        elif not record.type.is_sdk:
            message = _end_in_words(phase, message)
        end = machine.EndRequested(phase=phase, message=message)
        self._mailbox.post(Happened(job=job, event=end))

    def cancel(self, job: JobId, why: str) -> None:
        """Cancel a job from outside its client; with a driver, the jobs of its script too.

        Args:
            why: By whom and how, for people; `cancelled_by` says it for most.

        Raises:
            NotFoundError: There is no job of that id.
            ConflictError: It has ended already.
        """
        record = self.load(job)
        if record.phase.is_terminal:
            raise ConflictError(f"Job {job} is {record.phase.value} already.")
        message = f"{FROM_OUTSIDE}: {why}"
        end = machine.EndRequested(phase=Phase.CANCELLED, message=message)
        self._mailbox.post(Happened(job=job, event=end))
        if record.type is not JobType.DRIVER:
            return
        for member in self.of_workflow(record):
            if member.id != job:
                self._mailbox.post(Happened(job=member.id, event=end))

    def finalize_compile(self, job: JobId, artifact_dir: str) -> None:
        """Store where a compile job left its artifacts; the job is then done.

        Args:
            artifact_dir: What its coordinator has answered; empty if the caller does not say.

        Raises:
            UserError: It is no compile job, or the path leads out of the compile cache.
            NotFoundError: No job of the same user has compiled what lies there.
        """
        record = self.load(job)
        if record.type is not JobType.COMPILE:
            raise UserError(f"Job {job} is no compile job.")
        if artifact_dir:
            root, user = self._compile_cache.root_of(record.user.uid), record.user.uid
            found = ArtifactStore(root, user).of_user(artifact_dir)
            self._state.jobs.set_artifact_dir(record, str(found))
        self._mailbox.post(Happened(job=job, event=machine.CompileFinalized()))

    def delete(self, job: JobId) -> None:
        """Forget a job that has ended."""
        self._state.jobs.delete(job)

    def patch_labels(self, job: JobId, changes: Mapping[str, str | None]) -> JobRecord:
        """Add, replace or (None) remove labels.

        Raises:
            UserError: A label is not well formed.
            NotFoundError: There is no job of that id.
        """
        check_label_changes(changes)
        return self._state.jobs.patch_labels(job, changes)

    def of_workflow(self, job: JobRecord) -> Sequence[JobRecord]:
        """Return the unfinished jobs of a job's workflow, which are all of one user."""
        return self.list(JobFilter(workflow=job.workflow, uid=job.user.uid))

    def set_priority(self, job: JobId, text: str) -> int:
        """Change the priority of a job and of its workflow's other unfinished jobs.

        Returns:
            The new value.

        Raises:
            UserError: The text is no priority.
            ConflictError: The job has ended.
        """
        priority = parse_priority(text)
        record = self.load(job)
        if record.phase.is_terminal:
            raise ConflictError(f"Job {job} is {record.phase.value}; its priority is history.")
        for member in self.of_workflow(record):
            self._state.jobs.set_priority(member, priority)
            self._mailbox.post(Reprioritised(job=member.id, priority=priority))
        return priority

    def coordinator_registered(
        self, job: JobId, address: str, committed: Awaited | None = None
    ) -> None:
        """Take note that a job's coordinator listens; raises `NotFoundError`.

        Args:
            address: host:port at which it listens.
            committed: Resolved after the commit; None if nobody waits.
        """
        self.load(job)
        self._mailbox.post(Registered(job=job, address=address, committed=committed))

    def reported(
        self,
        job: JobId,
        *,
        phase: str,
        message: str,
        pods: Sequence[PodRecord],
        events: Sequence[EventRecord],
        points: Sequence[Point] = (),
        session: RunSession | None = None,
    ) -> None:
        """Record a coordinator's report of its job."""
        record = self.load(job)
        for pod in pods:
            self._state.pods.set_readings(
                pod.name,
                step=pod.step,
                resident_bytes=pod.resident_bytes,
                readings=pod.readings,
            )
        for event in events:
            self._state.jobs.add_event(event)
            _note_failed_pod(self._state, event)
        self._state.series.add(job, points)
        if session is not None:
            self.run_sessions.note(record, session)
        self._watch.tell(Topic.PROGRESS, job)
        if phase:
            reported = machine.Reported(phase=Phase(phase), message=message)
            self._mailbox.post_and_wait(job, reported)

    def request_compile(self, job: JobId, *, num_systems: int = 0, is_cached: bool = False) -> None:
        """Queue a compile job after a cache miss, for the resources to compile.

        Args:
            num_systems: Systems that its program is for; if its workflow reserves, and keeps
                nothing yet, that begins with them.
            is_cached: Whether the look was not in vain; then nothing is queued.

        Raises:
            NotFoundError: There is no job of that id.
            UserError: It is no compile job.
        """
        if self.load(job).type is not JobType.COMPILE:
            raise UserError(f"Job {job} is no compile job.")
        wanted = WantsCompile(job=job, num_systems=num_systems, is_cached=is_cached)
        self._mailbox.post(wanted)

    def may_compile(self, job: JobId) -> bool:
        """Whether a compile job has what compiling takes.

        Raises:
            ConflictError: It has ended.
        """
        record = self.load(job)
        if record.phase.is_terminal:
            raise ConflictError(f"Job {job} is {record.phase.value} already.")
        return not record.holding.is_lookup

    def has_lease(self, lease_id: str) -> bool:
        """Whether a job or workflow has a lease that was not ended."""
        return self._state.leases.exists(lease_id)


NO_REASONS = ("", "None")
"""What a client says of a failure without a reason: the SDK's the second, whatever has failed."""

_UNSAID_ENDS: Mapping[Phase, str] = {
    Phase.SUCCEEDED: "Success",
    Phase.FAILED: "The client's program failed; no request of this job did.",
    Phase.CANCELLED: "Cancelled",
}
"""What an SDK job's message is when its client names no reason: as the client would say it."""


_READINESS = "Waiting for job ingress readiness."


def _unsaid_end(phase: Phase, warnings: Sequence[EventRecord]) -> str:
    """Return why an SDK job ends whose client does not say: what failed last, if it failed."""
    if phase is Phase.FAILED and warnings:
        return warnings[-1].message
    return _UNSAID_ENDS.get(phase, "")


_GOOD_END = "success"
"""What the training client says of any end without an exception: also when the script leaves its
loop, or is interrupted, and it has the job cancelled."""


def _end_in_words(phase: Phase, message: str) -> str:
    """Return what a training client says of a job's end, or what its silence means."""
    match phase:
        case Phase.CANCELLED if message in ("", _GOOD_END):
            return "cancelled by its client: the script was interrupted, or left its loop early"
        case Phase.FAILED if not message:
            return "the script failed; its terminal says how"
        case _:
            return message


def _waiting(status: str, message: str) -> str:
    return f"Waiting for job running, current job status: {status}, msg: {message}"


def _note_failed_pod(state: State, event: EventRecord) -> None:
    """Keep of a pod that cannot go on why; its process may then end in order, with its job."""
    pod = PodName(event.subject)
    if event.reason == POD_FAILED_EVENT and pod.startswith(f"{event.job}-"):
        state.pods.set_ended(pod, exit_code=EXIT_FAILED, message=event.message, at=event.at)
