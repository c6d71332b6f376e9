"""The systems and nodes of the cluster, and who is on them."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from appliance.core.jobs import JobType
from appliance.core.records import JobRecord
from appliance.core.systems import Node, System
from appliance.management.state import State
from appliance.wire.resources import NodeLoad

_NODE_ROLES = ("management", "memory", "broadcastreduce", "activation", "worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemUse:
    """A system and the job that holds it."""

    system: System
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
        state: What is kept.
        nodes: The CPU nodes.
    """

    def __init__(self, state: State, nodes: Sequence[Node]) -> None:
        self._state = state
        self._nodes = nodes

    @property
    def nodes(self) -> Sequence[Node]:
        """The CPU nodes."""
        return self._nodes

    def systems(self) -> Sequence[System]:
        """Return all systems."""
        return self._state.systems.list()

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

    def node_uses(self) -> Sequence[NodeUse]:
        """Return all nodes with their load; an embedded appliance has one, which runs all pods."""
        load = NodeLoad(
            cpu_percent=psutil.cpu_percent(), memory_percent=psutil.virtual_memory().percent
        )
        holders = self._holders()
        return [NodeUse(node=node, load=load, holders=holders) for node in self._nodes]

    def _holders(self) -> Sequence[JobRecord]:
        return [job for job in self._state.jobs.unfinished() if job.phase.holds_resources]


def this_node() -> Node:
    """Return the machine this process runs on."""
    return Node(
        name=platform.node() or "localhost",
        roles=_NODE_ROLES,
        num_cores=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().total,
    )


def simulated_systems(count: int) -> tuple[System, ...]:
    """Return so many systems, `systemf0` and on."""
    return tuple(System(name=f"systemf{index}") for index in range(count))
