"""Plans the pods of a job from the present state of the cluster."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import JobRecord
from appliance.core.ids import JobId
from appliance.core.plans.shard_count import ONE_NODE, MemoryNodes
from appliance.core.pods.pod_spec import PodSpec
from appliance.management.cluster.cluster_model import ClusterFacts, ClusterModel
from appliance.management.cluster.demands import memory_nodes
from appliance.management.cluster.node_pool import NodePool
from appliance.management.pods.coordinators import CoordinatorAddresses
from appliance.management.pods.pod_specs import KnownOptions, PodEnvironment, plan_pods
from appliance.management.store.state import State
from appliance.observability import tracing
from appliance.storage.queue.job_requests import JobRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPods:
    """What a launcher is to start.

    Attributes:
        pods: The pods of a job, coordinator first.
        request: What submitted the job, for them to read; empty for a driver.
    """

    pods: tuple[PodSpec, ...]
    request: bytes = b""


@dataclass(slots=True)
class _Environment:
    """What pods of all jobs but compiles need to know, as long as the cluster is the same.

    Attributes:
        facts: What the cluster was.
        environment: What was made of that; None before the first job.
        known: Options that were made in it.
    """

    facts: ClusterFacts | None = None
    environment: PodEnvironment | None = None
    known: KnownOptions = field(default_factory=KnownOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlanner:
    """Determines which pods a job consists of, and where they run.

    Attributes:
        pod_environment: What pods need to know of the appliance, all but what the cluster says.
        state: The appliance's database.
        model: What the cluster has.
        addresses: Where coordinators are; that of an earlier run of a job is forgotten.
        runtime_dir: Returns a job's directory for sockets.
        nodes: The nodes of agents; None where pods do not run there.
    """

    pod_environment: PodEnvironment
    state: State
    model: ClusterModel
    addresses: CoordinatorAddresses
    runtime_dir: Callable[[JobId], Path]
    nodes: NodePool | None
    _around: "_Environment" = field(default_factory=_Environment)

    def plan(self, job: JobRecord) -> PlannedPods:
        """Return what is to be launched for a job.

        Raises:
            ClusterError: A node that it needs is away.
            NotFoundError: Its request is not kept.
        """
        nodes, is_driver = self.nodes, job.type is JobType.DRIVER
        environment, known = self._environment_of(job)
        request = JobRequest(message=b"") if is_driver else self._request(job.id)
        pods = plan_pods(
            job,
            self.runtime_dir(job.id),
            environment,
            nodes.place(job, self.model.facts.description) if nodes else {},
            driver=self.state.driver_specs.take_text(job.id) if is_driver else "",
            trace=request.trace if tracing.is_tracing() else "",
            known=known,
        )
        return PlannedPods(pods=pods, request=request.message)

    def _environment_of(self, job: JobRecord) -> tuple[PodEnvironment, KnownOptions | None]:
        """Return what a job's pods need to know, and options that were made for the same.

        That of a driver needs nothing of the cluster.
        """
        nodes, is_driver = self.nodes, job.type is JobType.DRIVER
        if is_driver and nodes is None:
            return self.pod_environment, None
        facts, around = self.model.facts, self._around
        is_common = nodes is None and job.type is not JobType.COMPILE
        if is_common and around.facts is facts and around.environment is not None:
            return around.environment, around.known
        environment = replace(
            self.pod_environment,
            cluster_systems=len(facts.systems),
            memory_nodes=ONE_NODE if is_driver else self._memory_nodes(job),
            node_cores=nodes.cores() if nodes else {},
        )
        if not is_common:
            return environment, None
        around.facts, around.environment, around.known = facts, environment, KnownOptions()
        return environment, around.known

    def _request(self, job: JobId) -> JobRequest:
        """Return the request of a job, whose earlier run, if there was one, is over."""
        fresh = self.state.requests.take_fresh(job)
        if fresh is not None:
            return fresh
        self.addresses.forget(job)
        return self.state.requests.load(job)

    def _memory_nodes(self, job: JobRecord) -> MemoryNodes:
        cluster, limit_bytes = self.model.facts.description, self.pod_environment.runs.memoryx_bytes
        # A compile decides on the shards; and with one group no session's limit makes a difference.
        if job.type is not JobType.COMPILE or len(cluster.node_groups) < 2:
            return memory_nodes(cluster, limit_bytes)
        session = self.state.sessions.find(job.session)
        most = None if session is None else session.spec.max_node_groups
        return memory_nodes(cluster, limit_bytes, max_groups=most)
