"""Runs the pods of jobs as pods of a Kubernetes cluster.

`launch` and `stop` write what is wanted into the gang's record (`gang_records`) and return; a
thread does what `gangs.decide` says whenever something of a gang has changed. So a new management
finds the records and continues.
"""

import contextlib
import logging
import os
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from appliance.cluster.kubernetes import gangs, manifests, older_records
from appliance.cluster.kubernetes.api import ApiError, ApiServer
from appliance.cluster.kubernetes.gang_records import GangRecords
from appliance.cluster.kubernetes.gangs import Gang, Progress, Seen
from appliance.cluster.kubernetes.informer import Informer, slim
from appliance.cluster.kubernetes.limits.limit_ranges import LimitRanges
from appliance.cluster.kubernetes.object_kinds import (
    GROUP,
    JOB_LABEL,
    POD,
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
_REFUSED_SECONDS = 5.0
"""How soon pods are created again that a quota or another rule of the namespace did not let in."""

_AWAY = "the Kubernetes API does not answer; the pods are launched when it does"
_CHANGED = (
    f"a webhook of the cluster takes labels or annotations below {GROUP} away from pods of jobs, "
    "which the appliance knows them by"
)
_AWAY_SECONDS = 2.0
"""How soon a job is launched again after the API server was found to be away."""

_PID = 1
"""What every pod's process is to itself; nobody elsewhere could use the number."""


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
        self._ending: dict[JobId, Mapping[str, float]] = {}
        self._gangs: dict[JobId, Gang] = {}
        self._stops: set[JobId] = set()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._root = _root_of(options, api.namespace)
        self._limit_ranges = LimitRanges(api, clock)
        self._records = records_of(options, api.namespace)
        self._has_gates = options.scheduling_gates and api.version() >= manifests.GATES_SINCE
        self._pods = Informer(api, POD, JOB_LABEL, self._look_at, slimmed=_slim, group_of=job_label)
        self._pods.start(timeout_seconds=_SYNC_SECONDS)
        try:
            older_records.take_over(api, self._records)
        except ClusterError:
            self._pods.close()
            raise
        self._survivors = self._find_survivors()
        for job in self._gangs:
            self._work.add(job)
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
                self._tell_wait(job, _why_later(error))
            self._closing.wait(_AWAY_SECONDS)

    def _launch(self, pods: Sequence[PodSpec], request: bytes) -> Mapping[PodName, int]:
        job = pods[0].job
        pods = [manifests.fitted(spec, self._options) for spec in pods]
        if job not in self._gangs:
            self._gangs[job] = self._record(pods, request)
        with self._lock:
            self._stops.discard(job)
        self._work.add(job)
        return {spec.name: _PID for spec in pods}

    def _record(self, pods: Sequence[PodSpec], request: bytes) -> Gang:
        job, now = pods[0].job, self._clock.now()
        owner = self._owner_of(job)
        gang = manifests.gang(
            *(pods, owner, self._options, self._root),
            launched_at=now,
            has_gates=self._has_gates,
        )
        write_request(pods[0].work_dir, request)
        for spec in pods:
            _share_directories(spec, self._options.group_id)
        files = {name: Path(path).read_bytes() for name, path in manifests.files_of(pods).items()}
        by_member = manifests.files_by_member(pods, files)
        return self._records.write(job, gang, by_member, launched_at=now)

    def may_start(self, job: JobId) -> bool:
        """Whether the pods of a job have been let start: all of them have found a node."""
        gang = self._gangs.get(job)
        return gang is not None and gang.progress is Progress.STARTED

    def hosts_of(self, pod: PodName, job: JobId) -> frozenset[str]:
        """Return the addresses that a pod of a job has according to the API server.

        Empty before that server knows them, and once the pod has ended or is being ended.
        """
        found = self._pods.group(job).get(pod)
        if found is None or gangs.is_ended(found) or is_being_deleted(found):
            return frozenset()
        status = found.get("status") or {}
        several = (each.get("ip", "") for each in status.get("podIPs") or ())
        return frozenset({status.get("podIP", ""), *several} - {""})

    def stop(self, job: JobId) -> None:
        """End everything of a job; a `JobStopped` follows in `exits`."""
        with self._lock:
            self._stops.add(job)
        self._work.add(job)

    def forget(self, job: JobId) -> None:
        """Remove the record of a stopped job; its pods that have ended go with its wsjob."""
        self._told.pop(job, None)
        self._waits.pop(job, None)
        self._rejected.pop(job, None)
        self._ending.pop(job, None)
        self._gangs.pop(job, None)
        self._records.remove(job)

    def close(self) -> None:
        """Leave every pod to the next management: they are the cluster's, not this process's."""
        self._closing.set()
        self._work.close()
        self._pods.close()

    def abandon(self) -> None:
        """Leave every pod to the next management."""
        self.close()

    def _find_survivors(self) -> Mapping[JobId, Survivor]:
        """Return what earlier managements have launched, and take it over."""
        found: dict[JobId, Survivor] = {}
        for job, gang in self._records.load().items():
            if gang is not None:
                found[job] = self._survivor(gang)
        running = (pod for pod in self._pods.all().values() if not gangs.is_ended(pod))
        for pod in running:
            if (job := JobId(job_label(pod))) not in found:
                found[job] = self._unrecorded_survivor(job)
        return found

    def _survivor(self, gang: Gang) -> Survivor:
        self._gangs[gang.job] = gang
        is_started = gang.progress is Progress.STARTED
        exits = gangs.exits_of(gang, self._seen(gang.job)) if is_started else ()
        self._told[gang.job] = {end.pod for end in exits}
        return Survivor(
            pids=dict.fromkeys(map(PodName, gang.manifests), _PID),
            exits=exits,
            is_stopped=gang.progress is Progress.STOPPED,
        )

    def _unrecorded_survivor(self, job: JobId) -> Survivor:
        """Return what there is of a gang whose record somebody has removed or damaged."""
        exits = tuple(map(gangs.unrecorded_pod, self._seen(job).pods.values()))
        return Survivor(pids={end.pod: _PID for end in exits}, exits=exits[:1], is_stopped=False)

    def _look_at(self, resource: Resource) -> None:
        self._work.add(job_label(resource))

    def _run(self) -> None:
        while (job := self._work.take()) is not None:
            try:
                self._sync(JobId(job))
                self._work.done(job)
            except ClusterError as error:
                logger.warning("Gang is looked at again", extra={"job": job, "why": error.message})
                if isinstance(error, ApiError) and (error.is_unavailable or error.is_unauthorized):
                    self._tell_wait(JobId(job), _why_later(error))
                self._work.retry(job)
            except Exception:  # outermost loop of the thread that runs every gang
                logger.exception("Gang cannot be looked at", extra={"job": job})
                self._work.retry(job)

    def _sync(self, job: JobId) -> None:
        with self._lock:
            is_stop_wanted = job in self._stops
        gang = self._gangs.get(job)
        if gang is None:
            self._sync_unrecorded(job, is_stop_wanted=is_stop_wanted)
            return
        if is_stop_wanted and gang.progress not in (Progress.STOPPING, Progress.STOPPED):
            gang = self._gangs[job] = self._records.stop(gang)
            present = self._seen(job).pods
            for name in gang.manifests:  # also those that were created a moment ago
                if name not in present or not gangs.is_ended(present[name]):
                    self._api.delete(POD, name)
        self._act(gang, gangs.decide(gang, self._seen(job), self._options))

    def _sync_unrecorded(self, job: JobId, *, is_stop_wanted: bool) -> None:
        """Handle a job without a record: never launched, forgotten, or its record was harmed."""
        running = [pod for pod in self._seen(job).pods.values() if not gangs.is_ended(pod)]
        for pod in running:
            if not is_being_deleted(pod):
                self._api.delete(POD, name_of(pod), uid=uid_of(pod))
        if running or not is_stop_wanted:
            return
        with self._lock:
            self._stops.discard(job)
        self._exits.put(JobStopped(job=job))

    def _act(self, gang: Gang, decision: gangs.Decision) -> None:
        self._create_pods(gang.job, decision.creates)
        for name, uid, others in decision.ungates:
            self._patch(POD, name, uid, {"spec": {"schedulingGates": list(others) or None}})
        if decision.starts:
            self._gangs[gang.job] = self._records.start(gang, self._clock.now())
            self._work.add(gang.job)
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
        for body in self._limit_ranges.fit(pods):
            if not (reason := self._create_pod(body)):
                continue
            self._rejected[job] = {name_of(body): reason}
            if self._rejected[job] == before:
                self._work.add_after(job, _REFUSED_SECONDS)
            else:
                self._work.add(job)  # and it is told why
            return

    def _create_pod(self, body: Resource) -> str:
        """Create a pod, and return why there is none as it has to be; empty if there is."""
        try:
            made = self._create(POD, body)
        except ApiError as error:
            if not error.is_refusal:
                raise
            self._limit_ranges.forget()
            return error.reason
        if made is None or gangs.is_as_made(made, body):
            return ""
        self._api.delete(POD, name_of(made), uid=uid_of(made), grace_seconds=0)
        return _CHANGED

    def _finish_stop(self, gang: Gang) -> None:
        if gang.progress is not Progress.STOPPED:
            self._gangs[gang.job] = self._records.end(gang)
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

    def _seen(self, job: JobId) -> Seen:
        pods, now = self._pods.group(job), self._clock.monotonic_seconds()
        before = self._ending.get(job, {})
        ending = [p for p in pods.values() if is_being_deleted(p) or gangs.is_refused(p)]
        since = self._ending[job] = {uid: before.get(uid, now) for uid in map(uid_of, ending)}
        return Seen(
            pods=pods,
            now=self._clock.now(),
            rejected=self._rejected.get(job, {}),
            ending_seconds={uid: now - at for uid, at in since.items()},
        )

    def _patch(self, kind: Kind, name: str, uid: str, changes: Resource) -> Resource | None:
        """Change an object; None if it is another one by now."""
        metadata = {**changes.get("metadata", {}), "uid": uid}
        try:
            return self._api.patch(kind, name, {**changes, "metadata": metadata})
        except ApiError as error:
            if error.is_conflict:
                return None
            raise

    def _create(self, kind: Kind, body: Resource) -> Resource | None:
        """Create an object; None if one of its name is there."""
        try:
            return self._api.create(kind, body)
        except ApiError as error:
            if error.is_conflict:
                return None
            raise


def records_of(options: KubernetesOptions, namespace: str) -> GangRecords:
    """Return the records of the gangs of a namespace, which need no API server."""
    return GangRecords(_root_of(options, namespace), options.group_id)


def unreached(records: GangRecords) -> Mapping[JobId, Survivor]:
    """Return the jobs whose pods nobody can look at now, as their records say."""
    return {
        job: Survivor(
            pids=dict.fromkeys(map(PodName, gang.manifests), _PID),
            exits=(),
            is_stopped=gang.progress is Progress.STOPPED,
        )
        for job, gang in records.load().items()
        if gang is not None
    }


def _root_of(options: KubernetesOptions, namespace: str) -> Path:
    return Path(options.data_volume.path) / "gangs" / namespace


def _why_later(error: ApiError) -> str:
    """Return why what the server has not done now is done later."""
    if error.status and error.reason:  # such as a webhook that does not answer
        hint = f". {error.hint}" if error.hint else ""
        return f"the Kubernetes API refuses for now: {error.reason}{hint}"
    return _AWAY


def _slim(pod: Resource) -> Resource:
    """Return what is held of a pod; of its spec only what `gangs` and `pod_words` read."""
    spec = {name: pod["spec"].get(name) for name in ("nodeName", "schedulingGates")}
    held = ("name", "resources")
    containers = [{name: each.get(name) for name in held} for each in pod["spec"]["containers"]]
    return {**slim(pod), "spec": {**spec, "containers": containers}}


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
