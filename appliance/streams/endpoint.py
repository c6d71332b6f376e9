"""A pod's end of all its streams: shared memory on its own node, the network to others.

What a pod serves is served both ways; which way a reader comes follows from where the two pods run
(`PodSpec.hosts`). The network always ends in a ring in shared memory, filled
by a thread of the reading pod, so whoever reads or writes cannot tell the difference.
"""

import threading
from collections.abc import Callable, Mapping, Sequence

from appliance.core.clock import Clock
from appliance.core.errors import InternalError
from appliance.core.pods.pod_spec import PodSpec, stream_address
from appliance.streams.network.options import NetworkOptions
from appliance.streams.network.receiver import Receiver, Target
from appliance.streams.network.relays import num_readers, relay_of
from appliance.streams.network.remote_store import NetworkStoreClient, StoreService
from appliance.streams.network.scatter import Scatter
from appliance.streams.network.sender import RingService
from appliance.streams.network.server import NetworkServer
from appliance.streams.network.tunnel import CONTROL, TunnelService
from appliance.streams.protocol import Store
from appliance.streams.ring_reader import SharedMemoryRingReader
from appliance.streams.ring_writer import SharedMemoryRingWriter
from appliance.streams.shared_memory import connect_ring, local_ring, serve_ring
from appliance.streams.store import StoreServer, attach_store
from appliance.streams.stream_topology import writer_of

CONNECT_SECONDS = 10.0
"""Every stream is served since `Load`; only a dead or stopped pod keeps anyone waiting so long."""

_DRAIN_SECONDS = 5.0
_RELAY_SECONDS = 30.0
"""A relay is served once its pod has connected to the writer, which may take as long as it may."""


def network_options(spec: PodSpec) -> NetworkOptions:
    """Return what a pod's spec says of the network between nodes."""
    options = spec.options
    return NetworkOptions(
        host=options.stream_host or NetworkOptions().host,
        key=options.stream_key.encode(),
        identity=options.stream_identity,
    )


