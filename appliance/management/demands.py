"""What a job will hold beyond its systems: its request, completed by the cluster's defaults."""

import hashlib
from collections.abc import Mapping
from pathlib import PurePosixPath

from appliance.core.jobs import JobType
from appliance.core.requirements import PodDemand, Requirements
from appliance.core.systems import POD_KINDS, ClusterDescription
from appliance.wire.submissions import Submission


def requirements_of(submission: Submission, cluster: ClusterDescription) -> Requirements:
    """Return what a submission requires of a cluster.

    An execute job takes one MemoryX node group unless it names a number; where the cluster declares
    none, none is counted unless the job asks for some.
    """
    counts = _counts(submission.type, submission.num_systems, submission.workers_per_system)
    return Requirements(
        num_node_groups=submission.num_node_groups or _default_groups(submission.type, cluster),
        group_kind=submission.group_kind,
        pods=_pods(counts, {**cluster.pod_memory_bytes, **submission.pod_memory_bytes}),
        limit_seconds=submission.limit_seconds,
        program=_program(submission),
        is_preemptible=submission.is_preemptible,
    )


def default_requirements(
    job_type: JobType, num_systems: int, cluster: ClusterDescription
) -> Requirements:
    """Return what a job requires that names nothing but its systems."""
    return Requirements(
        num_node_groups=_default_groups(job_type, cluster),
        pods=_pods(_counts(job_type, num_systems, 1), cluster.pod_memory_bytes),
    )


def _default_groups(job_type: JobType, cluster: ClusterDescription) -> int:
    return 1 if job_type is JobType.EXECUTE and cluster.node_groups else 0


def _pods(counts: Mapping[str, int], memory: Mapping[str, int]) -> tuple[PodDemand, ...]:
    return tuple(
        PodDemand(role=POD_KINDS[kind], count=count, memory_bytes=memory[kind])
        for kind, count in counts.items()
        if memory.get(kind)
    )


def _counts(job_type: JobType, num_systems: int, workers_per_system: int) -> Mapping[str, int]:
    if job_type is JobType.COMPILE:
        return {"compile": 1}
    return {
        "execute": 1,
        "broadcastreduce": 1,
        "chief": num_systems,
        "activation": num_systems,
        "worker": num_systems * workers_per_system,
    }


def _program(submission: Submission) -> str:
    """Return what tells runs of the same compiled program on the same systems."""
    if not submission.artifact_dir:
        return ""
    name = PurePosixPath(submission.artifact_dir).name
    like = f"{name} {submission.num_systems} {submission.workers_per_system}"
    return hashlib.sha256(like.encode()).hexdigest()[:16]
