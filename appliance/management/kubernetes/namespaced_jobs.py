"""The wsjobs, Workloads and pods of every namespace that jobs are in.

A job is where its wsjob is; one without a wsjob goes where its session says. So jobs that run when
a session gets another namespace end where they began.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from appliance.cluster.kubernetes.api import ApiServer
from appliance.cluster.kubernetes.kubernetes_launcher import KubernetesLauncher
from appliance.cluster.kubernetes.namespaced_launcher import NamespacedLauncher
from appliance.cluster.kubernetes.options import KubernetesOptions
from appliance.cluster.launcher import Exits
from appliance.core.clock import Clock
from appliance.core.cluster.records import JobRecord
from appliance.core.cluster.sessions import SessionRecord, SessionSpec
from appliance.core.errors import ClusterError
from appliance.core.ids import JobId
from appliance.core.queries.job_filter import JobLine
from appliance.management.cluster.session_service import SessionService
from appliance.management.kubernetes.kueue import Kueue
from appliance.management.kubernetes.session_namespaces import PROPERTY, SessionNamespaces
from appliance.management.kubernetes.wsjobs import JobServices, WsJobs
from appliance.management.store.state import State

_BY = "kubernetes"
"""Who has changed a session, in its history."""


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
        ClusterError: A namespace cannot be watched.
    """

    def __init__(
        self, api: ApiServer, options: KubernetesOptions, state: State, clock: Clock
    ) -> None:
        options.check_namespaces(api.namespace)
        self._state, self._clock = state, clock
        mapped = {name: each.namespace for name, each in options.sessions.items()}
        self._namespaces = SessionNamespaces(own=api.namespace, mapped=mapped)
        exits = Exits()
        self._places = {api.namespace: self._open(api, options, exits)}
        for session, own in options.sessions.items():
            there = api.in_namespace(own.namespace)
            try:
                place = self._open(there, options.of_session(session), exits)
            except ClusterError as error:
                for opened in self._places.values():
                    opened.close()
                raise ClusterError(
                    f"Namespace {own.namespace} of session {session!r} cannot be used: "
                    f"{error.message}",
                    hint="Create the namespace and run helm upgrade, or take the session out of "
                    "`sessions`.",
                ) from error
            self._places[own.namespace] = place
        launchers = {name: place.launcher for name, place in self._places.items()}
        self.launcher = NamespacedLauncher(launchers, self._home_of, exits)

    def _open(self, api: ApiServer, options: KubernetesOptions, exits: Exits) -> _Place:
        kueue = Kueue(api, options, self._clock)
        wsjobs = WsJobs(
            api,
            self._state,
            options=options,
            kueue=kueue,
            namespaces=self._namespaces,
            is_home=lambda job: self._home(job) == api.namespace,
        )
        launcher = KubernetesLauncher(api, options, wsjobs.owner_of, self._clock, exits)
        return _Place(kueue=kueue, wsjobs=wsjobs, launcher=launcher)

    def held_from_start(self, job: JobRecord) -> str:
        """Return what holds a new job that nobody else holds; empty for nothing."""
        return self._places[self._namespaces.of_session(job.session)].kueue.held_from_start()

    def start(self, services: JobServices) -> None:
        """Begin to show jobs, and to take orders."""
        _show_namespaces(services.sessions, self._namespaces)
        for place in self._places.values():
            place.wsjobs.start(services, stop_pods=place.launcher.stop)

    def look_at(self, job: str) -> None:
        """Take note that a job has changed; in any thread."""
        places = self._places.values()
        here = [each for each in places if len(places) > 1 and each.wsjobs.find(JobId(job))]
        for place in here or places:
            place.wsjobs.look_at(job)

    def close(self) -> None:
        """Stop; pods and objects stay as they are, for the next management."""
        for place in self._places.values():
            place.close()

    def namespace_of(self, job: JobRecord | JobLine) -> str:
        """Return where the wsjob of a job is, or will be; empty once it is gone."""
        if found := self._shown_in(job.id):
            return found[0]
        return "" if job.phase.is_terminal else self._namespaces.of_session(job.session)

    def _home_of(self, job: JobId) -> str:
        if len(self._places) == 1:
            return self._namespaces.own
        if found := self._shown_in(job):
            return found[0]
        record = self._state.jobs.find(job)
        return self._namespaces.own if record is None else self._home(record)

    def _home(self, job: JobRecord) -> str:
        return next(iter(self._shown_in(job.id)), self._namespaces.of_session(job.session))

    def _shown_in(self, job: JobId) -> Sequence[str]:
        return [name for name, place in self._places.items() if place.wsjobs.find(job)]


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
