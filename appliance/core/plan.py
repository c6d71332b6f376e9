"""The compiler's output: who computes what, in which order, and what crosses which wire.

One training step is cut in two. The *wafer* part touches batch-sharded data and runs on every CS-2
for its own share of the batch, layer step by layer step. The *update* part handles only replicated
values (loss scale, global norm, schedules, optimizer) and runs in MemoryX. Between them cross, and
nothing
else: the values that a layer step *loads* (weights and other replicated values, MemoryX -> SwarmX
-> every CS-2) and the partial sums that it *sends* (every CS-2 -> SwarmX, which adds -> MemoryX).

Types speak of the global batch; `appliance.core.sharding` narrows them to one system's share.
Value names are unique over the whole plan, so a value recomputed in two layer steps has two names.
The one exception is by design: a value MemoryX streams has the same name on both sides.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from appliance.core.errors import InternalError
from appliance.core.graph import Direction, Node
from appliance.core.tensors import DType, TensorType

STEP_START = -1
"""`Update.after` of an update that needs no sum: it runs when the step begins."""


class Precision(StrEnum):
    """How the 16-bit formats of a program are carried."""

    F32 = "f32"
    """As float32; nothing is rounded."""
    EXACT = "exact"
    """Every 16-bit result is rounded to the format that the program names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTensor:
    """A tensor that lives in MemoryX from step to step: weight, optimizer state, schedule, scale.

    Attributes:
        resource_name: The client's name, as in `state.model.fc1.weight`.
        value: Name of the value that holds it at the start of a step.
        type: Type as computed with.
        wire_dtype: Element type in which the client sends and fetches it.
    """

    resource_name: str
    value: str
    type: TensorType
    wire_dtype: DType


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTensor:
    """A batch tensor; always sharded along axis 0.

    Attributes:
        input_name: The client's name, as in `input_0`.
        value: Name of the value.
        type: Type as computed with, global batch.
        wire_dtype: Element type in which the streamer delivers it.
    """

    input_name: str
    value: str
    type: TensorType
    wire_dtype: DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A value the client may ask for after a step; it is available in MemoryX.

    Attributes:
        output_name: The client's name, as in `output_loss`.
        value: Name of the value in the update part.
        type: Type as computed with.
        wire_dtype: Element type in which the client expects it.
    """

    output_name: str
    value: str
    type: TensorType
    wire_dtype: DType


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """A partial value that every CS-2 sends and MemoryX receives added up over all of them.

    Attributes:
        partial: Name of the value on the wafer; global (not batch-dependent) type.
        total: Name of the sum in the update part; same type.
    """

    partial: str
    total: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerStep:
    """What a CS-2 does between taking one set of weights and dropping it.

    Attributes:
        name: For people, as in `blocks.3.fwd`.
        module: Module path of the layer.
        direction: Forward, backward, or None for glue such as the loss.
        loads: Values streamed in for this step, in slot order; dropped when the step ends.
        nodes: The computation, in order; results stay resident until their last use in the plan.
        sums: Partial values sent when the step ends, in slot order.
    """

    name: str
    module: str
    direction: Direction | None
    loads: tuple[str, ...]
    nodes: tuple[Node, ...]
    sums: tuple[Sum, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The overwriting of a state tensor by its new value.

    Attributes:
        state: `StateTensor.value` of the tensor.
        value: Name of the new value in the update part.
    """

    state: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """A part of the update program that becomes runnable at one point of the step.

    Attributes:
        after: Index of the layer step whose sums must have arrived; `STEP_START` for none.
        nodes: The computation, in order.
        commits: State overwritten afterwards. No layer step later than `after` loads the old value,
            and no later update reads it.
    """

    after: int
    nodes: tuple[Node, ...]
    commits: tuple[Commit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything the pods of a job need to know about its program.

    Attributes:
        key: Content hash of program and options, `cs_` and hexadecimal digits.
        batch_size: Global batch.
        precision: How 16-bit formats are carried.
        state: State tensors in a fixed order.
        inputs: Batch tensors in a fixed order.
        outputs: Outputs for the client in a fixed order.
        wafer_constants: Nodes that depend on constants only; run once by each CS-2 at load.
        layer_steps: The wafer part, in stream order.
        update_constants: Nodes that depend on constants only; run once by MemoryX at load.
        updates: The update part; `after` never decreases.
        sharded: Batch axis of each batch-sharded value (wafer constants included); a value that is
            absent is replicated or a partial sum. The size of that axis is a multiple of the batch
            size.
        types: Type of every value of the plan, by name, for the global batch.
    """

    key: str
    batch_size: int
    precision: Precision
    state: tuple[StateTensor, ...]
    inputs: tuple[InputTensor, ...]
    outputs: tuple[Output, ...]
    wafer_constants: tuple[Node, ...]
    layer_steps: tuple[LayerStep, ...]
    update_constants: tuple[Node, ...]
    updates: tuple[Update, ...]
    sharded: Mapping[str, int]
    types: Mapping[str, TensorType]

    def load_types(self, step: LayerStep) -> tuple[tuple[str, TensorType], ...]:
        """Return name and type of what a layer step loads, in slot order."""
        return tuple((name, self.types[name]) for name in step.loads)

    def sum_types(self, step: LayerStep) -> tuple[tuple[str, TensorType], ...]:
        """Return name (of the total) and type of what a layer step sends, in slot order."""
        return tuple((sum_.total, self.types[sum_.total]) for sum_ in step.sums)


def verify(plan: Plan) -> None:
    """Check that a plan can run: order, availability of loads and sums, safety of commits.

    Args:
        plan: The plan to check.

    Raises:
        InternalError: A rule is broken; the message names the value.
    """
    available_after = _verify_updates(plan)
    _verify_wafer(plan, available_after)
    _verify_commits(plan)
    for output in plan.outputs:
        if output.value not in available_after:
            raise InternalError(f"Output {output.output_name!r} reads undefined %{output.value}.")


def _updates_in_order(plan: Plan) -> Iterator[Update]:
    last = STEP_START
    for update in plan.updates:
        if not last <= update.after < len(plan.layer_steps):
            raise InternalError(f"Update after layer step {update.after} follows {last}.")
        last = update.after
        yield update


def _verify_updates(plan: Plan) -> dict[str, int]:
    """Return, for each value of the update part, the layer step after which it exists."""
    available = {tensor.value: STEP_START for tensor in plan.state}
    for node in plan.update_constants:
        available.update(dict.fromkeys(node.results, STEP_START))
    totals = {
        sum_.total: index for index, step in enumerate(plan.layer_steps) for sum_ in step.sums
    }
    available.update(totals)
    for update in _updates_in_order(plan):
        for node in update.nodes:
            for operand in node.operands:
                if available.get(operand, len(plan.layer_steps)) > update.after:
                    raise InternalError(
                        f"Update after layer step {update.after}: {node.op} reads %{operand} "
                        "too early."
                    )
            available.update(dict.fromkeys(node.results, update.after))
        for commit in update.commits:
            if available.get(commit.value, len(plan.layer_steps)) > update.after:
                raise InternalError(f"Commit of %{commit.state} reads %{commit.value} too early.")
    return available


def _verify_wafer(plan: Plan, available_after: Mapping[str, int]) -> None:
    resident = {tensor.value for tensor in plan.inputs}
    for node in plan.wafer_constants:
        resident.update(node.results)
    for index, step in enumerate(plan.layer_steps):
        for name in step.loads:
            if available_after.get(name, index) >= index:
                raise InternalError(f"Layer step {step.name!r} loads %{name} before it exists.")
        readable = resident | set(step.loads)
        for node in step.nodes:
            for operand in node.operands:
                if operand not in readable:
                    raise InternalError(f"Layer step {step.name!r}: {node.op} reads %{operand}.")
            readable.update(node.results)
            resident.update(node.results)
        for sum_ in step.sums:
            if sum_.partial not in readable:
                raise InternalError(f"Layer step {step.name!r} sends undefined %{sum_.partial}.")


def _verify_commits(plan: Plan) -> None:
    last_load = {name: index for index, step in enumerate(plan.layer_steps) for name in step.loads}
    last_read: dict[str, int] = {}
    for position, update in enumerate(plan.updates):
        for node in update.nodes:
            last_read.update(dict.fromkeys(node.operands, position))
        last_read.update({commit.value: position for commit in update.commits})
    for position, update in enumerate(plan.updates):
        for commit in update.commits:
            if last_load.get(commit.state, STEP_START) > update.after:
                raise InternalError(f"State %{commit.state} is overwritten before its last load.")
            if last_read.get(commit.state, position) > position:
                raise InternalError(f"State %{commit.state} is overwritten before its last read.")
