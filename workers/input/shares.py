"""Which part of every batch a system gets, from which worker, in which order. Pure.

The client's streamer decides which samples a worker yields, given the sizes of all systems' shares;
this module does the rest. Batch k of a system comes from the worker with local rank k % W.
"""

from dataclasses import dataclass

from appliance.core.ir.sharding import BatchShard, split_batch
from appliance.core.ir.tensors import DType, TensorType
from appliance.streams.slot_layout import SlotLayout
from protos.wsc.v1.pods_pb2 import LoadRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTensor:
    """A batch tensor.

    Attributes:
        name: The client's name, as in `input_0`.
        type: As computed with, global batch first.
        wire_dtype: Element type in which the streamer delivers it.
    """

    name: str
    type: TensorType
    wire_dtype: DType


@dataclass(frozen=True, slots=True, kw_only=True)
class InputPlan:
    """What the input pods of one session deliver.

    Attributes:
        tensors: Batch tensors, in slot order.
        shards: Each system's part of the batch.
        workers_per_system: Workers that take turns for each system.
        first_batch: Batches that earlier sessions took from this dataloader.
    """

    tensors: tuple[InputTensor, ...]
    shards: tuple[BatchShard, ...]
    workers_per_system: int
    first_batch: int

    def layout(self, system: int) -> SlotLayout:
        """Return where a system's share of each tensor lies in a slot."""
        shard = self.shards[system]
        return SlotLayout.of((t.name, shard.local_type(t.type, 0)) for t in self.tensors)

    def wire_types(self, system: int) -> tuple[TensorType, ...]:
        """Return the types of a system's share as the streamer delivers them."""
        shard = self.shards[system]
        return tuple(
            TensorType(shard.local_type(t.type, 0).shape, t.wire_dtype) for t in self.tensors
        )

    def local_rank(self, step: int) -> int:
        """Return which of a system's workers feeds a step (0-based)."""
        return (self.first_batch + step) % self.workers_per_system

    def num_batches(self, local_rank: int, num_steps: int) -> int:
        """Return how many batches a worker delivers in a session of so many steps."""
        first = (local_rank - self.first_batch) % self.workers_per_system
        return len(range(first, num_steps, self.workers_per_system))


def input_plan(request: LoadRequest) -> InputPlan:
    """Return what a load request asks of the input pods."""
    tensors = tuple(
        InputTensor(
            name=tensor.input_name,
            type=TensorType(tuple(tensor.shape), DType(tensor.dtype)),
            wire_dtype=DType(tensor.wire_dtype),
        )
        for tensor in request.batch_tensors
    )
    return InputPlan(
        tensors=tensors,
        shards=split_batch(request.batch_size, request.num_systems),
        workers_per_system=request.workers_per_system,
        first_batch=request.first_batch,
    )
