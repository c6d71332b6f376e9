"""Which pods read a ring for others: what crosses to another node crosses once for all its readers.

A ring may have several readers on a node that its writer is not on. The first of them, in the order
that writer and readers know alike, receives it and serves what arrives to the others in shared
memory; to the writer they are one reader.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from appliance.core.pods.pod_spec import PodSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """How a ring of another node reaches the readers on this one.

    Attributes:
        first: Member that receives it.
        num_readers: Readers on this node, that one among them.
    """

    first: str
    num_readers: int

    @property
    def stream(self) -> str:
        """Name of the stream in which the first one serves it."""
        return f"relay-{self.first}"


def relay_of(spec: PodSpec, readers: Sequence[str]) -> Relay:
    """Return how a ring of another node reaches a pod.

    Args:
        spec: The pod, which reads the ring.
        readers: Members that read it; none stands for the pod alone.
    """
    here = [member for member in readers if not spec.is_elsewhere(member)] or [spec.member]
    return Relay(first=here[0], num_readers=len(here))


def num_readers(spec: PodSpec, readers: Sequence[str]) -> int:
    """Return how many readers a ring has for the pod that writes it.

    Args:
        readers: Members that read the ring.
    """
    far = [member for member in readers if spec.is_elsewhere(member)]
    return len(readers) - len(far) + len({spec.nodes[member] for member in far})
