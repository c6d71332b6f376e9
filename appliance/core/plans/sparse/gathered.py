"""Weights that MemoryX holds whole and sends by their non-zeros, such as those whose mask changes.

What layer steps load of such a weight is its product with the mask, a value of the update part.
MemoryX does not compute it. Once a step has written both weight and mask, it *gathers* the load of
the next one: it copies what the new mask lets through of the new weight, and the new pattern.
Updates that read the product compute it themselves, from weight and mask as they were.

Nothing has to be proven of what the update part does with the weight. What has to hold is that a
step has no use for the old product any more when weight or mask is written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from appliance.core.ir.graph import Node
from appliance.core.plans.plan import LayerStep, Plan, Update
from appliance.core.plans.sparse.families import Context, masked_totals
from appliance.core.plans.sparse_weight import SparseWeight


def gathered_weight(
    context: Context, kept: Context | None, found: SparseWeight, whole_because: str
) -> SparseWeight:
    """Return a weight as gathered if it can be, and as dense if not.

    Args:
        context: The plan.
        kept: The plan as steps run it that take no new mask; None if no step is known to take none.
        found: The weight, with the loads that are its product with the mask.
        whole_because: Why it is held whole.
    """
    if refusal := _refusal(context, found):
        return replace(found, dense_because=f"{whole_because}; {refusal}")
    plan = context.plan
    always = masked_totals(context, found.mask)
    mostly = always if kept is None else masked_totals(kept, found.mask)
    _, last_layer_step = _first_write(plan, found)
    totals = tuple(
        sum_.total
        for index, step in enumerate(plan.layer_steps)
        if {*found.loads} & {*step.loads} and index <= last_layer_step
        for sum_ in step.sums
        if sum_.total in always | mostly
    )
    return replace(
        found,
        totals=totals,
        masked_totals=tuple(name for name in totals if name in always),
        scheduled_totals=tuple(name for name in totals if name not in always),
        whole_because=whole_because,
    )


def _refusal(context: Context, found: SparseWeight) -> str:
    """Return why a weight cannot be gathered; empty if it can."""
    plan = context.plan
    made = _makers(plan, found)
    written, last_layer_step = _first_write(plan, found)
    for index, step in enumerate(plan.layer_steps):
        for name in step.loads:
            if name in found.loads and index > last_layer_step:
                return f"%{name} is sent after %{found.weight} or its mask has changed"
            if name in made and name not in found.loads:
                return f"%{name} is sent, too"
    for position, update in enumerate(plan.updates):
        for name in _reads(update) & made.keys():
            if position > written:
                return f"%{name} is read after %{found.weight} or its mask has changed"
    for output in plan.outputs:
        if output.value in made:
            return f"%{output.value} is read outside of the update part"
    return ""


def _makers(plan: Plan, sparse: SparseWeight) -> dict[str, Node]:
    """Return the nodes that make the loads of weight and mask, by what they make, in order."""
    made = {node.results[0]: node for update in plan.updates for node in update.nodes}
    found: set[str] = set()
    waiting = list(sparse.loads)
    while waiting:
        name = waiting.pop()
        if name in made and name not in found:
            found.add(name)
            waiting += made[name].operands
    return {name: node for name, node in made.items() if name in found}


def _first_write(plan: Plan, sparse: SparseWeight) -> tuple[int, int]:
    """Return the first update that writes weight or mask, and the layer step that it follows.

    Where none does, both are beyond the last.
    """
    for position, update in enumerate(plan.updates):
        if _writes(update, sparse):
            return position, update.after
    return len(plan.updates), len(plan.layer_steps)


def _writes(update: Update, sparse: SparseWeight) -> bool:
    state = {sparse.weight, sparse.mask}
    return any(c.state in state and c.value != c.state for c in update.commits)


def _reads(update: Update) -> set[str]:
    operands = {name for node in update.nodes for name in node.operands}
    return operands | {commit.value for commit in update.commits}


def gathered_after(plan: Plan) -> Mapping[int, tuple[SparseWeight, ...]]:
    """Return the weights to gather after each update, which is the last to write weight or mask.

    Those that no update writes are gathered when a session begins, as all are.
    """
    due: dict[int, list[SparseWeight]] = {}
    for sparse in plan.sparse:
        positions = [index for index, each in enumerate(plan.updates) if _writes(each, sparse)]
        if sparse.is_gathered and positions:
            due.setdefault(positions[-1], []).append(sparse)
    return {position: tuple(found) for position, found in due.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rewriting:
    """What a rewriting needs to know.

    Attributes:
        makers: The nodes that make gathered loads.
        state: Weight and mask in whose place a load is announced, by its name.
    """

    makers: Mapping[str, Node]
    state: Mapping[str, tuple[str, str]]


def on_state(plan: Plan) -> Plan:
    """Return the plan as MemoryX runs it: gathered loads are ready when weight and mask are.

    Args:
        plan: A verified plan whose update part has types and attributes. The wafer part of what is
            returned is of no use.
    """
    gathered = [sparse for sparse in plan.sparse if sparse.is_gathered]
    if not gathered:
        return plan
    rewriting = _Rewriting(
        makers={name: node for sparse in gathered for name, node in _makers(plan, sparse).items()},
        state={name: (each.weight, each.mask) for each in gathered for name in each.loads},
    )
    types = dict(plan.types)
    updates = []
    for position, update in enumerate(plan.updates):
        names = {name: f"{name}@{position}" for name in rewriting.makers}
        updates.append(_rewritten(update, rewriting.makers, names))
        types |= {names[name]: plan.types[name] for name in rewriting.makers}
    return replace(
        plan,
        layer_steps=tuple(_loading(step, rewriting.state) for step in plan.layer_steps),
        updates=tuple(updates),
        types=types,
    )


def _rewritten(update: Update, makers: Mapping[str, Node], names: Mapping[str, str]) -> Update:
    """Return an update that makes for itself what it reads of gathered loads."""
    others = tuple(node for node in update.nodes if node.results[0] not in makers)
    needed = _reads(replace(update, nodes=others))
    for name in reversed([*makers]):
        if name in needed:
            needed.update(makers[name].operands)
    nodes = (*(node for name, node in makers.items() if name in needed), *others)
    return replace(
        update,
        nodes=tuple(_renamed(node, names) for node in nodes),
        commits=tuple(
            replace(commit, value=names.get(commit.value, commit.value))
            for commit in update.commits
        ),
    )


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    return replace(
        node,
        operands=tuple(names.get(name, name) for name in node.operands),
        results=tuple(names.get(name, name) for name in node.results),
    )


def _loading(step: LayerStep, state: Mapping[str, tuple[str, str]]) -> LayerStep:
    loads = dict.fromkeys(loaded for name in step.loads for loaded in state.get(name, (name,)))
    return replace(step, loads=tuple(loads), nodes=())