class StreamEndpoint:
    """Serves a pod's streams and connects to those of others.

    Args:
        spec: The pod, and which pod runs on which node.
        on_failure: Told, from any thread, that a stream to another node cannot go on.
    """

    def __init__(
        self, spec: PodSpec, *, clock: Clock, on_failure: Callable[[Exception], None]
    ) -> None:
        self._spec, self._clock, self._on_failure = spec, clock, on_failure
        self._addresses: Mapping[str, str] = {}
        self._options = network_options(spec)
        self._server: NetworkServer | None = None
        self._rings: dict[str, RingService] = {}
        self._lock = threading.Lock()

    def listen(self) -> None:
        """Open a port for the pods on other nodes, if there are any.

        Raises:
            ClusterError: This node cannot listen at its address.
        """
        if self._spec.is_networked:
            self._server = NetworkServer(self._options, owner=self._spec.name, clock=self._clock)

    def offer_control(self) -> None:
        """Let pods on other nodes reach this one's gRPC services, which are at a Unix socket."""
        if self._server is not None:
            self._server.offer(CONTROL, TunnelService(self._spec.control_address()))

    @property
    def network_address(self) -> str:
        """host:port at which pods on other nodes reach this one; empty if there are none."""
        return "" if self._server is None else self._server.address

    def meet(self, addresses: Mapping[str, str]) -> None:
        """Learn where the job's pods are reached, by member name as in `chief-0`."""
        self._addresses = dict(addresses)

    def address(self, session: int, stream: str) -> str:
        """Return where a stream is served on this node."""
        return stream_address(self._spec.runtime_dir, session, stream)

    def is_remote(self, stream: str) -> bool:
        """Whether the pod that serves a stream runs on another node."""
        return self._spec.is_elsewhere(writer_of(stream))

    def serve_ring(
        self, session: int, stream: str, *, num_slots: int, slot_bytes: int, num_readers: int = 1
    ) -> SharedMemoryRingWriter:
        """Serve a ring under this pod's name; see `appliance.streams.shared_memory.serve_ring`."""
        ring = serve_ring(
            self.address(session, stream),
            name=stream,
            num_slots=num_slots,
            slot_bytes=slot_bytes,
            num_readers=num_readers,
            owner=self._spec.name,
            clock=self._clock,
        )
        if self._server is not None:
            service = RingService(
                ring,
                name=stream,
                options=self._options,
                clock=self._clock,
                on_failure=self._on_failure,
            )
            with self._lock:
                self._rings = {n: known for n, known in self._rings.items() if not known.is_over}
                self._rings[_name(session, stream)] = service
            self._server.offer(_name(session, stream), service)
        return ring

    def connect_ring(
        self,
        session: int,
        stream: str,
        *,
        readers: Sequence[str] = (),
        scatter: Scatter | None = None,
    ) -> SharedMemoryRingReader:
        """Connect to a ring under this pod's name.

        Args:
            session: Number of the session.
            stream: Name of the ring.
            readers: Members that read it, if several do; on another node than its writer's they
                get it together (`relays`).
            scatter: What goes beside the slots where the ring comes from another node, the same for
                all these readers; the reader's `area` is empty where it does not.

        Raises:
            StreamClosedError: Nobody served the ring in time, or the writer refused.
        """
        if not self.is_remote(stream):
            return self._connect_here(session, stream, CONNECT_SECONDS)
        relay = relay_of(self._spec, readers)
        if relay.first != self._spec.member:
            return self._connect_here(session, relay.stream, _RELAY_SECONDS)
        receiver = Receiver(
            self._target(session, stream),
            options=self._options,
            clock=self._clock,
            scatter=scatter,
        )
        measures = receiver.connect(CONNECT_SECONDS)
        num_slots = int(measures["num_slots"])
        if scatter is not None and num_slots > scatter.num_slots:
            receiver.close()
            raise InternalError(
                f"Stream {stream!r} has {num_slots} slots; {self._spec.name} expects at most "
                f"{scatter.num_slots}."
            )
        is_alone = relay.num_readers == 1
        writer, reader = local_ring(
            None if is_alone else self.address(session, relay.stream),
            name=stream if is_alone else relay.stream,
            num_slots=num_slots,
            slot_bytes=int(measures["slot_bytes"]),
            num_readers=relay.num_readers,
            owner=str(measures["label"]) if is_alone else self._spec.name,
            reader=self._spec.name,
            clock=self._clock,
            on_close=receiver.close,
            area_bytes=0 if scatter is None else scatter.area_bytes,
        )
        receiver.start(writer, self._on_failure)
        return reader

    def _connect_here(
        self, session: int, stream: str, timeout_seconds: float
    ) -> SharedMemoryRingReader:
        return connect_ring(
            self.address(session, stream),
            name=stream,
            timeout_seconds=timeout_seconds,
            reader=self._spec.name,
            clock=self._clock,
        )

    def num_readers(self, readers: Sequence[str]) -> int:
        """Return how many readers a ring of this pod's has, given the members that read it."""
        return num_readers(self._spec, readers)

    def num_bytes_sent(self, session: int, stream: str) -> int:
        """Return the bytes of a ring of this pod's that have gone to other nodes."""
        with self._lock:
            service = self._rings.get(_name(session, stream))
        return 0 if service is None else service.num_bytes_sent

    def serve_store(self, session: int, stream: str) -> StoreServer:
        """Serve a store under this pod's name."""
        address = self.address(session, stream)
        store = StoreServer(address, owner=self._spec.name, clock=self._clock)
        if self._server is not None:
            self._server.offer(_name(session, stream), StoreService(store, stream))
        return store

    def attach_store(self, session: int, stream: str, *, is_read_only: bool = False) -> Store:
        """Return a client of a store; it connects when it is first used."""
        if self.is_remote(stream):
            return NetworkStoreClient(
                self._target(session, stream), options=self._options, clock=self._clock
            )
        return attach_store(
            self.address(session, stream),
            client=self._spec.name,
            is_read_only=is_read_only,
            clock=self._clock,
        )

    def close(self) -> None:
        """Let the last messages arrive, within a limit, and stop serving other nodes."""
        for service in self._rings.values():
            service.join(_DRAIN_SECONDS)
        if self._server is not None:
            self._server.close()

    def _target(self, session: int, stream: str) -> Target:
        writer = writer_of(stream)
        if writer not in self._addresses:
            raise InternalError(
                f"{self._spec.name} does not know where {writer} serves stream {stream!r}; "
                f"{len(self._addresses)} addresses are known."
            )
        return Target(
            name=_name(session, stream), address=self._addresses[writer], label=self._spec.name
        )


def _name(session: int, stream: str) -> str:
    return f"{session}/{stream}"
