"""What a job will hold beyond its systems: its request, completed by the cluster's defaults."""

import hashlib
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.node_roles import NODE_ROLE
from appliance.core.cluster.requirements import PodDemand, Requirements
from appliance.core.cluster.swarmx_tree import MAX_FAN_OUT, best_fan_out, swarmx_tree
from appliance.core.cluster.systems import POD_KINDS, ClusterDescription
from appliance.core.ids import Role
from appliance.core.plans.shard_count import MemoryNodes
from appliance.wire.requests.submissions import Submission


def requirements_of(
    submission: Submission, cluster: ClusterDescription, *, max_groups: int | None = None
) -> Requirements:
    """Return what a submission requires of a cluster.

    An execute job takes as many MemoryX node groups as have a node for each of its weight pods,
    unless it names a number; where the cluster declares none, none is counted unless the job asks
    for some. Where there are too few, weight pods share a node.

    Args:
        submission: What was submitted.
        cluster: What there is.
        max_groups: Node groups that the job's session may use; None sets no limit.
    """
    memory = {**cluster.pod_memory_bytes, **submission.pod_memory_bytes}
    tree = _tree(submission.type, submission.num_systems, cluster, memory)
    counts = _counts(
        submission.type, submission.num_systems, submission.workers_per_system, tree.num_pods
    )
    return Requirements(
        num_node_groups=submission.num_node_groups
        or _default_groups(submission, cluster, max_groups),
        group_kind=submission.group_kind,
        pods=_pods(counts, memory),
        limit_seconds=submission.limit_seconds,
        program=_program(submission),
        fan_out=tree.fan_out,
        num_shards=submission.num_shards,
        is_preemptible=submission.is_preemptible,
        planned_memory=tuple(submission.planned_memory.items()),
    )


def default_requirements(
    job_type: JobType, num_systems: int, cluster: ClusterDescription
) -> Requirements:
    """Return what a job requires that names nothing but its systems."""
    tree = _tree(job_type, num_systems, cluster, cluster.pod_memory_bytes)
    counts = _counts(job_type, num_systems, 1, tree.num_pods)
    return Requirements(
        num_node_groups=_one_group(job_type, cluster),
        pods=_pods(counts, cluster.pod_memory_bytes),
        fan_out=tree.fan_out,
    )


def main_pod_kind(job_type: JobType) -> str:
    """Return what the only pod of a job, or the coordinator of its gang, is among the kinds."""
    return "sdk" if job_type.is_sdk else job_type.value


def driver_requirements(cluster: ClusterDescription) -> Requirements:
    """Return what a detached run's own pod requires: memory, if the cluster counts that."""
    return Requirements(pods=_pods({JobType.DRIVER.value: 1}, cluster.pod_memory_bytes))


def memory_nodes(
    cluster: ClusterDescription, limit_bytes: int, *, max_groups: int | None = None
) -> MemoryNodes:
    """Return the nodes that one job's MemoryX may have.

    Args:
        cluster: What there is.
        limit_bytes: Memory that MemoryX may use of each; 0 for what there is.
        max_groups: Node groups that the job's session may use; None sets no limit.
    """
    found = [group for group in cluster.node_groups if group.is_healthy][:max_groups]
    sizes = [group.memory_bytes for group in found for _ in range(group.num_nodes)]
    if not cluster.node_groups:
        wanted = NODE_ROLE[Role.WEIGHT]
        sizes = [node.memory_bytes for node in cluster.nodes if wanted in node.roles]
    return MemoryNodes(
        num_nodes=max(1, len(sizes)), node_bytes=limit_bytes or min(sizes, default=0)
    )


def _one_group(job_type: JobType, cluster: ClusterDescription) -> int:
    return int(job_type is JobType.EXECUTE and bool(cluster.node_groups))


def _default_groups(
    submission: Submission, cluster: ClusterDescription, max_groups: int | None
) -> int:
    """Return the groups that a job takes by itself: never one that it might have to wait for."""
    num_nodes = [
        group.num_nodes
        for group in cluster.node_groups
        if group.is_healthy and group.kind >= submission.group_kind
    ][:max_groups]
    least = _one_group(submission.type, cluster)
    if not least or not num_nodes:
        return least
    return max(least, min(-(-submission.num_shards // max(1, min(num_nodes))), len(num_nodes)))


def _pods(counts: Mapping[str, int], memory: Mapping[str, int]) -> tuple[PodDemand, ...]:
    return tuple(
        PodDemand(role=POD_KINDS[kind], count=count, memory_bytes=memory[kind])
        for kind, count in counts.items()
        if memory.get(kind)
    )


class _Tree(NamedTuple):
    """A job's SwarmX pods: how many, and how many children each has at most."""

    fan_out: int
    num_pods: int


def _tree(
    job_type: JobType, num_systems: int, cluster: ClusterDescription, memory: Mapping[str, int]
) -> _Tree:
    """Return the SwarmX tree that suits the nodes that there are for it, and their memory.

    A job that asks for more systems than there are is refused, whatever is counted here.
    """
    if job_type is not JobType.EXECUTE or not 1 <= num_systems <= len(cluster.systems):
        return _Tree(fan_out=MAX_FAN_OUT, num_pods=1)
    nodes = [node for node in cluster.nodes if NODE_ROLE[Role.BROADCASTREDUCE] in node.roles]
    each = memory.get("broadcastreduce", 0)
    room = sum(node.memory_bytes // each for node in nodes) if each else num_systems
    fan_out = best_fan_out(num_systems, len(nodes), room)
    return _Tree(fan_out=fan_out, num_pods=len(swarmx_tree(num_systems, fan_out=fan_out)))


def _counts(
    job_type: JobType, num_systems: int, workers_per_system: int, num_swarmx_pods: int
) -> Mapping[str, int]:
    if not job_type.has_gang:
        return {main_pod_kind(job_type): 1}
    return {
        "execute": 1,
        "broadcastreduce": num_swarmx_pods,
        "chief": num_systems,
        "activation": num_systems,
        "worker": num_systems * workers_per_system,
    }


def _program(submission: Submission) -> str:
    """Return the key of runs of the same compiled program on the same systems."""
    if not submission.artifact_dir:
        return ""
    name = PurePosixPath(submission.artifact_dir).name
    like = f"{name} {submission.num_systems} {submission.workers_per_system}"
    return hashlib.sha256(like.encode()).hexdigest()[:16]
