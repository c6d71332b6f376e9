"""Tensors that the client retains in MemoryX across sessions, by the client's own numbers."""

import threading
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from appliance.coordinator.run.gang import Gang
from appliance.coordinator.run.run_session import Session
from appliance.core.errors import ConflictError, NotFoundError
from appliance.core.ids import Role
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.plans.plan import StateTensor
from appliance.streams.slot_layout import SlotLayout
from appliance.streams.stream_topology import persistent_segment
from appliance.wire.tensor_chunks import output_messages
from protos.wsc.v1 import pods_pb2, pods_pb2_grpc


class _Kept(NamedTuple):
    """A retained tensor, and the shard of MemoryX that has it."""

    tensor: StateTensor
    shard: int


class PersistentTensors:
    """The persistent tensors of a job; their values are MemoryX's.

    Args:
        gang: The job's pods.
    """

    def __init__(self, gang: Gang) -> None:
        self._gang = gang
        self._tensors: dict[int, _Kept] = {}
        self._lock = threading.Lock()

    def move(self, session: Session, name: str, number: int) -> None:
        """Retain a state tensor's present value under a number."""
        kept = _Kept(session.ingress.tensor(name), session.shard_of(name))
        self._ask("MoveToPersistent", session, kept.shard, name, number)
        with self._lock:
            self._tensors[number] = kept

    def carry_over(self, session: Session, name: str, number: int, *, keep: bool) -> None:
        """Give a state tensor of the loaded session a persistent tensor's value.

        This program's tensor may be on another shard than the one that kept the value.

        Raises:
            NotFoundError: There is no tensor of that number.
            ConflictError: It has another type.
        """
        kept, needed = self._find(number), session.ingress.tensor(name)
        if kept.tensor.type != needed.type:
            raise ConflictError(
                f"Tensor {name!r} is {needed.type} in this program, but {kept.tensor.type} was "
                "kept for it."
            )
        if session.shard_of(name) == kept.shard:
            self._ask("CarryOver", session, kept.shard, name, number)
        else:
            session.ingress.take(name, self._exposed(session, kept, number))
        if not keep:
            self.delete(session, number)

    def delete(self, session: Session, number: int) -> None:
        """Forget a tensor; one that is not there needs no forgetting."""
        with self._lock:
            kept = self._tensors.pop(number, None)
        if kept is not None:
            name = kept.tensor.resource_name
            self._ask("DeletePersistent", session, kept.shard, name, number)

    def fetch(self, session: Session, number: int, *, keep: bool) -> Iterator[bytes]:
        """Yield a tensor in encoded messages.

        Raises:
            NotFoundError: There is no tensor of that number.
        """
        kept = self._find(number)
        values = self._exposed(session, kept, number)
        yield from output_messages(values, kept.tensor.wire_dtype)
        if not keep:
            self.delete(session, number)

    def _exposed(self, session: Session, kept: _Kept, number: int) -> NDArray[np.generic]:
        """Return a tensor's value as it lies with its shard."""
        name = kept.tensor.resource_name
        reply = self._ask("ExposePersistent", session, kept.shard, name, number)
        type_ = TensorType(tuple(reply.shape), DType(reply.dtype))
        layout = SlotLayout.of([(name, type_)])
        return layout.items[0].view(session.attach(kept.shard, persistent_segment(number)))

    def _find(self, number: int) -> _Kept:
        with self._lock:
            if number not in self._tensors:
                raise NotFoundError(f"The job keeps no tensor under number {number}.")
            return self._tensors[number]

    def _ask(
        self, method: str, session: Session, shard: int, name: str, number: int
    ) -> pods_pb2.PersistentReply:
        request = pods_pb2.PersistentTensor(
            session=session.number, resource_name=name, persistent_id=number
        )
        return self._gang.ask(
            (Role.WEIGHT, shard),
            pods_pb2_grpc.MemoryXStub,
            method,
            request,
            pods_pb2.PersistentReply,
        )
