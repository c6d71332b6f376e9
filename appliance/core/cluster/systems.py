"""What a cluster is made of: CS-2 systems, CPU nodes and MemoryX node groups."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from appliance.core.cluster.requirements import GroupKind


class SystemState(StrEnum):
    """What an administrator wants of a system."""

    UP = "up"
    DRAIN = "drain"
    MAINTENANCE = "maintenance"


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One CS-2, granted whole or not at all.

    Attributes:
        name: Its name, as in `systemf0`.
        is_healthy: Whether jobs may be placed on it.
        notes: Why it is not healthy, or not up, for people; may be empty.
        state: `up`; or `drain`, with which it gets no new job; or `maintenance`, with which it is
            away as soon as no job holds it.
        block: What it shares the shortest way with, such as a leaf switch; may be empty.
        version: Grows with each change, so that a change on stale knowledge is refused.
    """

    name: str
    is_healthy: bool = True
    notes: str = ""
    state: SystemState = SystemState.UP
    block: str = ""
    version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One CPU server.

    Attributes:
        roles: What its pods may be: `management`, `memory`, `broadcastreduce`, `worker`, ...
        num_cores: CPU cores.
    """

    name: str
    roles: tuple[str, ...]
    num_cores: int
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """MemoryX nodes that serve one job at a time.

    Attributes:
        kind: Its size.
        is_healthy: Whether jobs may be placed on it.
        num_nodes: How many nodes it has.
        num_cores: CPU cores of each node.
        memory_bytes: Memory of each node.
    """

    name: str
    kind: GroupKind = GroupKind.REGULAR
    is_healthy: bool = True
    num_nodes: int = 1
    num_cores: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """All that a cluster has.

    Attributes:
        systems: Its systems, in the order in which they are granted.
        nodes: Its CPU nodes, all but MemoryX.
        node_groups: Its MemoryX node groups.
        pod_memory_bytes: Memory that a pod counts for unless its job says otherwise, by what
            `pod_kinds` lists; kinds that are missing count for nothing.
    """

    systems: tuple[System, ...]
    nodes: tuple[Node, ...] = ()
    node_groups: tuple[NodeGroup, ...] = ()
    pod_memory_bytes: Mapping[str, int] = field(default_factory=dict)


POD_KINDS: Mapping[str, str] = {
    "compile": "management",
    "execute": "management",
    "driver": "management",
    "sdk": "management",
    "activation": "activation",
    "broadcastreduce": "broadcastreduce",
    "chief": "activation",
    "worker": "worker",
}
"""Kinds of pods that count against nodes, and the role of the nodes they run on. `compile` and
`execute` are the coordinators of such jobs, `driver` is the pod of a detached run, `sdk` that of an
SDK job. Weight pods run in node groups, granted whole."""


class SystemEventKind(StrEnum):
    """What kind of thing happened to a system."""

    STALL = "stall"
    STATE_CHANGE = "state-change"


APPLIANCE = "appliance"
"""Stands for the name of a system in events that concern all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemEvent:
    """Something that happened to a system.

    Attributes:
        system: The system, or `APPLIANCE`.
        at: When.
        kind: What kind of thing.
        note: For people.
        details: For a stall `job`, `session` and `model`; for a change of state `state`, `port`
            and `caller`.
    """

    system: str
    at: dt.datetime
    kind: SystemEventKind
    note: str = ""
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceWindow:
    """A time in which nothing may run on a system.

    Attributes:
        id: Its id; windows that were planned together share it.
        starts_at: Begin; jobs that may run longer are not placed on the system before.
        ends_at: End, as planned.
        notes: What is done, for people.
    """

    id: str
    system: str
    starts_at: dt.datetime
    ends_at: dt.datetime
    notes: str = ""
