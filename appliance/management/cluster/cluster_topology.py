"""The topology of the cluster, as far as its description gives it.

Systems may name a block, such as their leaf switch; nothing else is known of the network, and
undescribed cables are not invented.
"""

from collections.abc import Sequence

from appliance.core.cluster.records import JobRecord, PodRecord
from appliance.core.cluster.swarmx_tree import TreePod, swarmx_tree
from appliance.core.cluster.systems import System
from appliance.core.ids import Role, pod_name
from protos.csctl import api_pb2 as pb


def cluster_topology(systems: Sequence[System]) -> pb.GetClusterTopologyResponse:
    """Return which system hangs on which switch.

    Args:
        systems: All systems; those without a block are left out.
    """
    connections = [
        pb.SwitchPortConnection(switch_name=system.block, peer_name=system.name)
        for system in systems
        if system.block
    ]
    blocks = sorted({system.block for system in systems if system.block})
    affinity = [
        f"{block}: {', '.join(each.name for each in systems if each.block == block)}"
        for block in blocks
    ]
    return pb.GetClusterTopologyResponse(connections=connections, per_stamp_affinity=affinity)


def job_topology(
    job: JobRecord, pods: Sequence[PodRecord], systems: Sequence[System]
) -> pb.GetJobTopologyResponse:
    """Return where a job's pods are, and how they reach its systems.

    Args:
        pods: Its pods, as last reported.
    """
    blocks = {system.name: system.block for system in systems}
    held = {blocks.get(name, "") for name in job.systems}
    return pb.GetJobTopologyResponse(
        connections=[
            pb.JobTopologyConnection(
                pod_id=pod.name,
                node_name=pod.node,
                egress_targets=",".join(_targets(pod, job)),
                system_affinity_switch=",".join(
                    sorted({blocks.get(name, "") for name in _systems(pod, job)} - {""})
                ),
                is_one_hop=len(held) == 1 and "" not in held,
            )
            for pod in pods
        ],
        memory_allocations=[
            pb.JobTopologyTaskResource(
                pod_id=pod.name, pod_memory_mib=str(pod.resident_bytes >> 20)
            )
            for pod in pods
            if pod.resident_bytes
        ],
    )


def _targets(pod: PodRecord, job: JobRecord) -> tuple[str, ...]:
    """Return the systems, and for a SwarmX pod the SwarmX pods, that a pod sends to."""
    place = _place(pod, job)
    if place is None:
        return _systems(pod, job)
    return tuple(
        job.systems[child.first_system]
        if child.pod is None
        else pod_name(job.id, Role.BROADCASTREDUCE, child.pod)
        for child in place.children
    )


def _systems(pod: PodRecord, job: JobRecord) -> tuple[str, ...]:
    """Return the systems that are reached through a pod."""
    if pod.role in (Role.CHIEF, Role.ACTIVATION):
        return job.systems[pod.index : pod.index + 1]
    place = _place(pod, job)
    return () if place is None else tuple(job.systems[system] for system in place.systems)


def _place(pod: PodRecord, job: JobRecord) -> TreePod | None:
    """Return a SwarmX pod's place in the tree; None for other pods, and while none is granted."""
    if pod.role is not Role.BROADCASTREDUCE or not job.systems:
        return None
    return swarmx_tree(len(job.systems), fan_out=job.requirements.fan_out)[pod.index]
