"""What a job asks for beyond its systems: node groups, memory of its pods, time."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from operator import attrgetter
from typing import Any

from appliance.core.cluster.swarmx_tree import MAX_FAN_OUT
from appliance.core.dependencies import Dependency
from appliance.core.ids import Role
from appliance.core.quick_init import quick_init

NODE_ROLES = ("management", "memory", "broadcastreduce", "activation", "worker")
"""Roles that CPU nodes have."""


class GroupKind(IntEnum):
    """Size of a MemoryX node group; a larger one serves where a smaller one would do."""

    REGULAR = 0
    LARGE = 1
    XLARGE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDemand:
    """Alike pods of a gang.

    Attributes:
        role: Role of the nodes they run on.
        count: How many.
        memory_bytes: Memory of each; 0 leaves it unlimited and uncounted.
        num_cores: CPU cores of each; 0 leaves them uncounted.
    """

    role: str
    count: int = 1
    memory_bytes: int = 0
    num_cores: int = 0


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What a job asks for beyond its systems.

    Attributes:
        num_node_groups: MemoryX node groups, each for this job alone.
        group_kind: The smallest kind of node group that will do.
        pods: Pods that count against the memory and cores of nodes.
        reserve_systems: Systems to hold from its start for later jobs of its workflow.
        limit_seconds: It is ended after so long; None sets no limit.
        program: Hash of all that makes runs alike; empty if unknown.
        fan_out: Children of a SwarmX pod of the job at most (`core/cluster/swarmx_tree.py`).
        num_shards: Weight pods of the job, each a shard of MemoryX.
        is_preemptible: Whether it may be stopped for a higher priority and queued again.
        after: How other jobs must have ended before it first starts.
        array_limit: Of its array at most so many run at once; 0 sets no limit.
        planned_memory: Bytes that the plan needs for one pod of each role; empty if unknown.
    """

    num_node_groups: int = 0
    group_kind: GroupKind = GroupKind.REGULAR
    pods: tuple[PodDemand, ...] = ()
    reserve_systems: int = 0
    limit_seconds: float | None = None
    program: str = ""
    fan_out: int = MAX_FAN_OUT
    num_shards: int = 1
    is_preemptible: bool = False
    after: tuple[Dependency, ...] = ()
    array_limit: int = 0
    planned_memory: tuple[tuple[Role, int], ...] = ()

    # `Any`: values of a JSON object.
    def to_dict(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, ready for JSON."""
        fields: dict[str, Any] = {
            name: value
            for name, value, usual in zip(_NAMES, _VALUES(self), _USUAL, strict=True)
            if value != usual
        }
        if self.group_kind:
            fields["group_kind"] = self.group_kind.name
        if self.after:
            fields["after"] = [each.to_json() for each in self.after]
        if self.pods:
            fields["pods"] = [
                [pod.role, pod.count, pod.memory_bytes, pod.num_cores] for pod in self.pods
            ]
        return fields

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "Requirements":
        """Return what `to_dict` wrote."""
        if not fields:
            return _NOTHING
        values = dict(fields)
        if "group_kind" in values:
            values["group_kind"] = GroupKind[values["group_kind"]]
        values["after"] = tuple(map(Dependency.from_json, values.get("after", ())))
        values["planned_memory"] = tuple(
            (Role(role), size) for role, size in values.get("planned_memory", ())
        )
        values["pods"] = tuple(
            PodDemand(role=role, count=count, memory_bytes=memory, num_cores=cores)
            for role, count, memory, cores in values.get("pods", ())
        )
        return cls(**values)


_NOTHING = Requirements()
_NAMES = Requirements.__slots__
_VALUES = attrgetter(*_NAMES)
_USUAL = _VALUES(_NOTHING)
