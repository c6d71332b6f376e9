"""A system's share computed in micro-batches: an executor for each, fed with its slice.

A micro-batch without samples (the share of another system is larger) computes nothing and sends
zeros.
"""

from collections.abc import Iterator, Sequence

import torch

from appliance.core.micro_batches import Visit, split_share
from appliance.core.plan import Plan
from appliance.core.sharding import BatchShard
from appliance.streams.torch_views import Tensors
from workers.csx.executor import Executor


class MicroBatches:
    """The wafer part of a plan for one system, in any number of micro-batches.

    Args:
        plan: A verified plan.
        shard: The system's share of the batch.
        count: Number of micro-batches.
    """

    def __init__(self, plan: Plan, shard: BatchShard, *, count: int) -> None:
        self._types = {tensor.value: tensor.type for tensor in plan.inputs}
        self._share = shard
        self._shards = split_share(shard, count)
        self._executors = tuple(_executors(plan, self._shards))

    def activations(self) -> Iterator[torch.Tensor]:
        """Yield the values that are resident now."""
        for executor in self._executors:
            if executor is not None:
                yield from executor.activations.values()

    def begin(self, step: int, batch: Tensors) -> None:
        """Begin a step with the system's share of the batch tensors, by value name."""
        for shard, executor in zip(self._shards, self._executors, strict=True):
            if executor is not None:
                executor.begin(step, self._slices(batch, shard))

    def compute(self, visit: Visit, loads: Tensors, sums: Tensors) -> None:
        """Run one layer step for one micro-batch; see `Executor.compute`."""
        executor = self._executors[visit.micro_batch]
        if executor is not None:
            executor.compute(visit.layer_step, loads, sums)
            return
        for tensor in sums.values():
            tensor.zero_()

    def end(self) -> None:
        """Forget everything of the step."""
        for executor in self._executors:
            if executor is not None:
                executor.end()

    def _slices(self, batch: Tensors, shard: BatchShard) -> Tensors:
        found: Tensors = {}
        for name, tensor in batch.items():
            type_ = self._types[name]
            start = shard.local_start(type_, 0) - self._share.local_start(type_, 0)
            found[name] = tensor.narrow(0, start, shard.local_type(type_, 0).shape[0])
        return found


def _executors(plan: Plan, shards: Sequence[BatchShard]) -> Iterator[Executor | None]:
    """Yield one for each micro-batch; they share programs where they can."""
    made: Executor | None = None
    for shard in shards:
        if not shard.size:
            yield None
            continue
        made = (made.twin(shard) if made is not None else None) or Executor(plan, shard)
        yield made
