"""Runs the pods of jobs as pods of a Kubernetes cluster.

`launch` and `stop` write what is wanted into the gang's record and return; a thread does what
`gangs.decide` says whenever something of a gang has changed. So a new management finds the records
and continues.
"""

import contextlib
import logging
import os
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from appliance.cluster.kubernetes import gangs, manifests
from appliance.cluster.kubernetes.api import ApiError, ApiServer
from appliance.cluster.kubernetes.gangs import Gang, Progress, Seen
from appliance.cluster.kubernetes.informer import Informer
from appliance.cluster.kubernetes.object_kinds import (
    CONFIG_MAP,
    JOB_LABEL,
    POD,
    SECRET,
    SERVICE_ACCOUNT,
    Kind,
    Resource,
    is_being_deleted,
    job_label,
    name_of,
    uid_of,
)
from appliance.cluster.kubernetes.options import KubernetesOptions
from appliance.cluster.kubernetes.workqueue import WorkQueue
from appliance.cluster.launcher import Exits, JobStopped, PodExit, PodsWait, Survivor
from appliance.cluster.work_dirs import write_request
from appliance.core.clock import Clock
from appliance.core.errors import ClusterError
from appliance.core.ids import JobId, PodName
from appliance.core.pods.pod_spec import PodSpec

logger = logging.getLogger(__name__)

OwnerOf = Callable[[JobId], Resource]
"""Returns the reference of the wsjob that owns what a job has; makes the wsjob if it must."""

_SYNC_SECONDS = 60.0
_MAX_FORGOTTEN = 4096
_REFUSED_SECONDS = 5.0
"""How soon pods are created again that a quota or another rule of the namespace did not let in."""

_AWAY = "the Kubernetes API does not answer; the pods are launched when it does"
_AWAY_SECONDS = 2.0
"""How soon a job is launched again after the API server was found to be away."""

_PID = 1
"""What every pod's process is to itself; nobody elsewhere could use the number."""


class Forgotten:
    """The uids of the records of jobs that were forgotten lately.

    What the API server tells of a record comes late, so one that is gone may yet seem to be there.
    It never comes as late as thousands of jobs: of more than those nothing is kept.

    Args:
        capacity: Uids that are kept at most.
    """

    def __init__(self, *, capacity: int = _MAX_FORGOTTEN) -> None:
        self._capacity = capacity
        self._uids: dict[str, None] = {}
        self._lock = threading.Lock()

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids

    def add(self, uid: str) -> None:
        """Remember a uid, and forget the oldest of too many; from any thread."""
        with self._lock:
            self._uids[uid] = None
            if len(self._uids) > self._capacity:
                del self._uids[next(iter(self._uids))]


