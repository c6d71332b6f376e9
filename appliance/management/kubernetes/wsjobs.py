"""Synchronises the wsjobs of Kubernetes and the jobs of the appliance, both ways.

One thread compares a job and its wsjob whenever either has changed, and periodically: it does what
is missing for the pair, whatever caused it and whatever was missed. What each side may change of
the other is in `wsjob_objects`.
"""

import datetime as dt
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from appliance.cluster.kubernetes.api import ApiError, ApiServer
from appliance.cluster.kubernetes.informer import Informer
from appliance.cluster.kubernetes.manifests import labels_of
from appliance.cluster.kubernetes.object_kinds import WSJOB, Resource, is_being_deleted, name_of
from appliance.cluster.kubernetes.options import KubernetesOptions
from appliance.cluster.kubernetes.read_variables import check_variables
from appliance.cluster.kubernetes.workqueue import WorkQueue
from appliance.core.cluster.access import Action, Principal, Target
from appliance.core.cluster.drivers import DriverSpec
from appliance.core.cluster.jobs import JobType, Phase
from appliance.core.cluster.records import JobRecord, User
from appliance.core.errors import ClusterError, ConflictError, UserError, WscError
from appliance.core.ids import JobId
from appliance.management.access.authorization import Access, job_target
from appliance.management.cluster.session_service import SessionService
from appliance.management.jobs.driver_service import DriverService, DriverSubmission
from appliance.management.jobs.job_edits import JobEdit, JobEdits
from appliance.management.jobs.job_service import JobService
from appliance.management.kubernetes import wsjob_objects as objects
from appliance.management.kubernetes.kueue import Kueue
from appliance.management.kubernetes.kueue_workloads import HELD_BY as KUEUE_HOLDS
from appliance.management.kubernetes.session_namespaces import SessionNamespaces
from appliance.management.kubernetes.wsjob_status import WsJobStatus
from appliance.management.store.state import State

logger = logging.getLogger(__name__)

ENTRY_POINT = "kubernetes"
"""Word in the audit trail for what was changed with kubectl."""

