"""The compiler's output: who computes what, in which order, and what crosses which wire.

One training step is cut in two. The *wafer* part touches batch-sharded data and runs on every CS-2
for its own share of the batch, layer step by layer step. The *update* part handles only replicated
values (loss scale, global norm, schedules, optimizer) and runs in MemoryX. Between them cross, and
nothing
else: the values that a layer step *loads* (weights and other replicated values, MemoryX -> SwarmX
-> every CS-2) and the partial sums that it *sends* (every CS-2 -> SwarmX, which adds -> MemoryX).

Types speak of the global batch; `appliance.core.ir.sharding` narrows them to one system's share.
Value names are unique over the whole plan, so a value recomputed in two layer steps has two names.
The one exception is by design: a value MemoryX streams has the same name on both sides.
"""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum

from appliance.core.errors import InternalError
from appliance.core.ir.graph import Direction, Node
from appliance.core.ir.ops import VIEW_OPS
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.plans.sparse_weight import SparseWeight

STEP_START = -1
"""`Update.after` of an update that needs no sum: it runs when the step begins."""


class Precision(StrEnum):
    """How the 16-bit formats of a program are carried."""

    F32 = "f32"
    """As float32; nothing is rounded."""
    EXACT = "exact"
    """Every 16-bit result is rounded to the format that the program names."""


class Execution(StrEnum):
    """How a plan uses the wafer; the numbers are the same."""

    WEIGHT_STREAMING = "weight-streaming"
    """One layer at a time is there; its weights stream in and are dropped."""
    PIPELINED = "pipelined"
    """All weights are there, all layers side by side; see `core.plans.loads.residency`."""


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
            no later update reads it, be it through a view, and no new value shares its memory.
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
        micro_batch_size: Most samples that a system computes at a time; None computes its whole
            share at once. See `appliance.core.plans.micro_batches`.
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
        narrow: Values that are 16 bits wide in the program as written and are carried as float32.
        execution: How the wafer is used.
        sparse: Weights that the program masks; see `appliance.core.plans.sparse`.
        packed: Loads that are streamed in two bytes a value, with the 16-bit format to which each
            is rounded before; see `appliance.core.plans.loads.packed`.
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
    micro_batch_size: int | None = None
    narrow: frozenset[str] = frozenset()
    execution: Execution = Execution.WEIGHT_STREAMING
    sparse: tuple[SparseWeight, ...] = ()
    packed: Mapping[str, DType] = field(default_factory=dict)

    def load_types(self, step: LayerStep) -> tuple[tuple[str, TensorType], ...]:
        """Return name and type of what a layer step loads, in slot order."""
        return tuple((name, self.types[name]) for name in step.loads)

    def sum_types(self, step: LayerStep) -> tuple[tuple[str, TensorType], ...]:
        """Return name (of the total) and type of what a layer step sends, in slot order."""
        return tuple((sum_.total, self.types[sum_.total]) for sum_ in step.sums)


def defined_values(plan: Plan) -> Iterator[str]:
    """Yield every value that a plan defines, in order; each once if the plan is sound."""
    yield from (tensor.value for tensor in plan.state)
    yield from (tensor.value for tensor in plan.inputs)
    nodes = [*plan.wafer_constants, *plan.update_constants]
    for step in plan.layer_steps:
        nodes += step.nodes
        yield from (sum_.total for sum_ in step.sums)
    for update in plan.updates:
        nodes += update.nodes
    for node in nodes:
        yield from node.results


def verify(plan: Plan) -> None:
    """Check that a plan can run: order, availability of loads and sums, safety of commits.

    Args:
        plan: The plan to check.

    Raises:
        InternalError: A rule is broken; the message names the value.
    """
    if plan.micro_batch_size is not None and plan.micro_batch_size < 1:
        raise InternalError(f"The plan has micro-batches of {plan.micro_batch_size} samples.")
    _verify_names(plan)
    available_after = _verify_updates(plan)
    _verify_wafer(plan, available_after)
    _verify_crossings(plan)
    _verify_commits(plan)
    _verify_sparse(plan)
    _verify_packed(plan)
    for output in plan.outputs:
        if output.value not in available_after:
            raise InternalError(f"Output {output.output_name!r} reads undefined %{output.value}.")


def _verify_names(plan: Plan) -> None:
    seen: set[str] = set()
    for name in defined_values(plan):
        if name in seen:
            raise InternalError(f"The plan defines %{name} twice.")
        seen.add(name)
    for name in seen.symmetric_difference(plan.types):
        raise InternalError(f"The plan defines %{name} and knows no type of it, or the reverse.")
    for name, axis in plan.sharded.items():
        type_ = plan.types.get(name)
        if type_ is None or type_.shape[axis] % plan.batch_size:
            raise InternalError(f"%{name} is sharded along axis {axis} of {type_}.")


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
    """A view of a streamed value goes when that goes: no later layer step may read it."""
    resident = {tensor.value for tensor in plan.inputs}
    for node in plan.wafer_constants:
        _verify_reads(node, (resident,), "the wafer constants")
        resident.update(node.results)
    for index, step in enumerate(plan.layer_steps):
        for name in step.loads:
            if available_after.get(name, index) >= index:
                raise InternalError(f"Layer step {step.name!r} loads %{name} before it exists.")
        streamed = set(step.loads)
        for node in step.nodes:
            _verify_reads(node, (resident, streamed), f"layer step {step.name!r}")
            if node.op in VIEW_OPS and node.operands and node.operands[0] in streamed:
                streamed.update(node.results)
            else:
                resident.update(node.results)
        for sum_ in step.sums:
            if sum_.partial not in resident:
                raise InternalError(f"Layer step {step.name!r} sends undefined %{sum_.partial}.")


