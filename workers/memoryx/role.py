"""A weight pod: sessions over the store of one shard, and persistent tensors that outlive them.

State and snapshots of a session stay in memory, and its store is served, until the next session is
loaded: the coordinator may fetch or move tensors after the steps have ended.
"""

import os
import threading

import grpc

from appliance.core.errors import ConflictError, WscError
from appliance.core.plans.plan import verify
from appliance.core.plans.plan_text import parse_plan
from appliance.core.plans.shard_plans import shard_plans
from appliance.core.plans.sparse.as_executed import as_executed
from appliance.core.pods.pod_options import WeightPodOptions
from appliance.pods.allocator import return_freed_memory
from appliance.pods.role_context import PodContext
from appliance.streams.stream_topology import store
from protos.wsc.v1 import pods_pb2, pods_pb2_grpc
from workers.memoryx.on_disk.backing import choose_backing, memory_limit
from workers.memoryx.persistent import PersistentTensors
from workers.memoryx.session import SessionSteps, WeightSession
from workers.memoryx.tensor_store import TensorStore, tensor_bytes

"""Weight pods of the job on this pod's node, which share its memory."""

_RETURNED_BYTES = 1 << 20
"""From which size on freed blocks are given back where memory is scarce."""


class WeightRole:
    """The role of a weight pod; see `appliance.pods.pod_sessions.PodRole`."""

    def __init__(self, context: PodContext) -> None:
        self._context = context
        options = context.spec.options_of(WeightPodOptions)
        self._num_threads = options.torch_threads or max(1, (os.cpu_count() or 1) // 2)
        self._limit_bytes, self._num_alike = options.memory_bytes, options.pods_here
        self._lock = threading.Lock()
        self._number = 0
        self._store: TensorStore | None = None
        self._session: WeightSession | None = None
        self.persistent = PersistentTensors()

    def load(self, request: pods_pb2.LoadRequest) -> WeightSession:
        """Create the store and the streams of a session."""
        plan = parse_plan(request.plan.decode())
        verify(plan)
        plan = as_executed(plan, request.num_shards or 1)
        index = self._context.spec.index
        shard = shard_plans(plan, request.num_shards or 1)[index]
        with self._lock:
            self._drop_store()
            server = self._context.serve_store(request.session, store(index))
            backing = choose_backing(
                tensor_bytes(shard.plan),
                limit_bytes=(self._limit_bytes or memory_limit()) // self._num_alike,
                directory=self._context.spec.work_dir,
            )
            if backing.is_on_disk:
                return_freed_memory(_RETURNED_BYTES)
            try:
                self._store = TensorStore(shard.plan, server, backing)
            except WscError:
                server.close()
                raise
            self._number = request.session
            self._session = WeightSession(
                self._context,
                number=request.session,
                shard=shard,
                steps=SessionSteps.of(plan, request.num_systems, request.num_shards or 1),
                store=self._store,
                num_threads=self._num_threads,
            )
            return self._session

    def add_services(self, server: grpc.Server) -> None:
        """Serve `wsc.v1.MemoryX`."""
        pods_pb2_grpc.add_MemoryXServicer_to_server(MemoryXServicer(self), server)

    def store_of(self, session: int) -> TensorStore:
        """Return a session's store.

        Raises:
            ConflictError: Another session, or none, was loaded last.
        """
        with self._lock:
            if self._store is None or self._number != session:
                raise ConflictError(
                    f"{self._context.spec.name} was asked for session {session} but holds the "
                    f"tensors of session {self._number}."
                )
            return self._store

    def wait_until_idle(self) -> None:
        """Wait until no step changes the state any more."""
        session = self._session
        if session is not None:
            session.wait_until_idle()

    def close(self) -> None:
        """Stop serving the store."""
        with self._lock:
            self._drop_store()

    def _drop_store(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = self._session = None


class MemoryXServicer(pods_pb2_grpc.MemoryXServicer):
    """Serves `wsc.v1.MemoryX`.

    Args:
        role: The pod's role.
    """

    def __init__(self, role: WeightRole) -> None:
        self._role = role

    def CommitIngest(
        self, request: pods_pb2.CommitIngestRequest, context: grpc.ServicerContext
    ) -> pods_pb2.CommitIngestReply:
        """Note which state tensors the coordinator has written into the store."""
        store = self._role.store_of(request.session)
        num_missing = store.commit_ingest(list(request.resource_names))
        return pods_pb2.CommitIngestReply(num_missing=num_missing)

    def CountNonzeros(
        self, request: pods_pb2.CountNonzerosRequest, context: grpc.ServicerContext
    ) -> pods_pb2.CountNonzerosReply:
        """Count the elements of state tensors that are not zero."""
        store = self._role.store_of(request.session)
        counts = [store.num_nonzeros(name) for name in request.resource_names]
        return pods_pb2.CountNonzerosReply(counts=counts)

    def MoveToPersistent(
        self, request: pods_pb2.PersistentTensor, context: grpc.ServicerContext
    ) -> pods_pb2.PersistentReply:
        """Store a state tensor's value for later sessions, once the steps have ended."""
        store = self._role.store_of(request.session)
        self._role.wait_until_idle()
        item = store.item(request.resource_name)
        value, sums = store.checked(request.resource_name)
        self._role.persistent.keep(request.persistent_id, item.type, value, sums)
        return pods_pb2.PersistentReply()

    def CarryOver(
        self, request: pods_pb2.PersistentTensor, context: grpc.ServicerContext
    ) -> pods_pb2.PersistentReply:
        """Give a state tensor the value of a persistent tensor."""
        store = self._role.store_of(request.session)
        item = store.item(request.resource_name)
        value = self._role.persistent.of_type(request.persistent_id, item.type)
        store.write(request.resource_name, value)
        return pods_pb2.PersistentReply()

    def DeletePersistent(
        self, request: pods_pb2.PersistentTensor, context: grpc.ServicerContext
    ) -> pods_pb2.PersistentReply:
        """Forget a persistent tensor."""
        self._role.persistent.delete(request.persistent_id)
        return pods_pb2.PersistentReply()

    def ExposePersistent(
        self, request: pods_pb2.PersistentTensor, context: grpc.ServicerContext
    ) -> pods_pb2.PersistentReply:
        """Put a persistent tensor where store clients can attach it."""
        store = self._role.store_of(request.session)
        type_, value = self._role.persistent.get(request.persistent_id)
        store.expose(request.persistent_id, request.resource_name, type_, value)
        return pods_pb2.PersistentReply(dtype=type_.dtype.value, shape=type_.shape)

    def LocateSnapshot(
        self, request: pods_pb2.LocateSnapshotRequest, context: grpc.ServicerContext
    ) -> pods_pb2.LocateSnapshotReply:
        """Say where a state tensor's value after a checkpoint step can be read."""
        store = self._role.store_of(request.session)
        segment = store.locate(request.resource_name, request.step)
        return pods_pb2.LocateSnapshotReply(segment=segment)

    def ReleaseSnapshot(
        self, request: pods_pb2.ReleaseSnapshotRequest, context: grpc.ServicerContext
    ) -> pods_pb2.ReleaseSnapshotReply:
        """Drop the snapshot of a checkpoint step."""
        self._role.store_of(request.session).snapshots.release(request.step)
        return pods_pb2.ReleaseSnapshotReply()
