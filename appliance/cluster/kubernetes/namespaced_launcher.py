"""Launches the pods of each job in the namespace that is its home.

Each namespace has a launcher of its own, with watches and a thread of its own, so that one which
the server does not answer for leaves the others alone. All of a job is in one namespace: objects
that its wsjob owns cannot be in another.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from appliance.cluster.kubernetes.kubernetes_launcher import KubernetesLauncher
from appliance.cluster.launcher import Exits, Survivor
from appliance.core.ids import JobId, PodName
from appliance.core.pods.pod_spec import PodSpec


class NamespacedLauncher:
    """The launchers of several namespaces as one.

    Args:
        launchers: By namespace, at least one; all tell `exits` what has ended.
        home_of: Returns the namespace of a job that has not been launched.
        exits: What has ended, in order.
    """

    def __init__(
        self,
        launchers: Mapping[str, KubernetesLauncher],
        home_of: Callable[[JobId], str],
        exits: Exits,
    ) -> None:
        self._launchers, self._home_of, self._exits = launchers, home_of, exits
        self._homes = {job: name for name, each in launchers.items() for job in each.survivors()}

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
        found: dict[JobId, Survivor] = {}
        for launcher in self._launchers.values():
            found |= launcher.survivors()
        return found

    def launch(self, pods: Sequence[PodSpec], request: bytes = b"") -> Mapping[PodName, int]:
        """Write down that the pods of a job are to run, all or none."""
        job = pods[0].job
        home = self._homes.setdefault(job, self._home_of(job))
        return self._launchers[home].launch(pods, request)

    def may_start(self, job: JobId) -> bool:
        """Whether the pods of a job have been let start."""
        return any(launcher.may_start(job) for launcher in self._launchers.values())

    def hosts_of(self, pod: PodName, job: JobId) -> frozenset[str]:
        """Return the addresses that a pod of a job has according to the API server."""
        return self._launcher_of(job).hosts_of(pod, job)

    def stop(self, job: JobId) -> None:
        """End everything of a job; a `JobStopped` follows in `exits`."""
        self._launcher_of(job).stop(job)

    def forget(self, job: JobId) -> None:
        """Remove what is left of a stopped job."""
        self._launcher_of(job).forget(job)
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

    def _launcher_of(self, job: JobId) -> KubernetesLauncher:
        return self._launchers[self._homes.get(job) or self._home_of(job)]
