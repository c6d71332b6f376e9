"""A system's share of the batch computed in micro-batches: their order and their samples.

A micro-batch is treated like a system: a contiguous part of the batch, whose partial sums are added
to those of all the others. So a plan runs in micro-batches without change; only the order of layer
steps differs. All layer steps of a *segment* are run for one micro-batch, then for the next. A
segment ends between a layer step whose sums are waited for (batch statistics, the number of labels
that count) and the one that loads what comes of them, because such a value exists only after the
segment's last micro-batch. It ends as early as that is possible, since what a later segment reads
stays resident for every micro-batch.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from appliance.core.errors import UserError
from appliance.core.ir.sharding import BatchShard, split_batch
from appliance.core.plans.plan import STEP_START, Execution, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class WaferLimits:
    """What a program may use of one system's wafer.

    Attributes:
        wafer_bytes: Memory for activations; None sets no limit.
        micro_batch_size: Samples that the user wants computed at a time; None leaves it to the
            compiler, which takes as many as fit.
        may_split: Whether a share that does not fit may be computed in micro-batches.
        execution: How the wafer is used; None leaves it to the compiler.
    """

    wafer_bytes: int | None = None
    micro_batch_size: int | None = None
    may_split: bool = True
    execution: Execution | None = Execution.WEIGHT_STREAMING

    def __post_init__(self) -> None:
        if self.micro_batch_size is not None and self.micro_batch_size < 1:
            raise UserError(
                f"A micro-batch of {self.micro_batch_size} samples is not possible; 1 is the least."
            )


UNLIMITED = WaferLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One layer step run for one micro-batch.

    Attributes:
        layer_step: Its index.
        micro_batch: Number of the micro-batch, from 0.
        is_first: Whether it is the layer step's first visit in the step.
        is_last: Whether it is the last one, after which the layer step's sums are complete.
    """

    layer_step: int
    micro_batch: int
    is_first: bool
    is_last: bool


def num_micro_batches(plan: Plan, num_systems: int) -> int:
    """Return in how many micro-batches every system computes its share."""
    share = split_batch(plan.batch_size, num_systems)[0].size
    if plan.micro_batch_size is None:
        return 1
    return -(-share // plan.micro_batch_size)


def split_share(shard: BatchShard, count: int) -> tuple[BatchShard, ...]:
    """Split a system's share into micro-batches as evenly as possible.

    The largest share decides on the number, so the last ones of a smaller share may be empty.
    """
    base, extra = divmod(shard.size, count)
    sizes = [base + (index < extra) for index in range(count)]
    return tuple(
        BatchShard(batch_size=shard.batch_size, offset=shard.offset + sum(sizes[:index]), size=size)
        for index, size in enumerate(sizes)
    )


def segments(plan: Plan) -> tuple[range, ...]:
    """Return the layer steps of each segment, in order; as few segments as possible."""
    available = _available_after(plan)
    waits = {
        (available.get(name, STEP_START), index)
        for index, step in enumerate(plan.layer_steps)
        for name in step.loads
    }
    starts = [len(plan.layer_steps)]
    for after, index in sorted(waits, reverse=True):
        if after != STEP_START and starts[-1] > index:
            starts.append(after + 1)
    return tuple(range(start, end) for start, end in pairwise([0, *reversed(starts)]))


def visits(plan: Plan, num_systems: int) -> tuple[Visit, ...]:
    """Return what every CS-2 runs in a step, and every pod streams, in order."""
    return tuple(_visits(plan, num_micro_batches(plan, num_systems)))


def _visits(plan: Plan, count: int) -> Iterator[Visit]:
    for segment in segments(plan):
        for micro_batch in range(count):
            for layer_step in segment:
                yield Visit(
                    layer_step=layer_step,
                    micro_batch=micro_batch,
                    is_first=micro_batch == 0,
                    is_last=micro_batch == count - 1,
                )


def _available_after(plan: Plan) -> Mapping[str, int]:
    """Return the layer step after whose sums a value of the update part is there."""
    available = {
        sum_.total: index for index, step in enumerate(plan.layer_steps) for sum_ in step.sums
    }
    for update in plan.updates:
        for node in update.nodes:
            available.update(dict.fromkeys(node.results, update.after))
    return available
