"""What a job needs before it can start: a gang, granted whole or not at all.

A demand is also a row of numbers (`columns`), so that a hundred thousand jobs are compared with the
free resources in a few vector operations. That comparison is necessary, not sufficient, because a
pod cannot be split over nodes; `placement` decides.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from appliance.core.cluster.requirements import NODE_ROLES, GroupKind, PodDemand

ROLES = NODE_ROLES
"""Roles that CPU nodes have, in the order of their columns."""

SYSTEMS = 0
GROUPS = 1
_MEMORY = GROUPS + len(GroupKind)
_CORES = _MEMORY + len(ROLES)
_LARGEST = _CORES + len(ROLES)
NUM_COLUMNS = _LARGEST + len(ROLES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A gang.

    Attributes:
        num_systems: Whole systems.
        num_node_groups: MemoryX node groups, each for this job alone.
        group_kind: The smallest kind of node group that will do.
        pods: Pods that count against the memory and cores of nodes.
    """

    num_systems: int = 0
    num_node_groups: int = 0
    group_kind: GroupKind = GroupKind.REGULAR
    pods: tuple[PodDemand, ...] = ()

    def columns(self) -> tuple[int, ...]:
        """Return the demand as a row of `NUM_COLUMNS` numbers."""
        row = [0] * NUM_COLUMNS
        row[SYSTEMS] = self.num_systems
        row[GROUPS : GROUPS + self.group_kind + 1] = [self.num_node_groups] * (self.group_kind + 1)
        for pod in self.pods:
            role = ROLES.index(pod.role)
            row[_MEMORY + role] += pod.count * pod.memory_bytes
            row[_CORES + role] += pod.count * pod.num_cores
            row[_LARGEST + role] = max(row[_LARGEST + role], pod.memory_bytes)
        return tuple(row)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRoom:
    """Free capacity of a node.

    Attributes:
        num_cores: CPU cores.
    """

    roles: tuple[str, ...]
    memory_bytes: int
    num_cores: int


def supply_columns(
    num_systems: int, groups_at_least: Iterable[int], rooms: Iterable[NodeRoom]
) -> tuple[int, ...]:
    """Return what is there as a row that demands can be held against.

    Args:
        groups_at_least: For each `GroupKind`, node groups of that kind or a larger one.
    """
    row = [0] * NUM_COLUMNS
    row[SYSTEMS] = num_systems
    row[GROUPS:_MEMORY] = groups_at_least
    for room in rooms:
        for name in room.roles:
            role = ROLES.index(name)
            row[_MEMORY + role] += room.memory_bytes
            row[_CORES + role] += room.num_cores
            row[_LARGEST + role] = max(row[_LARGEST + role], room.memory_bytes)
    return tuple(row)
