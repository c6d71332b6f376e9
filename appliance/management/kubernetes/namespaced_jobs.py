"""The wsjobs, Workloads and pods of every namespace that jobs are in.

A job is where its wsjob is; one without a wsjob goes where its session says. So jobs that run when
a session gets another namespace end where they began.

Somebody may delete a session's namespace, or take management's rights there away. Then that session
takes no new jobs, the others go on, and management looks until jobs can be there again. What ran
there is lost once the namespace is gone, or the rights have been missing for some minutes.
"""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

from appliance.cluster.kubernetes.api import ApiError, ApiServer
from appliance.cluster.kubernetes.kubernetes_launcher import (
    KubernetesLauncher,
    records_of,
    unreached,
)
from appliance.cluster.kubernetes.namespaced_launcher import NamespacedLauncher
from appliance.cluster.kubernetes.options import KubernetesOptions
from appliance.cluster.launcher import Exits, JobStopped, PodsWait
from appliance.core.clock import Clock
from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import JobRecord
from appliance.core.cluster.sessions import SessionRecord, SessionSpec
from appliance.core.errors import ClusterError, ConflictError
from appliance.core.ids import JobId
from appliance.core.queries.job_filter import JobLine
from appliance.management.cluster.session_service import SessionService
from appliance.management.kubernetes.kueue import Kueue
from appliance.management.kubernetes.namespace_state import Unusable, find_fault
from appliance.management.kubernetes.session_namespaces import PROPERTY, SessionNamespaces
from appliance.management.kubernetes.wsjobs import JobServices, WsJobs
from appliance.management.store.state import State

logger = logging.getLogger(__name__)

_BY = "kubernetes"
"""Who has changed a session, in its history."""

_LOOK_SECONDS = 10.0
"""How often it is looked whether jobs can be in the namespaces of sessions."""

_GRACE_SECONDS = 300.0
"""For so long jobs go on in a namespace that management has no rights in: they may come back."""

_JOIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What one namespace has.

    Attributes:
        kueue: Its Workloads.
        launcher: Its pods.
    """

    kueue: Kueue
    wsjobs: WsJobs
    launcher: KubernetesLauncher

    def start(self, services: JobServices) -> None:
        """Begin to show jobs; raises `ClusterError` if what is there cannot be watched."""
        self.wsjobs.start(services, stop_pods=self.launcher.stop)

    def close(self) -> None:
        """Stop; pods and objects stay as they are."""
        self.wsjobs.close()
        self.launcher.close()


class NamespacedJobs:
    """Everything of jobs on a Kubernetes cluster.

    Args:
        api: Management's own namespace.
        options: What is known of the cluster.
        state: The appliance's database.

    Raises:
        UserError: Two sessions have one namespace.
        ClusterError: Management's own namespace cannot be watched.
    """

    def __init__(
        self, api: ApiServer, options: KubernetesOptions, state: State, clock: Clock
    ) -> None:
        options.check_namespaces(api.namespace)
        self._api, self._options, self._state, self._clock = api, options, state, clock
        mapped = {name: each.namespace for name, each in options.sessions.items()}
        self._namespaces = SessionNamespaces(own=api.namespace, mapped=mapped)
        self._exits = Exits()
        self._services: JobServices | None = None
        self._faults: dict[str, tuple[Unusable, float]] = {}
        self._lost: set[str] = set()
        self._lock, self._closing = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="namespaces", daemon=True)
        self._places = {api.namespace: self._open(api, options)}
        for session in mapped:
            self._open_first(session)
        launchers = {name: place.launcher for name, place in self._places.items()}
        left = {name: unreached(records_of(options, name)) for name in mapped.values()}
        self.launcher = NamespacedLauncher(
            launchers,
            self._home_of,
            self._exits,
            unreached={name: jobs for name, jobs in left.items() if name not in launchers},
            fault_of=self._fault_in,
        )

    def _open_first(self, session: str) -> None:
        """Open the namespace of a session, or take note why that cannot be."""
        if self._look(session) is None:
            try:
                self._places |= self._open_of(session)
            except ClusterError as error:
                self._note(session, _unopened(self._namespaces.mapped[session], session, error))

    def _open_of(self, session: str) -> dict[str, _Place]:
        there = self._api.in_namespace(self._namespaces.mapped[session])
        return {there.namespace: self._open(there, self._options.of_session(session))}

    def _open(self, api: ApiServer, options: KubernetesOptions) -> _Place:
        kueue = Kueue(api, options, self._clock)
        wsjobs = WsJobs(
            api,
            self._state,
            options=options,
            kueue=kueue,
            namespaces=self._namespaces,
            is_home=lambda job: self._home(job) == api.namespace,
        )
        try:
            launcher = KubernetesLauncher(api, options, wsjobs.owner_of, self._clock, self._exits)
        except ClusterError:
            wsjobs.close()
            raise
        return _Place(kueue=kueue, wsjobs=wsjobs, launcher=launcher)

    def held_from_start(self, job: JobRecord) -> str:
        """Return what holds a new job that nobody else holds; empty for nothing."""
        place = self._places.get(self._namespaces.of_session(job.session))
        return "" if place is None else place.kueue.held_from_start()

    def start(self, services: JobServices) -> None:
        """Begin to show jobs, and to take orders."""
        _show_namespaces(services.sessions, self._namespaces)
        with self._lock:
            self._services = services
            for session, (fault, _) in self._faults.items():
                self._tell(session, fault)
        own = self._namespaces.own
        self._places[own].start(services)
        for namespace, place in list(self._places.items()):
            if namespace != own:
                self._start_first(namespace, place, services)
        if self._namespaces.mapped:
            self._thread.start()

    def _start_first(self, namespace: str, place: _Place, services: JobServices) -> None:
        try:
            place.start(services)
        except ClusterError as error:
            session = self._namespaces.session_in(namespace)
            self._note(session, _unopened(namespace, session, error))
            self._drop(namespace)
            self.launcher.remove(namespace)
            place.close()

    def _run(self) -> None:
        while not self._closing.wait(_LOOK_SECONDS):
            for session in self._namespaces.mapped:
                try:
                    self._keep(session)
                except ClusterError as error:
                    story = {"session": session, "why": error.message}
                    logger.warning("Namespace is looked at again", extra=story)
                except Exception:  # outermost loop of the thread that looks at namespaces
                    logger.exception("Namespace cannot be looked at", extra={"session": session})

    def _keep(self, session: str) -> None:
        """Do what is missing for the namespace of a session."""
        namespace = self._namespaces.mapped[session]
        fault = find_fault(self._api.in_namespace(namespace), session)
        if fault is None:
            if namespace not in self._places:
                self._regain(session)
            self._clear(session)
            return
        since = self._note(session, fault)
        is_over = self._clock.monotonic_seconds() - since >= _GRACE_SECONDS
        if namespace not in self._lost and (fault.is_gone or (is_over and not fault.has_rights)):
            self._lose(session, fault)

    def _look(self, session: str) -> Unusable | None:
        """Return why no job can be in the namespace of a session; None if nobody can say now."""
        try:
            fault = find_fault(self._api.in_namespace(self._namespaces.mapped[session]), session)
        except ApiError as error:
            logger.warning("Namespace is not known", extra={"why": error.message})
            return None
        if fault is not None:
            self._note(session, fault)
        return fault

    def _fault_in(self, namespace: str) -> ClusterError | None:
        """Look why no job can be in a namespace; None if nothing is known against it."""
        if not (session := self._namespaces.session_in(namespace)):
            return None
        noted = self._faults.get(session)
        fault = self._look(session) or (noted[0] if noted else None)
        return None if fault is None else ClusterError(fault.message, hint=fault.hint)

    def _note(self, session: str, fault: Unusable) -> float:
        """Take note why no job can be in a namespace; return since when that is so."""
        with self._lock:
            now = self._clock.monotonic_seconds()
            before, since = self._faults.get(session, (None, now))
            self._faults[session] = fault, since
            if fault != before:
                logger.error("Namespace cannot be used", extra={"why": fault.message})
                self._tell(session, fault)
        return since

    def _clear(self, session: str) -> None:
        with self._lock:
            if self._faults.pop(session, None) is not None:
                logger.warning("Namespace can be used again", extra={"session": session})
                self._tell(session, None)

    def _tell(self, session: str, fault: Unusable | None) -> None:
        """Tell a session and the jobs in its namespace what is wrong there, or that nothing is."""
        if self._services is None:
            return
        why = None if fault is None else ConflictError(fault.message, hint=fault.hint)
        self._services.sessions.refuse_jobs(session, why)
        for job in self._state.jobs.unfinished():
            if self._home(job) == self._namespaces.mapped[session]:
                self._exits.put(PodsWait(job=job.id, reason="" if fault is None else str(fault)))

    def _lose(self, session: str, fault: Unusable) -> None:
        """Give up what runs in a namespace."""
        namespace = self._namespaces.mapped[session]
        self._lost.add(namespace)
        place = self._places.get(namespace)
        self._drop(namespace)
        self.launcher.lose(namespace, str(fault))
        if place is not None:
            place.close()

    def _drop(self, namespace: str) -> None:
        with self._lock:
            self._places = {key: each for key, each in self._places.items() if key != namespace}

    def _regain(self, session: str) -> None:
        """Open a namespace that can be used again; jobs that have ended meanwhile end there, too.

        Pods without a record, as those of such jobs, are removed by their launcher.
        """
        namespace, services = self._namespaces.mapped[session], self._services
        assert services is not None, "the thread begins with them"
        records = records_of(self._options, namespace)
        for job in records.load():
            if not self._holds_pods(job):
                records.remove(job)
        opened = self._open_of(session)
        place = opened[namespace]
        try:
            place.start(services)
        except ClusterError:
            place.close()
            raise
        with self._lock:
            self._places = {**self._places, **opened}
        self.launcher.add(namespace, place.launcher)
        self._lost.discard(namespace)
        for job, survivor in place.launcher.survivors().items():
            if self._holds_pods(job):
                for end in survivor.exits:
                    self._exits.put(end)
                if survivor.is_stopped:
                    self._exits.put(JobStopped(job=job))
        if self._closing.is_set():
            place.close()

    def _holds_pods(self, job: JobId) -> bool:
        """Whether a job is between its launch and its end."""
        record = self._state.jobs.find(job)
        waits = (Phase.CREATED, Phase.QUEUED)
        return record is not None and record.phase not in waits and not record.phase.is_terminal

    def look_at(self, job: str) -> None:
        """Take note that a job has changed; in any thread."""
        places = self._places.values()
        here = [each for each in places if len(places) > 1 and each.wsjobs.find(JobId(job))]
        for place in here or places:
            place.wsjobs.look_at(job)

    def close(self) -> None:
        """Stop; pods and objects stay as they are, for the next management."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)
        for place in self._places.values():
            place.close()

    def namespace_of(self, job: JobRecord | JobLine) -> str:
        """Return where the wsjob of a job is, or will be; empty once it is gone."""
        if found := self._shown_in(job.id):
            return found[0]
        return "" if job.phase.is_terminal else self._namespaces.of_session(job.session)

    def _home_of(self, job: JobId) -> str:
        if not self._namespaces.mapped:
            return self._namespaces.own
        if found := self._shown_in(job):
            return found[0]
        record = self._state.jobs.find(job)
        return self._namespaces.own if record is None else self._home(record)

    def _home(self, job: JobRecord) -> str:
        return next(iter(self._shown_in(job.id)), self._namespaces.of_session(job.session))

    def _shown_in(self, job: JobId) -> Sequence[str]:
        return [name for name, place in self._places.items() if place.wsjobs.find(job)]


def _unopened(namespace: str, session: str, error: ClusterError) -> Unusable:
    return Unusable(
        message=f"Namespace {namespace} of session {session!r} cannot be used: {error.message}",
        hint="Management tries again by itself, and its log has the reason.",
    )


def _show_namespaces(sessions: SessionService, namespaces: SessionNamespaces) -> None:
    """Let there be a session for each namespace, and every session say which namespace it has."""
    known = {record.name: record for record in sessions.list()}
    for session in namespaces.mapped:
        if session not in known:
            known[session] = sessions.create(session, SessionSpec(), by=_BY)
    for record in known.values():
        _show_namespace(sessions, record, namespaces.mapped.get(record.name, ""))


def _show_namespace(sessions: SessionService, record: SessionRecord, namespace: str) -> None:
    properties = dict(record.spec.properties)
    if properties.pop(PROPERTY, "") != namespace:
        if namespace:
            properties[PROPERTY] = namespace
        spec = replace(record.spec, properties=properties)
        sessions.update(record.name, {"properties": spec.properties}, by=_BY)
