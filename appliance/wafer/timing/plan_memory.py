"""What a plan's values take of the wafer: the one definition for compiler, workers and planner.

Counted is what a layer step touches, from the first to the last time it does, views followed to the
value they read. Between layer steps a value waits: beside the computation as long as there is room,
else outside of the wafer. Not counted is what streams through buffers: weights and other loads,
partial sums that leave in the layer step that makes them, and scores of attention, of which rows
are made, used and dropped. Constants are there for the whole step. A value takes what its format in
the program takes, whatever carries it here; one that is zero outside of routed rows takes those.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import accumulate, pairwise

from appliance.core.ir.attributes import constant
from appliance.core.ir.ops import VIEW_OPS
from appliance.core.plans.micro_batches import segments
from appliance.core.plans.plan import Plan
from appliance.wafer.timing.routing import routed_values

READS = VIEW_OPS | {"Reshape", "Cast", "Transpose", "BroadcastInDim"}
"""Operations that are another way to read their operand's elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldValue:
    """A value and where in the step it is.

    Attributes:
        name: Of the value.
        sample_bytes: What it takes for each sample; 0 if it does not grow with the batch.
        fixed_bytes: What it takes otherwise.
        first_step: Layer step that touches it first.
        last_step: Layer step that touches it last.
        waits_for_batch: Whether a later segment touches it, so that all samples of a share wait
            (see `appliance.core.plans.micro_batches`).
    """

    name: str
    sample_bytes: float
    fixed_bytes: float
    first_step: int
    last_step: int
    waits_for_batch: bool

    def waiting_samples(self, share: int) -> int:
        """Return of how many samples it waits when layer steps run side by side."""
        return share if self.waits_for_batch else min(self.last_step - self.first_step, share)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMemory:
    """What a plan takes of one system's wafer.

    Attributes:
        values: What is held at some time, the batch's own values first.
        working_bytes: Most that one layer step touches at a time, for each sample.
        stage_bytes: The same of all layer steps together.
        fixed_bytes: Constants, and the most that does not grow with the batch beside them.
        widest: What is held at the fullest point of the widest layer step.
    """

    values: tuple[HeldValue, ...]
    working_bytes: float
    stage_bytes: float
    fixed_bytes: float
    widest: tuple[HeldValue, ...]

    @property
    def boundary_bytes(self) -> float:
        """What outlives its layer step, for each sample."""
        return sum(held.sample_bytes for held in self.values if held.first_step < held.last_step)

    @property
    def largest(self) -> HeldValue | None:
        """What takes most for one sample where the step is widest; None if there is nothing."""
        return max(self.widest, key=lambda held: held.sample_bytes + held.fixed_bytes, default=None)


def plan_memory(plan: Plan, scores: Set[str]) -> PlanMemory:
    """Return the memory that a plan needs on a wafer.

    Args:
        plan: A verified plan.
        scores: Values as wide as attention scores.
    """
    return _Walk(plan, scores).memory()


def num_bytes(plan: Plan, name: str, *, is_splat: bool = False) -> float:
    """Return the bytes of a value on the wafer, for the global batch."""
    type_ = plan.types[name]
    element_bytes = 2 if is_narrow(plan, name) else type_.dtype.container.itemsize
    return float(element_bytes * (1 if is_splat else type_.num_elements))


def is_narrow(plan: Plan, name: str) -> bool:
    """Return whether a value is 16 bits wide in the program, whatever carries it here."""
    return name in plan.narrow or plan.types[name].dtype.is_half


class _Walk:
    """Follows every value of the wafer part through the layer steps that touch it."""

    def __init__(self, plan: Plan, scores: Set[str]) -> None:
        self._plan, self._scores = plan, scores
        self._routed = routed_values(plan)
        self._holder: dict[str, str] = {}
        self._constants: dict[str, float] = {}
        self._absent: set[str] = {name for step in plan.layer_steps for name in step.loads}
        self._spans: dict[tuple[str, int], tuple[int, int]] = {}
        self._position = 0

    def memory(self) -> PlanMemory:
        """Return what was found."""
        for node in self._plan.wafer_constants:
            self._follow(node.op, node.operands, node.results)
            is_splat = node.op == "Const" and constant(node, "value").is_splat
            for name in node.results:
                if self._held(name) == name:
                    self._constants[name] = num_bytes(self._plan, name, is_splat=is_splat)
        ends = [self._step(index) for index in range(len(self._plan.layer_steps))]
        values = {held.name: held for held in self._values()}
        sizes = {name: (held.sample_bytes, held.fixed_bytes) for name, held in values.items()}
        growing = self._line({name: size[0] for name, size in sizes.items()})
        beside = self._line({name: size[1] for name, size in sizes.items()})
        fullest = max(range(len(growing)), key=lambda at: growing[at] + beside[at])
        return PlanMemory(
            values=tuple(values.values()),
            working_bytes=max(growing),
            stage_bytes=sum(max(growing[a:b], default=0.0) for a, b in pairwise([0, *ends])),
            fixed_bytes=sum(self._constants.values()) + max(beside),
            widest=tuple(
                values[name] for (name, _), (a, b) in self._spans.items() if a <= fullest <= b
            ),
        )

    def _step(self, index: int) -> int:
        """Walk through a layer step; return the position after it."""
        step = self._plan.layer_steps[index]
        made = {name for node in step.nodes for name in node.results}
        for node in step.nodes:
            self._follow(node.op, node.operands, node.results)
            for name in (*node.operands, *node.results):
                self._touch(name, index)
            self._position += 1
        for sum_ in step.sums:
            holder = self._held(sum_.partial)
            if holder in made and holder not in self._plan.sharded:
                self._spans.pop((holder, index), None)
                self._absent.add(holder)
            else:
                self._touch(sum_.partial, index)
        self._position += 1
        return self._position

    def _follow(self, op: str, operands: tuple[str, ...], results: tuple[str, ...]) -> None:
        if op in READS and operands:
            self._holder.update(dict.fromkeys(results, self._held(operands[0])))

    def _held(self, name: str) -> str:
        return self._holder.get(name, name)

    def _touch(self, name: str, index: int) -> None:
        holder = self._held(name)
        if holder in self._absent or holder in self._scores or holder in self._constants:
            return
        first, _ = self._spans.get((holder, index), (self._position, 0))
        self._spans[holder, index] = (first, self._position)

    def _values(self) -> Iterator[HeldValue]:
        plan = self._plan
        starts = [part.start for part in segments(plan)] if plan.layer_steps else []
        steps: dict[str, list[int]] = {}
        for name, index in self._spans:
            steps.setdefault(name, []).append(index)
        for name, touched in steps.items():
            size = num_bytes(plan, name) * self._routed.get(name, 1.0)
            is_sharded = name in plan.sharded
            first, last = min(touched), max(touched)
            yield HeldValue(
                name=name,
                sample_bytes=size / plan.batch_size if is_sharded else 0.0,
                fixed_bytes=0.0 if is_sharded else size,
                first_step=first,
                last_step=last,
                waits_for_batch=is_sharded
                and bisect_right(starts, first) < bisect_right(starts, last),
            )

    def _line(self, sizes: Mapping[str, float]) -> list[float]:
        """Return the bytes that are held at each position."""
        change = [0.0] * (self._position + 2)
        for (name, _), (first, last) in self._spans.items():
            change[first] += sizes[name]
            change[last + 1] -= sizes[name]
        return list(accumulate(change))
