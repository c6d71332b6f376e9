"""The nodes of an appliance whose pods run on several: their launcher, listener and load."""

from collections.abc import Callable, Mapping
from pathlib import Path

from appliance.cluster.agents import AgentLauncher, AgentsOptions
from appliance.cluster.known_nodes import ExpectedPod
from appliance.cluster.node_cores import NodeCores
from appliance.cluster.nodes_servicer import NodesServicer
from appliance.core.clock import Clock
from appliance.core.cluster.jobs import Phase
from appliance.core.cluster.records import JobRecord
from appliance.core.cluster.systems import ClusterDescription
from appliance.core.ids import JobId
from appliance.management.access.join_tokens import JoinTokens
from appliance.management.cluster.node_listener import NodeListener
from appliance.management.cluster.pod_placement import place_pods
from appliance.management.store.state import State
from appliance.wire.resources import NodeLoad


class NodePool:
    """Nodes that join by themselves.

    Args:
        data_dir: The appliance's data directory.
        runtime_root: Its directory for sockets.
        identity: File with the identity for encrypted streams; None for plain ones.
        grace_seconds: How long a node may be away before its pods count as lost.
        takes_loopback: Whether nodes may be on management's own machine, known by its loopback.
    """

    def __init__(
        self,
        data_dir: Path,
        runtime_root: Path,
        *,
        identity: Path | None,
        grace_seconds: float,
        takes_loopback: bool,
        clock: Clock,
    ) -> None:
        self._tokens = JoinTokens(data_dir, clock)
        self._socket = runtime_root / "nodes.sock"
        self._clock = clock
        self._listener: NodeListener | None = None
        options = AgentsOptions(
            runtime_root=runtime_root,
            stream_identity=b"" if identity is None else identity.read_bytes(),
            grace_seconds=grace_seconds,
            takes_loopback=takes_loopback,
        )
        self._listeners: list[Callable[[], None]] = []
        self.launcher = AgentLauncher(options, clock, self._changed)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call a listener when a node has joined or left, in any thread."""
        self._listeners.append(listener)

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()

    def open(self, host: str, port: int) -> str:
        """Let agents join; return host:port at which they do.

        Args:
            host: An address of this node, or a name of it by which nodes know it.
            port: Where; 0 for any free port.

        Raises:
            ClusterError: This node cannot listen there.
        """
        self._listener = NodeListener(
            host,
            port,
            socket=str(self._socket),
            servicer=NodesServicer(self.launcher),
            tokens=self._tokens,
            clock=self._clock,
        )
        return self._listener.address

    def resume(self, state: State) -> None:
        """Wait for the nodes that had pods under an earlier management, within the grace time."""
        jobs = [job for job in state.jobs.unfinished() if job.phase.holds_resources]
        launched: dict[JobId, list[ExpectedPod]] = {}
        for job in jobs:
            pods = state.pods.of_job(job.id)
            if any(pod.node for pod in pods):
                launched[job.id] = [
                    ExpectedPod(name=pod.name, role=pod.role, node=pod.node) for pod in pods
                ]
        launching = [job.id for job in jobs if job.phase is Phase.SCHEDULED]
        self.launcher.resume(launched, launching)

    def place(self, job: JobRecord, cluster: ClusterDescription) -> Mapping[str, str]:
        """Return the node of each pod of a job; raises `ClusterError` if one is missing."""
        return place_pods(job, cluster, self.launcher.nodes())

    def cores(self) -> Mapping[str, NodeCores]:
        """Return the CPU cores of each node."""
        return {view.name: view.cores for view in self.launcher.nodes()}

    def load_of(self, name: str) -> NodeLoad:
        """Return how busy a node is."""
        cpu, memory = self.launcher.load(name)
        return NodeLoad(cpu_percent=cpu, memory_percent=memory)

    def close(self) -> None:
        """Hang up on every agent."""
        if self._listener is not None:
            self._listener.close()
