"""A system's share computed in micro-batches: an executor for each, fed with its slice.

A micro-batch without samples (the share of another system is larger) computes nothing and sends
zeros.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from appliance.core.ir.sharding import BatchShard
from appliance.core.ir.tensors import TensorType
from appliance.core.plans.micro_batches import Visit, split_share
from appliance.core.plans.plan import Plan
from appliance.core.pods.pod_options import StreamMode
from appliance.streams.torch_views import Tensors
from workers.csx.executor import Executor
from workers.csx.generation.loop_executor import LoopExecutor
from workers.csx.generation.loop_program import LoopProgram, has_loop, loop_program
from workers.csx.generation.stage import KeptLoads
from workers.csx.sparse_forms import NO_FORMS, SparseForms
from workers.csx.wafer_program import WaferProgram, are_computed_alike, wafer_part

Part = WaferProgram | LoopProgram


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareProgram:
    """The part of a plan's wafer part that one system needs, micro-batch by micro-batch.

    Attributes:
        types: Type of each batch tensor for the global batch, by value name.
        share: The system's share of the batch.
        shards: The micro-batches' parts of it.
        parts: The wafer part of each micro-batch, None where it has no samples; one object for
            those that are computed alike.
    """

    types: Mapping[str, TensorType]
    share: BatchShard
    shards: tuple[BatchShard, ...]
    parts: tuple[Part | None, ...]


def share_parts(
    plan: Plan,
    share: BatchShard,
    *,
    count: int,
    num_strands: int = 1,
    mode: StreamMode = StreamMode.RING,
    forms: SparseForms = NO_FORMS,
) -> tuple[ShareProgram, ...]:
    """Return the parts that a system needs for each of its strands.

    Args:
        plan: A verified plan.
        share: The system's share of the batch.
        count: Number of micro-batches.
        num_strands: Number of strands, which divide every micro-batch.
        mode: How layer steps get what they load.
        forms: Which loads come, and which sums go, as non-zeros.
    """
    by_micro_batch = [split_share(shard, num_strands) for shard in split_share(share, count)]
    by_strand = tuple(zip(*by_micro_batch, strict=True))
    parts = _parts(plan, [shard for shards in by_strand for shard in shards], mode, forms)
    return tuple(
        ShareProgram(
            types={tensor.value: tensor.type for tensor in plan.inputs},
            share=share,
            shards=shards,
            parts=tuple(itertools.islice(parts, count)),
        )
        for shards in by_strand
    )


class MicroBatches:
    """The wafer part of a plan for one system, in any number of micro-batches.

    Args:
        part: The wafer part.
        device: Where to compute; None is the processor.
        kept: What a loop over positions keeps of loads, for all strands.
    """

    def __init__(
        self,
        part: ShareProgram,
        device: torch.device | None = None,
        kept: KeptLoads | None = None,
    ) -> None:
        self._types, self._share, self._shards = part.types, part.share, part.shards
        self._executors = tuple(_executors(part.parts, device, kept))

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

    def generated(self) -> tuple[tuple[frozenset[int], ...], int] | None:
        """Return the positions of each micro-batch's passes in this step, and the tokens made.

        None for a program without a loop over positions.
        """
        loops = [each for each in self._executors if isinstance(each, LoopExecutor)]
        if not loops:
            return None
        return tuple(loop.positions for loop in loops), sum(loop.num_tokens for loop in loops)

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


def _parts(
    plan: Plan, shards: Sequence[BatchShard], mode: StreamMode, forms: SparseForms
) -> Iterator[Part | None]:
    """Yield one for each micro-batch, the same one where nothing differs."""
    made: tuple[Part, BatchShard] | None = None
    is_loop = has_loop(plan)
    for shard in shards:
        if not shard.size:
            yield None
            continue
        if made is None or not are_computed_alike(plan, made[1], shard):
            if is_loop:
                made = (loop_program(plan, shard, mode=mode), shard)
            else:
                made = (wafer_part(plan, shard, forms), shard)
        yield made[0]


def _executors(
    parts: Sequence[Part | None], device: torch.device | None, kept: KeptLoads | None
) -> Iterator[Executor | LoopExecutor | None]:
    """Yield one for each micro-batch; they share programs where they can."""
    made: tuple[Executor | LoopExecutor, Part] | None = None
    for part in parts:
        if part is None:
            yield None
        elif made is not None and made[1] is part:
            yield made[0].twin()
        else:
            made = (_executor(part, device, kept), part)
            yield made[0]


def _executor(
    part: Part, device: torch.device | None, kept: KeptLoads | None
) -> Executor | LoopExecutor:
    if isinstance(part, LoopProgram):
        return LoopExecutor(part, device, kept)
    return Executor(part, device)
