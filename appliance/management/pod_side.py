"""Where pods run: on this machine, on the nodes of agents, or on a Kubernetes cluster."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from appliance.cluster.launcher import Launcher
from appliance.cluster.process_launcher import PodPrograms, ProcessLauncher, ProcessOptions
from appliance.core.addresses import is_loopback
from appliance.core.cluster.records import JobRecord
from appliance.core.ids import JobId, Role, pod_name
from appliance.core.queries.job_filter import JobLine
from appliance.management.cluster.inventory import this_node
from appliance.management.cluster.node_pool import NodePool
from appliance.management.foundation import Foundation
from appliance.management.kubernetes.kubernetes_side import Candidacy, KubernetesSide
from appliance.management.options.settings_by_group import AGENTS, LOOPBACK
from appliance.management.pods.coordinators import Coordinators, FarCoordinators

_TRACING = ("appliance.observability.otlp",)
"""What the fork server imports too where pods are traced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSide:
    """How pods are started and their coordinators reached.

    Attributes:
        launcher: Starts and stops them.
        coordinators: Tells coordinators that their jobs end.
        nodes: The nodes of agents; None where pods do not run there.
        kubernetes: The objects of a Kubernetes cluster; None where pods do not run there.
        own_hosts: By what pods of this machine are reached, where all are on it.
    """

    launcher: Launcher
    coordinators: Coordinators
    nodes: NodePool | None = None
    kubernetes: KubernetesSide | None = None
    own_hosts: frozenset[str] = frozenset()

    def namespace_of(self, job: JobRecord | JobLine) -> str:
        """Return the Kubernetes namespace that a job is in; empty if it is in none."""
        return self.kubernetes.namespace_of(job) if self.kubernetes is not None else ""

    def may_start(self, job: JobId) -> bool:
        """Whether pods of a job that have been launched may run."""
        return self.kubernetes is None or self.kubernetes.may_start(job)

    def coordinator_hosts(self, job: JobId) -> frozenset[str]:
        """Return by what the coordinator of a job is reached, whatever it says; empty if unknown.

        That is what the API server says of its pod, or what its node has said when it joined.
        """
        pod = pod_name(job, Role.COORDINATOR, 0)
        if self.kubernetes is not None:
            return self.kubernetes.hosts_of(pod, job)
        if self.nodes is not None:
            return self.nodes.launcher.hosts_of(pod, job)
        return self.own_hosts

    @property
    def requeues_disrupted(self) -> bool:
        """Whether a job whose pod was taken away goes back into the queue, if it can."""
        return self.kubernetes is not None and self.kubernetes.requeues_disrupted


OpenPodSide = Callable[[Foundation, Candidacy | None, ExitStack], PodSide]
"""Opens where pods run; the stack takes what is to be closed after the launcher."""


def open_pod_side(
    foundation: Foundation,
    candidacy: Candidacy | None,
    closers: ExitStack,
    *,
    programs: PodPrograms | None = None,
) -> PodSide:
    """Open the launcher that the options select.

    Args:
        foundation: What everything is built on.
        candidacy: On a Kubernetes cluster, by which this management leads.
        closers: Takes what is to be closed after the launcher.
        programs: What pods of this machine run; None for their own programs.
    """
    options, keys = foundation.options, foundation.job_keys
    far = FarCoordinators(
        foundation.addresses, options.runtime_root, keys.options_of, foundation.clock
    )
    coordinators = Coordinators(far)
    closers.callback(coordinators.close)
    if candidacy is not None:
        side = KubernetesSide(candidacy, foundation.state, foundation.clock)
        return PodSide(launcher=side.launcher, coordinators=coordinators, kubernetes=side)
    if options.nodes.launcher == AGENTS:
        nodes = NodePool(
            options.data_dir,
            options.runtime_root,
            identity=keys.identity,
            grace_seconds=options.nodes.node_grace_seconds,
            takes_loopback=is_loopback(options.nodes.inner_host),
            clock=foundation.clock,
        )
        closers.callback(nodes.close)
        return PodSide(launcher=nodes.launcher, coordinators=coordinators, nodes=nodes)
    launcher = _start_processes(foundation, programs or PodPrograms())
    own_hosts = frozenset({*LOOPBACK, options.listen.public_host})
    return PodSide(launcher=launcher, coordinators=coordinators, own_hosts=own_hosts)


def _start_processes(foundation: Foundation, programs: PodPrograms) -> Launcher:
    options = foundation.options
    traced = _TRACING if options.telling.otlp else ()
    return ProcessLauncher(
        ProcessOptions(
            runtime_root=options.runtime_root,
            log_path=options.data_dir / "fork-server.log",
            node=this_node().name,
            programs=replace(programs, preload=programs.preload + traced),
            orphan_seconds=options.queue.orphan_seconds,
        )
    )
