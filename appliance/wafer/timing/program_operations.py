"""A compiled plan, turned into the operations and traffic that the timing model prices.

Sharding tells most of the story: a product of a batch-sharded value with a replicated one streams a
weight; a product of two sharded values whose result is a partial sum is a weight gradient; a
batched product of two sharded values is attention. Reshapes, broadcasts and casts cost nothing of
their own: they are ways to read the same elements. An input of four dimensions is taken for image
files. Scores (results of `SCORES` and what is made of them) are never resident as a whole: rows of
them are made, used and dropped, and made again in the backward pass. What values take of the
wafer is `plan_memory`'s business.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from appliance.core.ir.graph import Direction, Node
from appliance.core.ir.tensors import DType
from appliance.core.plans.micro_batches import segments
from appliance.core.plans.plan import LayerStep, Plan
from appliance.wafer.timing.causality import causal_values
from appliance.wafer.timing.operations import Kind, LayerTraffic, Operation, OperationTable
from appliance.wafer.timing.plan_memory import PlanMemory, is_narrow, num_bytes, plan_memory
from appliance.wafer.timing.routing import ROUTED_PRODUCTS, routed_operations, routed_values
from appliance.wafer.timing.step_program import StepProgram

_FREE = frozenset(
    {"Arange", "BroadcastInDim", "Cast", "Const", "Reshape", "Split", "StridedSlice", "Concat"}
)
_LOOKUPS = frozenset({"Gather", "ScatterNd", "ScatterAdd", "EmbeddingGrad"})
_NORMALISATIONS: Mapping[str, float] = {
    "LayerNorm": 8.0,
    "LayerNormGrad": 16.0,
    "BatchNorm": 8.0,
    "BatchNormGrad": 16.0,
    "GroupNorm": 8.0,
    "GroupNormGrad": 16.0,
}
_WORK: Mapping[str, float] = {
    "Div": 4.0,
    "Reciprocal": 4.0,
    "Sqrt": 6.0,
    "Rsqrt": 6.0,
    "Pow": 10.0,
    "Exp": 8.0,
    "Log": 8.0,
    "Sin": 8.0,
    "Cos": 8.0,
    "Tanh": 10.0,
    "Sigmoid": 10.0,
    "Silu": 12.0,
    "Gelu": 12.0,
    "GeluGrad": 24.0,
    "Softmax": 10.0,
    "RandomUniform": 6.0,
    "SparseSoftmaxCrossEntropyWithLogits": 20.0,
}
"""Instructions per element where it is more than one: polynomials, Newton steps, several passes."""


def program_step(
    plan: Plan, *, name: str = "program", densities: Mapping[str, float] | None = None
) -> StepProgram:
    """Return the step program of a plan, for one sample.

    Args:
        plan: A verified plan.
        name: For reports.
        densities: Of weights that come, and sums that leave, without their zeros: the part that is
            not zero, by the names of loads and totals.
    """
    kept = densities or {}
    operations: list[Operation] = []
    causal = causal_values(plan)
    routed = routed_values(plan)
    for index, step in enumerate(plan.layer_steps):
        of_values = {**kept, **_partial_densities(step, kept)}
        operations.extend(
            _step_operations(plan, step, index, causal=causal, routed=routed, densities=of_values)
        )
    scores = score_values(plan)
    memory = plan_memory(plan, scores)
    largest = memory.largest
    weights = {name for step in plan.layer_steps for name in step.loads}
    shapes = [tensor.type.shape for tensor in plan.inputs]
    tokens = [shape[1] for shape in shapes if len(shape) == 2]
    return StepProgram(
        name=name,
        table=OperationTable.from_operations(operations),
        layers=tuple(_traffic(plan, step, scores, kept) for step in plan.layer_steps),
        num_parameters=float(sum(plan.types[weight].num_elements for weight in weights)),
        working_bytes_per_sample=max(memory.working_bytes, 1.0),
        largest=("", 0.0) if largest is None else (f"%{largest.name}", largest.sample_bytes),
        boundary_bytes_per_sample=memory.boundary_bytes,
        tokens_per_sample=max(tokens, default=1),
        is_prepared_singly=any(len(shape) == 4 for shape in shapes),
        waits_for_norm=_waits_for_norm(plan, weights),
        fixed_bytes=memory.fixed_bytes,
        stage_bytes_per_sample=memory.stage_bytes,
        waiting=_waiting(memory),
        num_segments=_num_segments(plan),
    )


def _num_segments(plan: Plan) -> int:
    """Return how often the pipeline fills within a step.

    What is summed before anything is loaded, as the number of labels that count, is known before.
    """
    filled = [any(plan.layer_steps[index].loads for index in part) for part in segments(plan)]
    return max(sum(filled), 1)


def _waiting(memory: PlanMemory) -> tuple[tuple[float, float], ...]:
    found: dict[float, float] = {}
    for held in memory.values:
        steps = math.inf if held.waits_for_batch else held.last_step - held.first_step
        if steps and held.sample_bytes:
            found[steps] = found.get(steps, 0.0) + held.sample_bytes
    return tuple((size, steps) for steps, size in sorted(found.items()))


def _waits_for_norm(plan: Plan, weights: set[str]) -> bool:
    """Return whether no weight is overwritten before the last of several sums has arrived."""
    sending = [index for index, step in enumerate(plan.layer_steps) if step.sums]
    points = {
        update.after
        for update in plan.updates
        if any(commit.state in weights for commit in update.commits)
    }
    return len(sending) > 1 and points == {sending[-1]}


def _partial_densities(step: LayerStep, densities: Mapping[str, float]) -> dict[str, float]:
    return {sum_.partial: densities[sum_.total] for sum_ in step.sums if sum_.total in densities}


def _traffic(
    plan: Plan, step: LayerStep, scores: set[str], densities: Mapping[str, float]
) -> LayerTraffic:
    loads = sum(type_.num_elements for _, type_ in plan.load_types(step))
    sums = sum(type_.num_elements for _, type_ in plan.sum_types(step))
    moved = (*plan.load_types(step), *plan.sum_types(step))
    kept = sum(type_.num_elements * densities.get(name, 1.0) for name, type_ in moved)
    return LayerTraffic(
        name=step.name,
        module=step.module,
        is_backward=step.direction is Direction.BACKWARD,
        weight_elements=float(loads),
        gradient_elements=float(sums),
        activation_bytes=_read_from_earlier(plan, step, scores) / plan.batch_size,
        density=kept / (loads + sums) if loads + sums else 1.0,
    )


def _step_operations(
    plan: Plan,
    step: LayerStep,
    index: int,
    *,
    causal: set[str],
    routed: Mapping[str, float],
    densities: Mapping[str, float],
) -> Iterator[Operation]:
    is_backward = step.direction is Direction.BACKWARD
    for node in step.nodes:
        if node.op in _FREE or not node.types:
            continue
        if node.op in ROUTED_PRODUCTS:
            yield from routed_operations(plan, node, index, _operand_bits(plan, node))
            continue
        operation = _operation(plan, node, index)
        if operation is None:
            continue
        if operation.kind is Kind.SCORES and is_backward:
            # The scores' gradient; the scores themselves were not kept and are made again.
            operation = replace(operation, repeat=2)
        if causal.intersection((*node.operands, *node.results)):
            operation = _causal(operation, plan.types[node.results[0]].shape)
        if operation.kind in (Kind.MATMUL, Kind.WEIGHT_GRADIENT):
            density = min(densities.get(name, 1.0) for name in (*node.operands, node.results[0]))
            operation = replace(operation, density=density)
        share = routed.get(node.results[0], 1.0)
        yield operation if share == 1.0 else replace(operation, tokens=operation.tokens * share)


def _causal(operation: Operation, shape: tuple[int, ...]) -> Operation:
    """Return an operation on values of which only those up to the diagonal matter."""
    if operation.kind in (Kind.SCORES, Kind.CONTEXT):
        return replace(operation, is_causal=True)
    if operation.kind is Kind.ELEMENTWISE:
        return replace(operation, work=operation.work * (1 + 1 / shape[-1]) / 2)
    return operation


def _operation(plan: Plan, node: Node, index: int) -> Operation | None:
    if not any(value in plan.sharded for value in (*node.operands, *node.results)):
        return None
    if node.op in ("MatMul", "DotGeneral"):
        return _product(plan, node, index)
    if node.op == "Convolution":
        return _convolution(plan, node, index)
    return _other(plan, node, index)


def _bits(plan: Plan, name: str) -> int:
    """Return the width in which the real wafer would hold and compute a value."""
    return 16 if is_narrow(plan, name) or plan.types[name].dtype in _NARROW else 32


_NARROW = frozenset({DType.I1, DType.I8, DType.U8, DType.I16, DType.U16})


def _operand_bits(plan: Plan, node: Node) -> int:
    """Return the width of a product: that of its operands, whatever it adds up in.

    A weight is kept in 32 bits and streamed in 16, so the narrower operand decides.
    """
    return min(_bits(plan, value) for value in node.operands[:2])


def _contracted(plan: Plan, node: Node) -> int:
    """Return the length of the contraction of a product."""
    left = plan.types[node.operands[0]].shape
    axes = node.attributes.get("lhs_contracting_dimensions")
    if isinstance(axes, tuple):
        return math.prod(left[axis] for axis in axes)
    if isinstance(axes, int):
        return left[axes]
    return left[-2] if node.attributes.get("transpose_a") else left[-1]


def _product(plan: Plan, node: Node, index: int) -> Operation:
    result = node.types[0]
    contracted = _contracted(plan, node)
    sharded = [value in plan.sharded for value in node.operands[:2]]
    if not all(sharded):
        outer = result.shape[-1]
        return Operation(
            name=node.op,
            kind=Kind.MATMUL,
            layer_step=index,
            tokens=result.num_elements / outer / plan.batch_size,
            inner=contracted,
            outer=outer,
            bits=_operand_bits(plan, node),
        )
    if node.results[0] not in plan.sharded:
        inner = result.shape[-1]
        return Operation(
            name=node.op,
            kind=Kind.WEIGHT_GRADIENT,
            layer_step=index,
            tokens=contracted / plan.batch_size,
            inner=inner,
            outer=max(1, result.num_elements // inner),
            bits=_operand_bits(plan, node),
        )
    return _batched_product(plan, node, index, contracted)


def _contracts_features(plan: Plan, node: Node) -> bool:
    """Return whether both operands are contracted along their last axis, as q and k are."""
    for operand, side in zip(node.operands[:2], ("lhs", "rhs"), strict=True):
        axes = node.attributes.get(f"{side}_contracting_dimensions")
        last = len(plan.types[operand].shape) - 1
        if axes not in (last, (last,)):
            return False
    return True


def _batched_product(plan: Plan, node: Node, index: int, contracted: int) -> Operation:
    result = node.types[0]
    rows, columns = result.shape[-2:] if len(result.shape) > 1 else (1, result.shape[-1])
    heads = max(1, result.num_elements // (rows * columns) // plan.batch_size)
    is_scores = _contracts_features(plan, node) or (rows == columns > contracted)
    width = contracted if is_scores else columns
    return Operation(
        name=node.op,
        kind=Kind.SCORES if is_scores else Kind.CONTEXT,
        layer_step=index,
        tokens=float(rows),
        inner=heads * width,
        outer=heads * width,
        sequence=columns if is_scores else contracted,
        queries=rows,
        num_heads=heads,
        bits=_operand_bits(plan, node),
    )


def _convolution(plan: Plan, node: Node, index: int) -> Operation:
    """Price a convolution as the product it is: positions times (kernel, channels)."""
    result = node.types[0]
    left, right = (plan.types[value] for value in node.operands[:2])
    if node.results[0] not in plan.sharded:
        inner = math.prod(result.shape[1:])
        positions = left.num_elements / left.shape[1]
        return Operation(
            name=node.op,
            kind=Kind.WEIGHT_GRADIENT,
            layer_step=index,
            tokens=positions / plan.batch_size,
            inner=inner,
            outer=result.shape[0],
            bits=_operand_bits(plan, node),
        )
    channels = result.shape[1]
    return Operation(
        name=node.op,
        kind=Kind.MATMUL,
        layer_step=index,
        tokens=result.num_elements / channels / plan.batch_size,
        inner=max(1, right.num_elements // channels),
        outer=channels,
        bits=_operand_bits(plan, node),
    )


def _other(plan: Plan, node: Node, index: int) -> Operation:
    values = [value for value in (*node.operands, *node.results) if value in plan.sharded]
    largest = max((plan.types[value] for value in values), key=lambda type_: type_.num_elements)
    bits = max(
        _bits(plan, value)
        for value in values
        if plan.types[value].num_elements == largest.num_elements
    )
    features = largest.shape[-1] if len(largest.shape) > 1 else 1
    if len(largest.shape) > 3:
        features *= largest.shape[1]
    tokens = largest.num_elements / features / plan.batch_size
    kind, outer = Kind.ELEMENTWISE, features
    if node.op in _LOOKUPS:
        tables = [plan.types[value] for value in (*node.operands, *node.results)]
        kind, outer = Kind.LOOKUP, max(type_.shape[0] for type_ in tables if type_.shape)
    elif node.op in _NORMALISATIONS:
        kind = Kind.NORMALISATION
    elif node.op == "Transpose":
        kind = Kind.LAYOUT
    elif node.op.startswith("Reduce") and node.results[0] not in plan.sharded:
        kind = Kind.REDUCTION
    return Operation(
        name=node.op,
        kind=kind,
        layer_step=index,
        tokens=tokens,
        inner=features,
        outer=outer,
        bits=bits,
        work=_NORMALISATIONS.get(node.op, _WORK.get(node.op, 1.0)),
    )


def score_values(plan: Plan) -> set[str]:
    """Return the values that are as wide as the scores: those, and what is computed from them."""
    found: set[str] = set()
    for index, step in enumerate(plan.layer_steps):
        for node in step.nodes:
            if node.op in ("MatMul", "DotGeneral"):
                operation = _operation(plan, node, index)
                if operation is not None and operation.kind is Kind.SCORES:
                    found.update(node.results)
                continue
            sizes = {plan.types[name].num_elements for name in node.operands if name in found}
            found.update(name for name in node.results if plan.types[name].num_elements in sizes)
    return found


def _read_from_earlier(plan: Plan, step: LayerStep, scores: set[str]) -> float:
    made = {value for node in step.nodes for value in node.results}
    read = {value for node in step.nodes for value in node.operands} - made - set(step.loads)
    return sum(
        num_bytes(plan, value) for value in read if value in plan.sharded and value not in scores
    )
