"""Tensors that the client keeps in MemoryX from one session to the next, by its own numbers."""

import threading
from collections.abc import Iterator

from appliance.coordinator.gang import Gang
from appliance.coordinator.session import Session
from appliance.core.errors import ConflictError, NotFoundError
from appliance.core.ids import Role
from appliance.core.plan import StateTensor
from appliance.core.tensors import DType, TensorType
from appliance.streams.layout import SlotLayout
from appliance.streams.topology import persistent_segment
from appliance.wire import rtfx
from protos.appliance.rtfx_pb2 import RtFxProto
from protos.wsc.v1 import pods_pb2, pods_pb2_grpc


class PersistentTensors:
    """The persistent tensors of a job; their values are MemoryX's.

    Args:
        gang: The job's pods.
    """

    def __init__(self, gang: Gang) -> None:
        self._gang = gang
        self._tensors: dict[int, StateTensor] = {}
        self._lock = threading.Lock()

    def move(self, session: Session, name: str, number: int) -> None:
        """Keep a state tensor's present value under a number."""
        tensor = session.ingress.tensor(name)
        self._ask("MoveToPersistent", session, name, number)
        with self._lock:
            self._tensors[number] = tensor

    def carry_over(self, session: Session, name: str, number: int, *, keep: bool) -> None:
        """Give a state tensor of the loaded session a persistent tensor's value.

        Raises:
            NotFoundError: There is no tensor of that number.
            ConflictError: It has another type.
        """
        kept, needed = self._find(number), session.ingress.tensor(name)
        if kept.type != needed.type:
            raise ConflictError(
                f"Tensor {name!r} is {needed.type} in this program, but {kept.type} was kept for "
                "it."
            )
        self._ask("CarryOver", session, name, number)
        if not keep:
            self.delete(session, number)

    def delete(self, session: Session, number: int) -> None:
        """Forget a tensor; one that is not there needs no forgetting."""
        with self._lock:
            tensor = self._tensors.pop(number, None)
        if tensor is not None:
            self._ask("DeletePersistent", session, tensor.resource_name, number)

    def fetch(self, session: Session, number: int, *, keep: bool) -> Iterator[RtFxProto]:
        """Yield a tensor in messages.

        Raises:
            NotFoundError: There is no tensor of that number.
        """
        tensor = self._find(number)
        reply = self._ask("ExposePersistent", session, tensor.resource_name, number)
        type_ = TensorType(tuple(reply.shape), DType(reply.dtype))
        layout = SlotLayout.of([(tensor.resource_name, type_)])
        values = layout.items[0].view(session.attach(persistent_segment(number)))
        yield from rtfx.messages(values, tensor.wire_dtype)
        if not keep:
            self.delete(session, number)

    def _find(self, number: int) -> StateTensor:
        with self._lock:
            if number not in self._tensors:
                raise NotFoundError(f"The job keeps no tensor under number {number}.")
            return self._tensors[number]

    def _ask(
        self, method: str, session: Session, name: str, number: int
    ) -> pods_pb2.PersistentReply:
        request = pods_pb2.PersistentTensor(
            session=session.number, resource_name=name, persistent_id=number
        )
        return self._gang.ask(
            (Role.WEIGHT, 0),
            pods_pb2_grpc.MemoryXStub,
            method,
            request,
            pods_pb2.PersistentReply,
        )
