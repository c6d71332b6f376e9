"""The wafer part of a plan with a loop over positions, for one share of the batch: pure values.

Layer steps do not matter within the loop, so their nodes are put in one line and taken apart by
what they depend on:

* the *prologue* depends on neither tokens nor position; it runs once, or once for each batch;
* the *body* leads to the tokens; it runs for every position;
* the *epilogue* is the rest; it runs after the loop, on the final tokens.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from appliance.core.errors import InternalError
from appliance.core.ir.graph import Node, needed_nodes
from appliance.core.ir.sharding import BatchShard, localise
from appliance.core.ir.tensors import TensorType
from appliance.core.plans.generation import loop_node
from appliance.core.plans.plan import Execution, Plan
from appliance.core.pods.pod_options import StreamMode
from workers.csx.wafer_program import Constants, without_stack


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopProgram:
    """The wafer part.

    Attributes:
        constants: Values that are the same in every step.
        loads: What is loaded, over all layer steps.
        num_layer_steps: Layer steps, of which the last one sends.
        weights: The part of the prologue that depends on what is loaded only.
        prologue: The rest of it.
        body: The nodes of a pass, without `positions` and the end.
        positions: Names of the position.
        end: The `wsc.NextTokens`.
        epilogue: What runs on the final tokens.
        sums: Total of each partial sum, and the partial.
        types: Type of every value that comes from outside, and of the position.
        loads_stay: Whether what is loaded remains readable after its layer step.
        loads_change: Whether a step may leave other values than it found.
    """

    constants: Constants
    loads: frozenset[str]
    num_layer_steps: int
    weights: tuple[Node, ...]
    prologue: tuple[Node, ...]
    body: tuple[Node, ...]
    positions: tuple[str, ...]
    end: Node
    epilogue: tuple[Node, ...]
    sums: tuple[tuple[str, str], ...]
    types: Mapping[str, TensorType]
    loads_stay: bool
    loads_change: bool


def loop_program(plan: Plan, shard: BatchShard, *, mode: StreamMode) -> LoopProgram:
    """Return the part that a share of the batch needs.

    Args:
        plan: A verified plan with a loop.
        shard: The share.
        mode: How layer steps get what they load.
    """
    nodes = tuple(
        without_stack(node)
        for step in plan.layer_steps
        for node in localise(step.nodes, sharded=plan.sharded, types=plan.types, shard=shard)
    )
    end = next(node for node in nodes if node.op == "wsc.NextTokens")
    positions = tuple(name for node in nodes if node.op == "wsc.Position" for name in node.results)
    rest = tuple(node for node in nodes if node.op not in ("wsc.NextTokens", "wsc.Position"))
    in_body = _leading_to(end, rest)
    loads = frozenset(name for step in plan.layer_steps for name in step.loads)
    constants = localise(plan.wafer_constants, sharded=plan.sharded, types=plan.types, shard=shard)
    fixed = {name for node in constants for name in node.results}
    batch = {tensor.value for tensor in plan.inputs} - {end.operands[0]}
    body = tuple(node for node in rest if node.results[0] in in_body)
    weights, later = _depending_on_nothing_but(fixed | loads, body)
    prologue, varying = _depending_on_nothing_but(
        fixed | loads | batch | {name for node in weights for name in node.results}, later
    )
    epilogue = tuple(node for node in rest if node.results[0] not in in_body)
    committed = {commit.state for update in plan.updates for commit in update.commits}
    outside = {*loads, *batch, end.operands[0], *fixed, *positions}
    return LoopProgram(
        constants=Constants(tuple(map(without_stack, constants)), fixed),
        loads=loads,
        num_layer_steps=len(plan.layer_steps),
        weights=weights,
        prologue=prologue,
        body=varying,
        positions=positions,
        end=end,
        epilogue=epilogue,
        sums=_sums(plan),
        types={
            name: shard.local_type(plan.types[name], plan.sharded.get(name)) for name in outside
        },
        loads_stay=mode is StreamMode.MAPPED or plan.execution is Execution.PIPELINED,
        loads_change=bool(committed) and not committed.isdisjoint(_sources(plan)),
    )


def has_loop(plan: Plan) -> bool:
    """Whether a plan has a loop over positions."""
    return loop_node(plan) is not None


def _leading_to(end: Node, nodes: tuple[Node, ...]) -> set[str]:
    """Return the results of the nodes that the end of the loop depends on."""
    leading = needed_nodes(nodes, end.operands)
    return {name for node in leading for name in node.results}


def _depending_on_nothing_but(
    known: Iterable[str], nodes: tuple[Node, ...]
) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Return the nodes that depend on known values only, and the others."""
    names, inside, others = set(known), list[Node](), list[Node]()
    for node in nodes:
        # A random operation differs from pass to pass.
        if names.issuperset(node.operands) and not node.op.startswith("Random"):
            names.update(node.results)
            inside.append(node)
        else:
            others.append(node)
    return tuple(inside), tuple(others)


def _sums(plan: Plan) -> tuple[tuple[str, str], ...]:
    *others, last = plan.layer_steps
    early = [sum_.total for step in others for sum_ in step.sums]
    if early:
        raise InternalError(f"%{early[0]} is sent before the loop over positions has ended.")
    return tuple((sum_.total, sum_.partial) for sum_ in last.sums)


def _sources(plan: Plan) -> set[str]:
    """Return the state that what is loaded is made of."""
    needed = {name for step in plan.layer_steps for name in step.loads}
    for update in reversed(plan.updates):
        for node in reversed(update.nodes):
            if not needed.isdisjoint(node.results):
                needed.update(node.operands)
    return needed