class KubernetesLauncher:
    """Launches pods on a Kubernetes cluster.

    Args:
        api: The cluster.
        options: See `KubernetesOptions`.
        owner_of: Who owns the objects of a job.
        clock: Times what has to come within some time.
        exits: Takes what has ended; None for a queue of its own.
    """

    def __init__(
        self,
        api: ApiServer,
        options: KubernetesOptions,
        owner_of: OwnerOf,
        clock: Clock,
        exits: Exits | None = None,
    ) -> None:
        self._api, self._options, self._clock = api, options, clock
        self._owner_of = owner_of
        self._exits = exits or Exits()
        self._work = WorkQueue(clock)
        self._told: dict[JobId, set[str]] = {}
        self._waits: dict[JobId, str] = {}
        self._rejected: dict[JobId, Mapping[str, str]] = {}
        self._gangs: dict[JobId, Gang] = {}
        self._uids: dict[JobId, str] = {}
        self._forgotten = Forgotten()
        self._stops: set[JobId] = set()
        self._unremoved: set[JobId] = set()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._objects_lock = threading.Lock()
        self._has_gates = options.scheduling_gates and api.version() >= manifests.GATES_SINCE
        self._pods = Informer(api, POD, JOB_LABEL, self._look_at)
        self._records = Informer(api, CONFIG_MAP, JOB_LABEL, self._look_at)
        self._pods.start(timeout_seconds=_SYNC_SECONDS)
        self._records.start(timeout_seconds=_SYNC_SECONDS)
        self._survivors = self._find_survivors()
        self._thread = threading.Thread(target=self._run, name="gangs", daemon=True)
        self._thread.start()

    @property
    def exits(self) -> Exits:
        """What has ended, in order."""
        return self._exits

    @property
    def node(self) -> str:
        """What pods run on, before a node has taken them."""
        return "kubernetes"

    @property
    def is_far(self) -> bool:
        """The API server may take its time."""
        return True

    def runtime_dir(self, job: JobId) -> Path:
        """Return the directory for a job's sockets, in each of its pods."""
        return Path(self._options.runtime_root / job)

    def survivors(self) -> Mapping[JobId, Survivor]:
        """Return the jobs that an earlier management launched and that were not forgotten."""
        return self._survivors

    def launch(self, pods: Sequence[PodSpec], request: bytes = b"") -> Mapping[PodName, int]:
        """Write down that the pods of a job are to run, all or none.

        While the API server is away, this waits for it. That not all pods find a node is told
        later, as the end of one that finds none.
        """
        while True:
            try:
                return self._launch(pods, request)
            except ApiError as error:
                job = pods[0].job
                if not error.is_unavailable or self._closing.is_set():
                    raise
                logger.warning("Job is launched later", extra={"job": job, "why": error.message})
                self._tell_wait(job, _AWAY)
            self._closing.wait(_AWAY_SECONDS)

    def _launch(self, pods: Sequence[PodSpec], request: bytes) -> Mapping[PodName, int]:
        job = pods[0].job
        pods = [manifests.fitted(spec, self._options) for spec in pods]
        owner = self._owner_of(job)
        record = manifests.gang_record(pods, owner, self._options, has_gates=self._has_gates)
        write_request(pods[0].work_dir, request)
        for spec in pods:
            _share_directories(spec, self._options.group_id)
        files = {name: Path(path).read_bytes() for name, path in manifests.files_of(pods).items()}
        secret = manifests.specs_secret(pods, files, owner)
        with self._objects_lock:
            self._unremoved.discard(job)
            if (uid := self._begin_launch(record)) is not None:
                self._uids[job] = uid
                self._create(SERVICE_ACCOUNT, manifests.service_account(job, owner))
                self._create_anew(SECRET, secret)
                self._end_launch(job, uid)
        with self._lock:
            self._stops.discard(job)
        self._work.add(job)
        return {spec.name: _PID for spec in pods}

    def may_start(self, job: JobId) -> bool:
        """Whether the pods of a job have been let start: all of them have found a node."""
        gang = self._gangs.get(job)
        return gang is not None and gang.progress is Progress.STARTED

    def stop(self, job: JobId) -> None:
        """End everything of a job; a `JobStopped` follows in `exits`."""
        with self._lock:
            self._stops.add(job)
        self._work.add(job)

    def forget(self, job: JobId) -> None:
        """Remove what is left of a stopped job: its record, its secret, its account."""
        self._disown_record(job)
        self._told.pop(job, None)
        self._waits.pop(job, None)
        self._rejected.pop(job, None)
        self._gangs.pop(job, None)
        with self._objects_lock:
            self._unremoved.add(job)
        try:
            self._remove_objects(job)
        except ClusterError:
            logger.warning("Objects of a job are removed later", extra={"job": job}, exc_info=True)
            self._work.retry(job)

    def close(self) -> None:
        """Leave every pod to the next management: they are the cluster's, not this process's."""
        self._closing.set()
        self._work.close()
        self._pods.close()
        self._records.close()

    def abandon(self) -> None:
        """Leave every pod to the next management."""
        self.close()

    def _begin_launch(self, record: Resource) -> str | None:
        """Write a gang's record and return its uid; None if it is launched already."""
        known = self._api.find(CONFIG_MAP, name_of(record))
        if known is None or uid_of(known) in self._forgotten:
            return uid_of(self._create_anew(CONFIG_MAP, record))
        if gangs.is_launched(known):
            return None
        metadata = {"uid": uid_of(known)}
        self._api.patch(CONFIG_MAP, name_of(known), {"data": record["data"], "metadata": metadata})
        return uid_of(known)

    def _end_launch(self, job: JobId, uid: str) -> None:
        launched = {manifests.LAUNCH_ANNOTATION: self._clock.now().isoformat()}
        changes = {"metadata": {"uid": uid, "annotations": launched}}
        if self._api.patch(CONFIG_MAP, manifests.record_name(job), changes) is None:
            raise ClusterError(f"The record of job {job}'s pods was deleted while it was launched.")

    def _find_survivors(self) -> Mapping[JobId, Survivor]:
        jobs = [
            job_label(each) for each in (*self._records.all().values(), *self._pods.all().values())
        ]
        return {JobId(job): self._survivor(JobId(job)) for job in dict.fromkeys(jobs)}

    def _survivor(self, job: JobId) -> Survivor:
        gang = self._find_gang(job)
        seen = self._seen(job)
        if gang is None:  # somebody has deleted the record, or has damaged it
            exits = tuple(map(gangs.unrecorded_pod, seen.pods.values()))
            return Survivor(
                pids={end.pod: _PID for end in exits}, exits=exits[:1], is_stopped=False
            )
        if gang.progress is Progress.BEGUN:
            return Survivor(pids={}, exits=(), is_stopped=False)
        exits = gangs.exits_of(gang, seen) if gang.progress is Progress.STARTED else ()
        self._gangs[job] = gang
        self._told[job] = {end.pod for end in exits}
        return Survivor(
            pids=dict.fromkeys(map(PodName, gang.manifests), _PID),
            exits=exits,
            is_stopped=gang.progress is Progress.STOPPED,
        )

    def _look_at(self, resource: Resource) -> None:
        self._work.add(job_label(resource))

    def _run(self) -> None:
        while (job := self._work.take()) is not None:
            try:
                self._sync(JobId(job))
                self._work.done(job)
            except ClusterError as error:
                logger.warning("Gang is looked at again", extra={"job": job, "why": error.message})
                self._work.retry(job)
            except Exception:  # outermost loop of the thread that runs every gang
                logger.exception("Gang cannot be looked at", extra={"job": job})
                self._work.retry(job)

    def _sync(self, job: JobId) -> None:
        with self._lock:
            is_stop_wanted = job in self._stops
        gang = self._find_gang(job)
        if gang is None:
            self._sync_unrecorded(job, is_stop_wanted=is_stop_wanted)
            return
        self._gangs[job] = gang
        if is_stop_wanted and gang.progress not in (Progress.STOPPING, Progress.STOPPED):
            record = self._annotate(gang, gangs.STOP)
            if record is None:
                self._work.retry(job)
                return
            for name in gang.manifests:  # also those that were created a moment ago
                self._api.delete(POD, name)
            gang = gangs.read_record(record)
        self._act(gang, gangs.decide(gang, self._seen(job), self._options))

    def _find_gang(self, job: JobId) -> Gang | None:
        """Return a job's gang; None if it has no record, or none that can be read."""
        record = self._records.find(manifests.record_name(job))
        if record is None or uid_of(record) in self._forgotten:
            return None
        try:
            return gangs.read_record(record)
        except (KeyError, ValueError, TypeError):
            logger.exception("Record of a gang is damaged", extra={"job": job})
            return None

    def _sync_unrecorded(self, job: JobId, *, is_stop_wanted: bool) -> None:
        """Handle a job without a record: not launched, forgotten, or deleted by somebody."""
        gang = self._gangs.get(job)
        is_forgotten = gang is None or gang.uid in self._forgotten
        if gang is not None and not is_forgotten and not is_stop_wanted:
            self._tell(gangs.unrecorded(gang))
            return
        pods = self._seen(job).pods
        for name, pod in pods.items():
            if not is_being_deleted(pod):
                self._api.delete(POD, name, uid=uid_of(pod))
        if pods:
            return
        if is_stop_wanted:
            self._disown_record(job)
            with self._objects_lock:
                self._unremoved.add(job)
        self._remove_objects(job)
        if is_stop_wanted:
            with self._lock:
                self._stops.discard(job)
            self._exits.put(JobStopped(job=job))

    def _act(self, gang: Gang, decision: gangs.Decision) -> None:
        self._create_pods(gang.job, decision.creates)
        for name, uid in decision.ungates:
            self._patch(POD, name, uid, {"spec": {"schedulingGates": None}})
        if decision.starts:
            start = {manifests.START_KEY: self._clock.now().isoformat()}
            self._patch_record(gang, {"data": start})
        for name, uid in decision.tells_start:
            started = {manifests.START_ANNOTATION: self._clock.now().isoformat()}
            self._patch(POD, name, uid, {"metadata": {"annotations": started}})
        for name, uid, is_forced in decision.deletes:
            self._api.delete(POD, name, uid=uid, grace_seconds=0 if is_forced else None)
        for end in decision.exits:
            self._tell(end)
        self._tell_wait(gang.job, decision.waits)
        if decision.is_stopped:
            self._finish_stop(gang)
        if decision.look_again_seconds is not None:
            self._work.add_after(gang.job, decision.look_again_seconds)

    def _create_pods(self, job: JobId, pods: Sequence[Resource]) -> None:
        """Create pods up to the first that a rule of the namespace is against."""
        before = self._rejected.pop(job, {})
        for body in pods:
            try:
                self._create(POD, body)
            except ApiError as error:
                if not error.is_admission:
                    raise
                self._rejected[job] = {name_of(body): error.reason}
                if self._rejected[job] == before:
                    self._work.add_after(job, _REFUSED_SECONDS)
                else:
                    self._work.add(job)  # and it is told why
                return

    def _finish_stop(self, gang: Gang) -> None:
        if gang.progress is not Progress.STOPPED and self._annotate(gang, gangs.STOP_DONE) is None:
            return
        with self._lock:
            is_wanted = gang.job in self._stops
            self._stops.discard(gang.job)
        if is_wanted:
            self._exits.put(JobStopped(job=gang.job))

    def _tell_wait(self, job: JobId, reason: str) -> None:
        if reason != self._waits.get(job, ""):
            self._waits[job] = reason
            self._exits.put(PodsWait(job=job, reason=reason))

    def _tell(self, end: PodExit) -> None:
        told = self._told.setdefault(end.job, set())
        if end.pod not in told:
            told.add(end.pod)
            self._exits.put(end)

    def _disown_record(self, job: JobId) -> None:
        """Take no notice of a job's record any more: that it was there may yet be news to come."""
        record = self._records.find(manifests.record_name(job))
        if record is not None:
            self._forgotten.add(uid_of(record))
        if uid := self._uids.pop(job, ""):
            self._forgotten.add(uid)

    def _remove_objects(self, job: JobId) -> None:
        """Remove what a forgotten job has, its record last: by it the next management finds them.

        Not if it has been launched again.
        """
        with self._objects_lock:
            if job in self._unremoved:
                self._api.delete(SECRET, manifests.secret_name(job))
                self._api.delete(SERVICE_ACCOUNT, manifests.account_name(job))
                self._api.delete(CONFIG_MAP, manifests.record_name(job))
                self._unremoved.discard(job)

    def _seen(self, job: JobId) -> Seen:
        pods = {name: pod for name, pod in self._pods.all().items() if job_label(pod) == job}
        return Seen(pods=pods, now=self._clock.now(), rejected=self._rejected.get(job, {}))

    def _annotate(self, gang: Gang, value: str) -> Resource | None:
        note = {"annotations": {manifests.STOP_ANNOTATION: value}}
        return self._patch_record(gang, {"metadata": note})

    def _patch_record(self, gang: Gang, changes: Resource) -> Resource | None:
        """Change a gang's record; None if it is another one by now."""
        return self._patch(CONFIG_MAP, manifests.record_name(gang.job), gang.uid, changes)

    def _patch(self, kind: Kind, name: str, uid: str, changes: Resource) -> Resource | None:
        """Change an object; None if it is another one by now."""
        metadata = {**changes.get("metadata", {}), "uid": uid}
        try:
            return self._api.patch(kind, name, {**changes, "metadata": metadata})
        except ApiError as error:
            if error.is_conflict:
                return None
            raise

    def _create_anew(self, kind: Kind, body: Resource) -> Resource:
        """Create an object, in place of one that a launch or an end has left half way."""
        if (created := self._create(kind, body)) is not None:
            return created
        self._api.delete(kind, name_of(body))
        return self._api.create(kind, body)

    def _create(self, kind: Kind, body: Resource) -> Resource | None:
        """Create an object; None if one of its name is there."""
        try:
            return self._api.create(kind, body)
        except ApiError as error:
            if error.is_conflict:
                return None
            raise


def _share_directories(spec: PodSpec, group_id: int) -> None:
    """Let a pod, which has a user of its own, write where management has made directories."""
    paths = {spec.work_dir, spec.log_path.parent}
    paths |= set(spec.options.directories())
    for path in paths:
        path.mkdir(parents=True, exist_ok=True)
    for path in (*paths, *(each for each in spec.work_dir.iterdir() if not each.is_symlink())):
        with contextlib.suppress(PermissionError):  # a pod's own, of an earlier start
            if path.stat().st_gid != group_id and os.geteuid() == 0:
                os.chown(path, -1, group_id)
            wanted = 0o2770 if path.is_dir() else 0o660
            path.chmod(stat.S_IMODE(path.stat().st_mode) | wanted)
