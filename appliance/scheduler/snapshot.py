"""What the scheduler sees of the cluster at one moment."""

from dataclasses import dataclass

from appliance.core.ids import JobId
from appliance.core.jobs import JobType
from appliance.core.systems import Node, System


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a running job holds.

    Attributes:
        job: The job.
        type: Its type.
        systems: Names of its systems; empty for a compile job.
    """

    job: JobId
    type: JobType
    systems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """Systems, nodes and who holds what.

    Attributes:
        systems: All systems, in the order in which they are granted.
        nodes: All CPU nodes.
        grants: One for each job that holds resources.
    """

    systems: tuple[System, ...]
    nodes: tuple[Node, ...] = ()
    grants: tuple[Grant, ...] = ()

    def free_systems(self) -> tuple[System, ...]:
        """Return the healthy systems that no job holds."""
        held = {name for grant in self.grants for name in grant.systems}
        return tuple(s for s in self.systems if s.is_healthy and s.name not in held)

    def with_grant(self, grant: Grant) -> "ClusterSnapshot":
        """Return the snapshot after one more job got its resources."""
        return ClusterSnapshot(systems=self.systems, nodes=self.nodes, grants=(*self.grants, grant))
