"""The systems and nodes of the cluster, and the jobs on them."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import psutil

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import JobRecord
from appliance.core.cluster.requirements import GroupKind
from appliance.core.cluster.systems import ClusterDescription, Node, NodeGroup, System
from appliance.core.ids import WorkflowId
from appliance.management.cluster.cluster_file import parse_cluster
from appliance.management.cluster.cluster_model import ClusterModel
from appliance.management.cluster.node_pool import NodePool
from appliance.management.store.state import State
from appliance.storage.cluster.systems import no_system
from appliance.wire.resources import NodeLoad

_NODE_ROLES = ("management", "memory", "broadcastreduce", "activation", "worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemUse:
    """A system and the job that holds it."""

    system: System
    holder: JobRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUse:
    """A MemoryX node group and the job that holds it."""

    group: NodeGroup
    holder: JobRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUse:
    """A node, its load and the jobs on it."""

    node: Node
    load: NodeLoad
    holders: Sequence[JobRecord]


class Inventory:
    """What the cluster has.

    Args:
        state: The appliance's database.
        model: What the cluster has.
        pool: Knows the nodes that have joined; None where all nodes are this machine.
    """

    def __init__(self, state: State, model: ClusterModel, pool: NodePool | None = None) -> None:
        self._state = state
        self._model = model
        self._pool = pool

    @property
    def nodes(self) -> Sequence[Node]:
        """The CPU nodes, all but those of node groups."""
        return self._model.facts.description.nodes

    def systems(self) -> Sequence[System]:
        """Return all systems."""
        return self._model.facts.systems

    def group_uses(self) -> Sequence[GroupUse]:
        """Return all MemoryX node groups with the jobs that hold them."""
        holders = {name: job for job in self._holders() for name in job.holding.node_groups}
        return [
            GroupUse(group=group, holder=holders.get(group.name))
            for group in self._model.facts.description.node_groups
        ]

    def reserved_systems(self, workflow: WorkflowId) -> Sequence[str]:
        """Return the names of the systems that a workflow retains between its jobs."""
        kept = [r for r in self._model.facts.reservations if r.workflow.id == workflow]
        return [name for reservation in kept for name in reservation.systems]

    def system_uses(self) -> Sequence[SystemUse]:
        """Return all systems with the jobs that hold them."""
        holders = {
            name: job
            for job in self._holders()
            if job.type is not JobType.COMPILE
            for name in job.systems
        }
        return [
            SystemUse(system=system, holder=holders.get(system.name)) for system in self.systems()
        ]

    def system_use(self, name: str) -> SystemUse:
        """Return a system and the job that has it; raises `NotFoundError`."""
        for use in self.system_uses():
            if use.system.name == name:
                return use
        raise no_system(name)

    def node_uses(self) -> Sequence[NodeUse]:
        """Return all nodes with their load and the jobs that have pods there."""
        holders, pool = self._holders(), self._pool
        if pool is None:
            load = _this_load()
            return [NodeUse(node=node, load=load, holders=holders) for node in self.nodes]
        jobs = {node.name: pool.launcher.jobs_on(node.name) for node in self.nodes}
        return [
            NodeUse(
                node=node,
                load=pool.load_of(node.name),
                holders=[job for job in holders if job.id in jobs[node.name]],
            )
            for node in self.nodes
        ]

    def _holders(self) -> Sequence[JobRecord]:
        return [job for job in self._state.jobs.unfinished() if job.phase.holds_resources]


def _this_load() -> NodeLoad:
    """Return the load of this machine, which runs all pods."""
    return NodeLoad(
        cpu_percent=psutil.cpu_percent(), memory_percent=psutil.virtual_memory().percent
    )


@cache
def this_node() -> Node:
    """Return the machine this process runs on."""
    return Node(
        name=platform.node() or "localhost",
        roles=_NODE_ROLES,
        num_cores=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().total,
    )


def simulated_cluster(num_systems: int) -> ClusterDescription:
    """Return a cluster of so many systems, `systemf0` and on, with this machine as its one node.

    Each system has a large node group, so that no job waits for MemoryX unless it asks for more
    groups than there are systems.
    """
    node = this_node()
    return ClusterDescription(
        systems=tuple(System(name=f"systemf{index}") for index in range(num_systems)),
        nodes=(node,),
        node_groups=tuple(
            NodeGroup(
                name=f"nodegroup{index}",
                kind=GroupKind.LARGE,
                num_cores=node.num_cores,
                memory_bytes=node.memory_bytes,
            )
            for index in range(num_systems)
        ),
    )


def set_up_cluster(model: ClusterModel, text: str, num_systems: int | None) -> None:
    """Use the cluster of the options, else the stored one, else a single system.

    Args:
        model: Takes it.
        text: What a cluster file holds; empty for none.
        num_systems: Simulated systems of this machine; None for no word on it.

    Raises:
        UserError: The cluster file describes no cluster.
    """
    if text:
        model.apply(parse_cluster(text, source="The cluster file"))
    elif num_systems is not None or not model.facts.systems:
        model.apply(simulated_cluster(num_systems or 1))
