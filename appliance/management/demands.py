"""What a job will hold beyond its systems: its request, completed by the cluster's defaults."""

from collections.abc import Mapping

from appliance.core.jobs import JobType
from appliance.core.requirements import PodDemand, Requirements
from appliance.core.systems import POD_KINDS, ClusterDescription
from appliance.wire.submissions import Submission


def requirements_of(submission: Submission, cluster: ClusterDescription) -> Requirements:
    """Return what a submission requires of a cluster.

    An execute job takes one MemoryX node group unless it names a number; where the cluster declares
    none, none is counted unless the job asks for some.
    """
    is_execute = submission.type is JobType.EXECUTE
    default_groups = 1 if is_execute and cluster.node_groups else 0
    return Requirements(
        num_node_groups=submission.num_node_groups or default_groups,
        group_kind=submission.group_kind,
        pods=_pods(submission, cluster.pod_memory_bytes),
    )


def _pods(submission: Submission, defaults: Mapping[str, int]) -> tuple[PodDemand, ...]:
    memory = {**defaults, **submission.pod_memory_bytes}
    return tuple(
        PodDemand(role=POD_KINDS[kind], count=count, memory_bytes=memory[kind])
        for kind, count in _counts(submission).items()
        if memory.get(kind)
    )


def _counts(submission: Submission) -> Mapping[str, int]:
    if submission.type is JobType.COMPILE:
        return {"compile": 1}
    num_systems = submission.num_systems
    return {
        "execute": 1,
        "broadcastreduce": 1,
        "chief": num_systems,
        "activation": num_systems,
        "worker": num_systems * submission.workers_per_system,
    }