_SYNC_SECONDS = 60.0
_RESYNC_SECONDS = 60.0
_EVERYTHING = ""
"""Name in the work queue that stands for all jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobServices:
    """What jobs are asked of, and changed by.

    Attributes:
        state: The appliance's database.
        jobs: Questions about jobs, and their ends.
        edits: Changes of jobs.
        drivers: Takes in drivers.
        access: Who may do what.
        sessions: Where jobs are listed.
    """

    state: State
    jobs: JobService
    edits: JobEdits
    drivers: DriverService
    access: Access
    sessions: SessionService


class WsJobs:
    """The wsjobs of one namespace. `owner_of` works before `start`.

    Args:
        api: The Kubernetes API.
        state: The appliance's database.
        options: What is known of the cluster.
        kueue: Queues jobs, where a site has it.
        namespaces: Which session is where.
        is_home: Whether a job belongs into this namespace.
    """

    def __init__(
        self,
        api: ApiServer,
        state: State,
        *,
        options: KubernetesOptions,
        kueue: Kueue,
        namespaces: SessionNamespaces,
        is_home: Callable[[JobRecord], bool],
    ) -> None:
        self._options = options
        clock = state.clock
        self._api, self._state, self._clock = api, state, clock
        self._kueue = kueue
        self._namespaces, self._is_home = namespaces, is_home
        self._services: JobServices | None = None
        self._stop_pods: Callable[[JobId], None] = lambda _: None
        self._work = WorkQueue(clock)
        self._names: dict[JobId, str] = {}
        self._taken: dict[JobId, objects.Taken] = {}
        self._waiting: dict[JobId, User] = {}
        self._lock = threading.Lock()
        self._informer = Informer(api, WSJOB, "", self._look_at)
        self._shown = WsJobStatus(api, clock, self._informer.take)
        self._thread = threading.Thread(target=self._run, name="wsjobs", daemon=True)
        self._informer.start(timeout_seconds=_SYNC_SECONDS)

    def start(self, services: JobServices, *, stop_pods: Callable[[JobId], None]) -> None:
        """Begin to synchronise both sides.

        Args:
            services: See `JobServices`.
            stop_pods: Ends what runs of a job that nobody knows any more.
        """
        self._services, self._stop_pods = services, stop_pods
        self._kueue.start(self.look_at, timeout_seconds=_SYNC_SECONDS)
        self._work.add(_EVERYTHING)
        self._thread.start()

    def look_at(self, job: str) -> None:
        """Take note that a job has changed; in any thread."""
        if job:
            self._work.add(job)

    def find(self, job: JobId) -> Resource | None:
        """Return a job's wsjob as it was last seen; None if there is none here."""
        with self._lock:
            name = self._names.get(job, job)
        return self._informer.find(name)

    def owner_of(self, job: JobId) -> Resource:
        """Return the reference to a job's wsjob, which is made if there is none yet.

        Raises:
            ClusterError: The Kubernetes API does not take it.
        """
        return objects.owner_reference(self.find(job) or self._make(self._state.jobs.load(job)))

    def close(self) -> None:
        """Stop; nothing is changed any more."""
        self._work.close()
        self._kueue.close()
        self._informer.close()

    def _look_at(self, resource: Resource) -> None:
        job = objects.job_of(resource)
        with self._lock:
            self._names[job] = name_of(resource)
        self._work.add(job)

    def _run(self) -> None:
        while (name := self._work.take()) is not None:
            try:
                if name == _EVERYTHING:
                    self._resync()
                else:
                    self._sync(JobId(name))
                self._work.done(name)
            except ClusterError as error:
                is_race = isinstance(error, ApiError) and error.is_conflict
                level = logging.DEBUG if is_race else logging.WARNING
                story = {"job": name, "why": error.message}
                logger.log(level, "Wsjob is looked at again", extra=story)
                self._work.retry(name)
            except Exception:  # outermost loop of the thread that keeps every wsjob
                logger.exception("Wsjob cannot be kept in step", extra={"job": name})
                self._work.retry(name)

    def _resync(self) -> None:
        for job in self._state.jobs.unfinished():
            if self._is_home(job):
                self._work.add(job.id)
        for resource in self._informer.all().values():
            if objects.is_over(resource):  # then only time can bring anything
                self._expire(objects.job_of(resource), resource, objects.ended_at(resource))
            else:
                self._work.add(objects.job_of(resource))
        self._work.add_after(_EVERYTHING, _RESYNC_SECONDS)

    def _sync(self, job: JobId) -> None:
        resource, record = self.find(job), self._state.jobs.find(job)
        if resource is None:
            if record is not None and not record.phase.is_terminal:
                if self._is_home(record):
                    self._make(record)
            else:
                self._end_wait(job)
                self._forget(job)
            return
        if record is None:
            self._sync_jobless(job, resource)
        else:
            self._sync_pair(record, resource)

    def _forget(self, job: JobId) -> None:
        self._taken.pop(job, None)
        self._shown.forget(job)
        with self._lock:
            self._names.pop(job, None)

    def _make(self, record: JobRecord) -> Resource:
        driver = _driver_of(self._state, record)
        try:
            made = self._api.create(
                WSJOB, objects.new_object(record, driver, self._options.object_labels)
            )
        except ApiError as error:
            found = self._api.find(WSJOB, record.id) if error.is_conflict else None
            if found is None:
                raise
            return found
        self._taken.setdefault(record.id, objects.taken(made))
        return made

    def _sync_jobless(self, job: JobId, resource: Resource) -> None:
        """Submit a wsjob that a user has created; release one whose job no longer exists."""
        if objects.is_submittable(resource):
            self._submit(job, resource)
            return
        if objects.has_finalizer(resource):
            self._stop_pods(job)
            self._let_go(resource)
        if is_being_deleted(resource):
            return
        if not objects.is_final(resource):
            status = objects.refused_status(
                resource, objects.UNKNOWN_JOB, now=self._clock.now(), reason="UnknownJob"
            )
            resource = self._shown.write(resource, status) or resource
        self._expire(job, resource, objects.ended_at(resource))

    def _submit(self, job: JobId, resource: Resource) -> None:
        try:
            request = objects.read_request(resource)
            check_variables(request.spec, self._options)
        except UserError as error:
            self._let_go(self._shown.refuse(resource, error))
            return
        if not objects.has_finalizer(resource):
            labels = {
                **self._options.object_labels,
                **labels_of(job),
                **objects.tags_of(request.labels),
            }
            metadata = {**objects.finalizers(resource, wanted=True), "labels": labels}
            held = self._shown.change(resource, metadata)
            if held is None:
                return
            resource = held
        self._taken[job] = objects.taken(resource)
        try:
            self._submit_request(job, request, is_queued_by_kueue=self._kueue.manages(resource))
        except ConflictError as error:  # which time can lift
            self._waiting.setdefault(job, request.user)  # it is tried again as others end
            self._shown.let_wait(resource, error)
            return
        except UserError as error:
            self._let_go(self._shown.refuse(resource, error))
        else:
            self._work.add(job)
        self._end_wait(job, request.user)

    def _end_wait(self, job: JobId, user: User | None = None) -> None:
        """Take note that a wsjob waits no more, and look at the next of its user."""
        user = self._waiting.pop(job, user)
        following = (name for name, whose in self._waiting.items() if whose == user)
        if (name := next(following, None)) is not None:
            self._work.add(name)

    def _submit_request(
        self, job: JobId, request: objects.Request, *, is_queued_by_kueue: bool
    ) -> None:
        services = self._present()
        held_by = KUEUE_HOLDS if is_queued_by_kueue else ""
        principal = services.access.vouched(request.user)
        services.drivers.check_place(request.user)
        namespace = self._api.namespace
        session = request.session or self._namespaces.session_in(namespace)
        target = Target(kind="job", session=session, priority=request.priority)
        change = services.access.begin(principal, Action.SUBMIT, target, entry_point=ENTRY_POINT)
        submission = DriverSubmission(
            spec=request.spec,
            session=session,
            user=request.user,
            priority=request.priority,
            labels=request.labels,
            job=job,
            limit_seconds=request.limit_seconds,
            held_by=objects.SUSPENDED if request.is_suspended else held_by,
        )
        try:
            session = services.sessions.session_for(session, request.user.name)
            self._namespaces.require(session, namespace)
            services.drivers.submit_and_wait(submission)
        except WscError as error:
            change.failed(error)
            raise
        change.done(job)

    def _sync_pair(self, record: JobRecord, resource: Resource) -> None:
        is_over = record.phase.is_terminal
        if is_being_deleted(resource):
            if not is_over:
                self._cancel(record)
                return
        elif not is_over:
            record = self._take_suspension(self._take_request(record, resource), resource)
            is_active = not objects.is_suspended(resource)
            edits = self._present().edits
            if self._kueue.sync(record, resource, edits, is_active=is_active):
                record = self._present().jobs.load(record.id)
        if is_over:
            self._kueue.finish(record)
            self._end_wait(record.id, record.user)
        self._show(record, resource)
        if is_over and not is_being_deleted(resource):
            self._expire(record.id, resource, record.ended_at or record.created_at)

    def _take_request(self, record: JobRecord, resource: Resource) -> JobRecord:
        """Change a job as an edit of its wsjob's spec asks for."""
        requested = objects.read_requested_edit(resource, self._taken.get(record.id))
        if requested is None:
            return record
        self._taken[record.id] = objects.taken(resource)  # the status says so a little later
        if requested.has_fixed_changes:
            self._shown.tell(resource, "SpecChangeIgnored", objects.FIXED_CHANGE, is_warning=True)
        if requested.priority is None and not requested.labels:
            return record
        services = self._present()
        edit = JobEdit(priority=requested.priority, labels=requested.labels)
        action = Action.EDIT_JOB if requested.priority is None else Action.PRIORITISE_JOB
        try:
            with services.access.change(
                self._somebody(record),
                action,
                job_target(record),
                entry_point=ENTRY_POINT,
                detail=str(edit),
            ):
                return services.edits.edit(record.id, edit)
        except UserError as error:  # what is asked for cannot be; the status shows what is
            logger.warning("Edit of a wsjob is refused", extra={"job": record.id}, exc_info=error)
            return record

    def _take_suspension(self, record: JobRecord, resource: Resource) -> JobRecord:
        """Hold or release a job as its wsjob says; what others hold stays with them."""
        is_wanted, is_ours = objects.is_suspended(resource), record.held_by == objects.SUSPENDED
        is_held = bool(record.held_by) and record.phase in (Phase.CREATED, Phase.QUEUED)
        if is_wanted == is_ours or (is_wanted and is_held):
            return record
        services = self._present()
        detail = "suspend" if is_wanted else "resume"
        try:
            with services.access.change(
                self._somebody(record),
                Action.EDIT_JOB,
                job_target(record),
                entry_point=ENTRY_POINT,
                detail=detail,
            ):
                if is_wanted:
                    services.edits.suspend(record.id, objects.SUSPENDED)
                elif self._kueue.manages(resource):
                    services.edits.suspend(record.id, KUEUE_HOLDS)
                else:
                    services.edits.resume(record.id)
        except ConflictError:  # it has ended meanwhile
            logger.info("Job ended before it was held", extra={"job": record.id})
        return services.jobs.load(record.id)

    def _cancel(self, record: JobRecord) -> None:
        services = self._present()
        message = "its wsjob was deleted from Kubernetes"
        try:
            with services.access.change(
                self._somebody(record), Action.END_JOB, job_target(record), entry_point=ENTRY_POINT
            ):
                services.jobs.cancel(record.id, message)
        except UserError:  # it has ended meanwhile
            logger.info("Job ended before it was cancelled", extra={"job": record.id})

    def _show(self, record: JobRecord, resource: Resource) -> None:
        """Let the object show the job, with one request for its status and one for the rest."""
        services = self._present()
        wait = services.jobs.wait_of(record.id)
        wanted = objects.status_of(
            record,
            resource,
            now=self._clock.now(),
            dashboard=services.jobs.dashboard(record.id),
            why_waits=self._kueue.why_waits(record)
            or (wait.reason if wait else services.jobs.pod_waits.get(record.id, "")),
        )
        if left := self._shown.show(record, resource, wanted, labels=self._options.object_labels):
            self._work.add_after(record.id, left)
        else:
            self._taken.pop(record.id, None)

    def _expire(self, job: JobId, resource: Resource, ended_at: dt.datetime | None) -> None:
        """Remove the wsjob of a job that has ended, once it has been kept for long enough."""
        kept = objects.kept_seconds(resource, self._options.kept_seconds)
        if kept is None or ended_at is None:
            return
        left = kept - (self._clock.now() - ended_at) / dt.timedelta(seconds=1)
        if left <= 0:
            self._api.delete(WSJOB, name_of(resource), uid=resource["metadata"]["uid"])
        elif left < _RESYNC_SECONDS:
            self._work.add_after(job, left)

    def _let_go(self, resource: Resource) -> None:
        """Take our finalizer away, as nothing of the job runs any more."""
        if objects.has_finalizer(resource):
            self._shown.change(resource, objects.finalizers(resource, wanted=False))

    def _somebody(self, record: JobRecord) -> Principal:
        """Return who has edited a wsjob: whoever may edit, and Kubernetes does not say who."""
        return self._present().access.somebody_for(record.user)

    def _present(self) -> JobServices:
        if self._services is None:
            raise ClusterError("The wsjobs are looked at before the appliance has started.")
        return self._services


def _driver_of(state: State, record: JobRecord) -> DriverSpec | None:
    if record.type is not JobType.DRIVER:
        return None
    try:
        return state.driver_specs.load(record.id)
    except (ValueError, KeyError, WscError) as error:
        raise ClusterError(f"What driver {record.id} runs cannot be read: {error}.") from error
