"""What the launcher over several nodes knows of each node and of each job's pods on it."""

from dataclasses import dataclass, field

from appliance.cluster.node_links import NodeLink, NodeView
from appliance.core.ids import PodName, Role
from protos.wsc.v1 import nodes_pb2 as pb


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedPod:
    """A pod that an earlier management launched.

    Attributes:
        node: Where it was placed.
    """

    name: PodName
    role: Role
    node: str


@dataclass(slots=True, kw_only=True)
class PodsOnNode:
    """The pods of one job on one node."""

    roles: dict[PodName, Role]
    pids: dict[PodName, int] = field(default_factory=dict)
    ended: set[PodName] = field(default_factory=set)
    is_launched: bool = False
    is_stopped: bool = False


@dataclass(slots=True, kw_only=True)
class KnownNode:
    """The state of a node."""

    view: NodeView
    link: NodeLink | None
    heard_seconds: float
    beat: pb.NodeBeat = field(default_factory=pb.NodeBeat)
