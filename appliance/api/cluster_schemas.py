"""The cluster, as REST tells of it."""

from collections.abc import Sequence

from pydantic import BaseModel

from appliance.management.inventory import NodeUse, SystemUse


class System(BaseModel):
    """A CS-2 and the job that holds it."""

    name: str
    is_healthy: bool
    notes: str
    job: str | None


class Node(BaseModel):
    """A CPU node."""

    name: str
    roles: list[str]
    num_cores: int
    memory_bytes: int
    cpu_percent: float
    memory_percent: float
    jobs: list[str]


class Cluster(BaseModel):
    """All systems and nodes."""

    systems: list[System]
    nodes: list[Node]

    @classmethod
    def of(cls, systems: Sequence[SystemUse], nodes: Sequence[NodeUse]) -> "Cluster":
        """Return the cluster."""
        return cls(
            systems=[
                System(
                    name=use.system.name,
                    is_healthy=use.system.is_healthy,
                    notes=use.system.notes,
                    job=use.holder.id if use.holder else None,
                )
                for use in systems
            ],
            nodes=[
                Node(
                    name=use.node.name,
                    roles=list(use.node.roles),
                    num_cores=use.node.num_cores,
                    memory_bytes=use.node.memory_bytes,
                    cpu_percent=use.load.cpu_percent,
                    memory_percent=use.load.memory_percent,
                    jobs=[job.id for job in use.holders],
                )
                for use in nodes
            ],
        )


class Health(BaseModel):
    """The appliance answers."""

    status: str
