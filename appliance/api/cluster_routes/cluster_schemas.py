"""Schemas of the cluster in REST's answers."""

import datetime as dt
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from appliance.core.cluster.requirements import GroupKind
from appliance.core.cluster.systems import MaintenanceWindow, SystemState
from appliance.management.cluster.inventory import GroupUse, NodeUse, SystemUse

GroupName = Literal["regular", "large", "xlarge"]
_GROUP_NAMES: dict[GroupKind, GroupName] = {
    GroupKind.REGULAR: "regular",
    GroupKind.LARGE: "large",
    GroupKind.XLARGE: "xlarge",
}


class SystemView(BaseModel):
    """A CS-2 and the job that holds it."""

    name: str
    is_healthy: bool
    state: SystemState
    """`up`; `drain`: gets no new job; `maintenance`: away as soon as no job holds it."""
    notes: str
    block: str
    version: int
    """Grows with each change, as in the ETag."""
    job: str | None

    @classmethod
    def of(cls, use: SystemUse) -> "SystemView":
        """Return a system and the job that holds it."""
        system = use.system
        return cls(
            name=system.name,
            is_healthy=system.is_healthy,
            state=system.state,
            notes=system.notes,
            block=system.block,
            version=system.version,
            job=use.holder.id if use.holder else None,
        )


class SystemChange(BaseModel):
    """What to change of a system; what is left out stays."""

    model_config = ConfigDict(extra="forbid")

    state: SystemState | None = None
    is_healthy: bool | None = None
    notes: Annotated[str, Field(max_length=1000)] = ""
    """Why, for people."""


class NodeView(BaseModel):
    """A CPU node."""

    name: str
    roles: list[str]
    num_cores: int
    memory_bytes: int
    cpu_percent: float
    memory_percent: float
    jobs: list[str]

    @classmethod
    def of(cls, use: NodeUse) -> "NodeView":
        """Return a node with its load."""
        return cls(
            name=use.node.name,
            roles=list(use.node.roles),
            num_cores=use.node.num_cores,
            memory_bytes=use.node.memory_bytes,
            cpu_percent=use.load.cpu_percent,
            memory_percent=use.load.memory_percent,
            jobs=[job.id for job in use.holders],
        )


class NodeGroupView(BaseModel):
    """A MemoryX node group and the job that holds it."""

    name: str
    kind: GroupName
    """Size; a larger one serves where a smaller one would do."""
    is_healthy: bool
    num_nodes: int
    num_cores: int
    memory_bytes: int
    job: str | None

    @classmethod
    def of(cls, use: GroupUse) -> "NodeGroupView":
        """Return a node group and the job that holds it."""
        group = use.group
        return cls(
            name=group.name,
            kind=_GROUP_NAMES[group.kind],
            is_healthy=group.is_healthy,
            num_nodes=group.num_nodes,
            num_cores=group.num_cores,
            memory_bytes=group.memory_bytes,
            job=use.holder.id if use.holder else None,
        )


class ClusterView(BaseModel):
    """All systems, nodes and node groups."""

    systems: list[SystemView]
    nodes: list[NodeView]
    node_groups: list[NodeGroupView]

    @classmethod
    def of(
        cls, systems: Sequence[SystemUse], nodes: Sequence[NodeUse], groups: Sequence[GroupUse]
    ) -> "ClusterView":
        """Return the cluster."""
        return cls(
            systems=[SystemView.of(use) for use in systems],
            nodes=[NodeView.of(use) for use in nodes],
            node_groups=[NodeGroupView.of(use) for use in groups],
        )


class Maintenance(BaseModel):
    """A time in which a system is away."""

    id: str
    """Shared by what was planned together."""
    system: str
    starts_at: dt.datetime
    ends_at: dt.datetime
    notes: str

    @classmethod
    def of(cls, window: MaintenanceWindow) -> "Maintenance":
        """Return a time in which a system is away."""
        return cls(
            id=window.id,
            system=window.system,
            starts_at=window.starts_at,
            ends_at=window.ends_at,
            notes=window.notes,
        )


class MaintenanceList(BaseModel):
    """Maintenance, the earliest first."""

    items: list[Maintenance]


class NewMaintenance(BaseModel):
    """Maintenance to plan."""

    systems: Annotated[
        list[Annotated[str, Field(max_length=64)]], Field(min_length=1, max_length=1000)
    ]
    starts_at: dt.datetime | None = None
    """Null for now."""
    seconds: Annotated[float, Field(gt=0, le=31_536_000)]
    notes: Annotated[str, Field(max_length=1000)] = ""


class Versions(BaseModel):
    """What this appliance is, and which clients it serves."""

    appliance: str
    clients: list[str]
    """Builds of the client whose jobs it runs, the newest last."""
