"""Launches the pods of each job in the namespace that is its home.

Each namespace has a launcher of its own, with watches and a thread of its own, so that one which
the server does not answer for leaves the others alone. All of a job is in one namespace: objects
that its wsjob owns cannot be in another.

A namespace that cannot be used has no launcher: nothing is launched there, and what is to be
stopped there counts as stopped.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from appliance.cluster.kubernetes.kubernetes_launcher import KubernetesLauncher
from appliance.cluster.launcher import Exits, JobStopped, LauncherLost, Survivor
from appliance.core.errors import ClusterError
from appliance.core.ids import JobId, PodName
from appliance.core.pods.pod_spec import PodSpec


class NamespacedLauncher:
    """The launchers of several namespaces as one.

    Args:
        launchers: By namespace, at least one; all tell `exits` what has ended.
        home_of: Returns the namespace of a job that has not been launched.
        exits: What has ended, in order.
        unreached: What runs in namespaces without a launcher, by namespace.
        fault_of: Looks why nothing can be launched in a namespace; None if nothing is wrong.
    """

    def __init__(
        self,
        launchers: Mapping[str, KubernetesLauncher],
        home_of: Callable[[JobId], str],
        exits: Exits,
        *,
        unreached: Mapping[str, Mapping[JobId, Survivor]] = {},
        fault_of: Callable[[str], ClusterError | None] = lambda _: None,
    ) -> None:
        self._launchers, self._home_of, self._exits = launchers, home_of, exits
        self._fault_of, self._lock = fault_of, threading.Lock()
        self._survivors: dict[JobId, Survivor] = {}
        self._homes: dict[JobId, str] = {}
        found = {name: each.survivors() for name, each in launchers.items()}
        for name, jobs in (*unreached.items(), *found.items()):
            self._survivors |= jobs
            self._homes |= dict.fromkeys(jobs, name)

    @property
    def exits(self) -> Exits:
        """What has ended, in order."""
        return self._exits

    @property
    def node(self) -> str:
        """What pods run on, before a node has taken them."""
        return self._any.node

    @property
    def is_far(self) -> bool:
        """The API server may take its time."""
        return True

    def runtime_dir(self, job: JobId) -> Path:
        """Return the directory for a job's sockets, in each of its pods."""
        return self._any.runtime_dir(job)

    def survivors(self) -> Mapping[JobId, Survivor]:
        """Return the jobs that an earlier management launched and that were not forgotten."""
        return self._survivors

    def add(self, namespace: str, launcher: KubernetesLauncher) -> None:
        """Launch in a namespace from now on."""
        with self._lock:
            self._launchers = {**self._launchers, namespace: launcher}
            self._homes |= dict.fromkeys(launcher.survivors(), namespace)

    def remove(self, namespace: str) -> None:
        """Launch in a namespace no more; what runs there is out of reach."""
        with self._lock:
            kept = {name: each for name, each in self._launchers.items() if name != namespace}
            self._launchers = kept

    def lose(self, namespace: str, reason: str) -> None:
        """Launch in a namespace no more; what runs there has ended, for a reason."""
        self.remove(namespace)
        with self._lock:
            jobs = tuple(job for job, home in self._homes.items() if home == namespace)
        self._exits.put(LauncherLost(jobs=jobs, reason=reason))

    def launch(self, pods: Sequence[PodSpec], request: bytes = b"") -> Mapping[PodName, int]:
        """Write down that the pods of a job are to run, all or none.

        Raises:
            ClusterError: They cannot be launched, or their namespace cannot be used.
        """
        job = pods[0].job
        with self._lock:
            home = self._homes.setdefault(job, self._home_of(job))
            launcher = self._launchers.get(home)
        try:
            if launcher is not None:
                return launcher.launch(pods, request)
        except ClusterError as error:
            if (fault := self._fault_of(home)) is None:
                raise
            raise fault from error
        raise self._fault_of(home) or ClusterError(
            f"Namespace {home} cannot be used yet.", hint="Submit the job again in a minute."
        )

    def may_start(self, job: JobId) -> bool:
        """Whether the pods of a job have been let start."""
        return any(launcher.may_start(job) for launcher in self._launchers.values())

    def hosts_of(self, pod: PodName, job: JobId) -> frozenset[str]:
        """Return the addresses that a pod of a job has according to the API server."""
        launcher = self._launcher_of(job)
        return frozenset() if launcher is None else launcher.hosts_of(pod, job)

    def stop(self, job: JobId) -> None:
        """End everything of a job; a `JobStopped` follows in `exits`."""
        if (launcher := self._launcher_of(job)) is None:
            self._exits.put(JobStopped(job=job))
        else:
            launcher.stop(job)

    def forget(self, job: JobId) -> None:
        """Remove what is left of a stopped job."""
        if (launcher := self._launcher_of(job)) is not None:
            launcher.forget(job)
        with self._lock:
            self._homes.pop(job, None)

    def close(self) -> None:
        """Leave every pod to the next management: they are the cluster's, not this process's."""
        for launcher in self._launchers.values():
            launcher.close()

    def abandon(self) -> None:
        """Leave every pod to the next management."""
        self.close()

    @property
    def _any(self) -> KubernetesLauncher:
        return next(iter(self._launchers.values()))

    def _launcher_of(self, job: JobId) -> KubernetesLauncher | None:
        """Return the launcher of a job's namespace; None if that cannot be used."""
        return self._launchers.get(self._homes.get(job) or self._home_of(job))