def _verify_reads(node: Node, readable: tuple[Set[str], ...], where: str) -> None:
    for operand in node.operands:
        if not any(operand in values for values in readable):
            raise InternalError(f"In {where}, {node.op} reads %{operand}, which is not there.")


def _verify_crossings(plan: Plan) -> None:
    for step in plan.layer_steps:
        if len(set(step.loads)) != len(step.loads):
            raise InternalError(f"Layer step {step.name!r} loads a value twice.")
        for sum_ in step.sums:
            if plan.types[sum_.partial] != plan.types[sum_.total]:
                raise InternalError(f"%{sum_.partial} and its sum %{sum_.total} differ in type.")
            if sum_.partial in plan.sharded:
                raise InternalError(f"%{sum_.partial} is added up, but it is sharded.")


def _verify_commits(plan: Plan) -> None:
    """State is overwritten once, after its last load and the last read of its old memory."""
    memory = {tensor.value: tensor.value for tensor in plan.state}
    last_read: dict[str, int] = {}
    for position, update in enumerate(plan.updates):
        for node in update.nodes:
            reads = [memory[name] for name in node.operands if name in memory]
            last_read.update(dict.fromkeys(reads, position))
            if reads and node.op in VIEW_OPS and node.operands[0] in memory:
                memory.update(dict.fromkeys(node.results, memory[node.operands[0]]))
    last_load: dict[str, int] = {}
    for index, step in enumerate(plan.layer_steps):
        last_load.update({memory.get(name, name): index for name in step.loads})
    committed: set[str] = set()
    for position, update in enumerate(plan.updates):
        for commit in update.commits:
            _verify_commit(plan, commit, memory)
            if commit.state in committed:
                raise InternalError(f"State %{commit.state} is overwritten twice.")
            committed.add(commit.state)
            if last_load.get(commit.state, STEP_START) > update.after:
                raise InternalError(f"State %{commit.state} is overwritten before its last load.")
            if last_read.get(commit.state, position) > position:
                raise InternalError(f"State %{commit.state} is overwritten before its last read.")


def _verify_commit(plan: Plan, commit: Commit, memory: Mapping[str, str]) -> None:
    if plan.types[commit.state] != plan.types[commit.value]:
        raise InternalError(f"%{commit.state} is overwritten by %{commit.value} of another type.")
    if commit.value in memory:
        raise InternalError(
            f"%{commit.state} is overwritten by %{commit.value}, which shares memory with state."
        )


def _verify_sparse(plan: Plan) -> None:
    """A mask is state that stays as it is while its weight is held by its non-zeros."""
    state = {tensor.value: tensor.type for tensor in plan.state}
    loads = {name for step in plan.layer_steps for name in step.loads}
    written = {
        c.state: update.after
        for update in plan.updates
        for c in update.commits
        if c.value != c.state
    }
    held: set[str] = set()
    for sparse in plan.sparse:
        mask = state.get(sparse.mask)
        if mask is None or mask.dtype is not DType.I1:
            raise InternalError(f"%{sparse.mask}, the mask of %{sparse.weight}, is no such state.")
        for name in (sparse.weight, *sparse.loads, *sparse.members, *sparse.totals):
            if name not in plan.types or plan.types[name].shape != mask.shape:
                raise InternalError(f"%{name} and its mask %{sparse.mask} differ in shape.")
        if not (loads.issuperset(sparse.loads) and {*sparse.loads}.issuperset(sparse.copies)):
            raise InternalError(
                f"No layer step loads {sparse.loads}, of the weight {sparse.weight!r}."
            )
        if sparse.members and sparse.mask in written:
            raise InternalError(f"%{sparse.mask} changes, but %{sparse.weight} is held by it.")
        if not (sparse.members or sparse.whole_because or sparse.dense_because):
            raise InternalError(f"How %{sparse.weight} is held is not said.")
        if not (held.isdisjoint(sparse.members) and state.keys() >= {*sparse.members}):
            raise InternalError(f"State of %{sparse.weight} is no state or held by two masks.")
        held.update(sparse.members)
        if sparse.is_gathered:
            _verify_gathered(plan, sparse, written)


def _verify_gathered(plan: Plan, sparse: SparseWeight, written: Mapping[str, int]) -> None:
    """No layer step is sent a load after the weight or its mask, which it is made of."""
    for index, step in enumerate(plan.layer_steps):
        for name in (sparse.weight, sparse.mask):
            if written.get(name, index) < index and not {*sparse.loads}.isdisjoint(step.loads):
                raise InternalError(f"%{name} is overwritten before {step.name!r} is sent it.")


def _verify_packed(plan: Plan) -> None:
    """What is sent in a 16-bit format has that type, or is cast to it by whoever reads it."""
    loads = {name for step in plan.layer_steps for name in step.loads}
    for name, dtype in plan.packed.items():
        if name not in loads or not dtype.is_half:
            raise InternalError(f"%{name} is to be sent as {dtype}, which no layer step can take.")
    for step in plan.layer_steps:
        for node in step.nodes:
            for name in plan.packed.keys() & {*node.operands}:
                dtype = plan.packed[name]
                is_cast = node.op == "Cast" and node.types[0].dtype is dtype
                if plan.types[name].dtype is not dtype and not is_cast:
                    raise InternalError(
                        f"Layer step {step.name!r} reads %{name} in {node.op}, but it is sent as "
                        f"{dtype}."
                    )
