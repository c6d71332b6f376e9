"""How much of the wafer a plan needs, and how many samples are therefore computed at a time.

Counted is what is resident: every value from the node that makes it to the last one that reads
it, be it through a view; constants for the whole step. Not counted is what streams through buffers:
weights and other loads, and partial sums that leave in the layer step that makes them.
Batch-sharded values grow with the micro-batch, except for those that a later segment reads (see
`appliance.core.micro_batches`): they are kept for the whole share.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from appliance.core.attributes import constant
from appliance.core.errors import ProgramError
from appliance.core.graph import Node
from appliance.core.micro_batches import WaferLimits, segments
from appliance.core.ops import VIEW_OPS
from appliance.core.plan import LayerStep, Plan
from appliance.core.sharding import BatchShard, split_batch
from appliance.core.tensors import TensorType

_Bytes = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """A value, and from where to where in the step it is on the wafer.

    Attributes:
        value: Its name.
        first: Position of the node that makes it; nodes are counted through all layer steps.
        last: Position of the last node that reads it.
        bytes_per_sample: What it takes for each sample.
        fixed_bytes: What it takes whatever the samples.
        is_kept: Whether it is there for the whole share and not for one micro-batch.
    """

    value: str
    first: int
    last: int
    bytes_per_sample: int
    fixed_bytes: int
    is_kept: bool

    def num_bytes(self, micro_batch: int, share: int) -> int:
        """Return what it takes when so many samples of a share are computed at a time."""
        samples = share if self.is_kept else micro_batch
        return self.bytes_per_sample * samples + self.fixed_bytes


class MemoryNeed:
    """What a plan keeps on the wafer, for any micro-batch.

    Args:
        plan: A verified plan.
    """

    def __init__(self, plan: Plan) -> None:
        self._residents = tuple(_Liveness(plan).residents())
        self._size = 2 + max((resident.last for resident in self._residents), default=0)
        self._growing = self._line(lambda r: 0 if r.is_kept else r.bytes_per_sample)
        self._kept = self._line(lambda r: r.bytes_per_sample if r.is_kept else 0)
        self._fixed = self._line(lambda r: r.fixed_bytes)

    def peak_bytes(self, micro_batch: int, share: int) -> int:
        """Return the most that is resident when so many samples of a share are computed at once."""
        return int(self._line_of(micro_batch, share).max())

    def largest(self, micro_batch: int, share: int) -> Resident:
        """Return what takes the most of that peak."""
        peak = int(self._line_of(micro_batch, share).argmax())
        return max(
            (resident for resident in self._residents if resident.first <= peak <= resident.last),
            key=lambda resident: resident.num_bytes(micro_batch, share),
        )

    def largest_micro_batch(self, share: int, wafer_bytes: int) -> int:
        """Return how many samples of a share fit, at most the share; 0 if not even one does."""
        free = wafer_bytes - self._fixed - self._kept * share
        if free.min() < 0:
            return 0
        grows = self._growing > 0
        return int(np.min(free[grows] // self._growing[grows], initial=share))

    def kept_bytes(self, share: int) -> int:
        """Return the most that is kept for the whole share, however small the micro-batch."""
        return int((self._kept * share).max())

    def _line_of(self, micro_batch: int, share: int) -> _Bytes:
        return self._growing * micro_batch + self._kept * share + self._fixed

    def _line(self, size_of: Callable[[Resident], int]) -> _Bytes:
        """Return the bytes that are resident at each position."""
        change = np.zeros(self._size, dtype=np.int64)
        for resident in self._residents:
            change[resident.first] += size_of(resident)
            change[resident.last + 1] -= size_of(resident)
        return np.cumsum(change)


class _Liveness:
    """Follows every value of a plan's wafer part from its making to its last use."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._holder: dict[str, str] = {}
        self._spans: dict[str, tuple[int, int]] = {}
        self._splats: set[str] = set()
        self._streamed: set[str] = set()

    def residents(self) -> Iterator[Resident]:
        """Yield what is resident at some time."""
        if not self._plan.layer_steps:
            return
        ends = self._walk()
        segment_of = [index for index, part in enumerate(segments(self._plan)) for _ in part]

        def segment(position: int) -> int:
            return segment_of[int(np.searchsorted(ends, position, side="right"))]

        for value, (first, last) in self._spans.items():
            if value in self._streamed:
                continue
            is_sharded = value in self._plan.sharded
            num_bytes = _wafer_bytes(self._plan.types[value], is_splat=value in self._splats)
            yield Resident(
                value=value,
                first=first,
                last=last,
                bytes_per_sample=-(-num_bytes // self._plan.batch_size) if is_sharded else 0,
                fixed_bytes=0 if is_sharded else num_bytes,
                is_kept=is_sharded and segment(first) < segment(last),
            )

    def _walk(self) -> list[int]:
        """Find the span of every value; return the position after each layer step."""
        plan, position, ends = self._plan, 0, list[int]()
        for node in plan.wafer_constants:
            self._define(node, 0)
        read = {tensor.value for tensor in plan.inputs}
        self._spans.update(dict.fromkeys(read, (0, 0)))
        for step in plan.layer_steps:
            self._streamed.update(step.loads)
            start = position
            for node in step.nodes:
                for operand in node.operands:
                    self._use(operand, position)
                self._define(node, position)
                position += 1
            self._send(step, start, position)
            # A layer step without nodes takes a position too, so that positions tell them apart.
            position += 1
            ends.append(position)
        for node in plan.wafer_constants:
            for result in node.results:
                self._use(result, max(position - 1, 0))
        return ends

    def _define(self, node: Node, position: int) -> None:
        if node.op in VIEW_OPS and node.operands:
            holder = self._holder.get(node.operands[0], node.operands[0])
            self._holder.update(dict.fromkeys(node.results, holder))
            return
        self._spans.update(dict.fromkeys(node.results, (position, position)))
        if node.op == "Const" and constant(node, "value").is_splat:
            self._splats.update(node.results)

    def _use(self, value: str, position: int) -> None:
        holder = self._holder.get(value, value)
        if holder in self._spans:
            first, _ = self._spans[holder]
            self._spans[holder] = (first, position)

    def _send(self, step: LayerStep, start: int, position: int) -> None:
        """Partial sums leave as they are made; one made earlier stays until it is sent."""
        for sum_ in step.sums:
            holder = self._holder.get(sum_.partial, sum_.partial)
            if holder not in self._spans:
                continue
            if self._spans[holder][0] >= start and holder not in self._plan.sharded:
                self._streamed.add(holder)
            self._use(sum_.partial, position)


def _wafer_bytes(type_: TensorType, *, is_splat: bool) -> int:
    """Return what a value takes: 16-bit formats are 16 bits there, whatever their container."""
    element_bytes = 2 if type_.dtype.is_half else type_.dtype.container.itemsize
    return element_bytes * (1 if is_splat else type_.num_elements)


def limit_memory(plan: Plan, *, num_systems: int, limits: WaferLimits) -> Plan:
    """Return a plan with the micro-batch in which every system's share fits.

    Args:
        plan: A verified plan.
        num_systems: Systems that share the batch.
        limits: The wafer's memory and the user's wishes.

    Raises:
        ProgramError: It does not fit; the message names the largest tensor.
    """
    share = split_batch(plan.batch_size, num_systems)[0].size
    wanted = min(limits.micro_batch_size or share, share)
    if limits.wafer_bytes is not None:
        need = MemoryNeed(plan)
        most = need.largest_micro_batch(share, limits.wafer_bytes)
        if most < 1:
            raise _does_not_fit(plan, need, share, limits.wafer_bytes)
        if wanted > most and (limits.micro_batch_size is not None or not limits.may_split):
            raise _too_large(need, wanted, share, most, limits)
        wanted = min(wanted, most)
    return plan if wanted == share else replace(plan, micro_batch_size=wanted)


def _does_not_fit(plan: Plan, need: MemoryNeed, share: int, wafer_bytes: int) -> ProgramError:
    largest = need.largest(1, share)
    samples = share if largest.is_kept else 1
    shard = BatchShard(batch_size=plan.batch_size, offset=0, size=samples)
    type_ = shard.local_type(plan.types[largest.value], plan.sharded.get(largest.value))
    kept = need.kept_bytes(share)
    if kept > wafer_bytes // 2:
        hint = (
            f"{kept:,} bytes wait for statistics of the whole batch: use more systems or a "
            "smaller batch."
        )
    else:
        hint = "Lower the sequence length, the hidden size or the number of layers."
    return ProgramError(
        f"One sample at a time needs {need.peak_bytes(1, share):,} bytes of wafer memory; one "
        f"system has {wafer_bytes:,}. The largest tensor is %{largest.value}, {type_} with "
        f"{largest.num_bytes(1, share):,} bytes, {_origin(plan, largest.value)}.",
        hint=hint,
    )


def _too_large(
    need: MemoryNeed, wanted: int, share: int, most: int, limits: WaferLimits
) -> ProgramError:
    return ProgramError(
        f"A micro-batch of {wanted} samples needs {need.peak_bytes(wanted, share):,} bytes of "
        f"wafer memory; one system has {limits.wafer_bytes:,}.",
        hint=f'Set micro_batch_size to {most} or less, or to "auto".',
    )


def _origin(plan: Plan, value: str) -> str:
    for tensor in plan.inputs:
        if tensor.value == value:
            return f"the batch tensor {tensor.input_name!r}"
    nodes = [*plan.wafer_constants, *(node for step in plan.layer_steps for node in step.nodes)]
    node = next(node for node in nodes if value in node.results)
    return f"made by {node.op} in {node.location}"
