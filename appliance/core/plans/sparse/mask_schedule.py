"""Whether a step takes a new mask, known before any of its updates has run.

Programs that change masks take a new one when a step's number says so (`kept_masks`). Updates of
other steps read no more of a gradient than the mask lets through, even where the program reads all
of it to choose what comes back, as RigL's does. So the systems need not send more.
"""

from dataclasses import dataclass, replace

from appliance.core.ir.graph import Node, needed_nodes
from appliance.core.plans.plan import Plan
from appliance.core.plans.sparse.kept_masks import kept_masks, spread_scalars


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskSchedule:
    """When a program takes new masks.

    Attributes:
        conditions: Scalars of which none is true in a step that takes no new mask.
        deciding: Nodes that compute them, in order, from state alone.
        kept: The plan as such a step runs it; its wafer part is of no use.
    """

    conditions: tuple[str, ...]
    deciding: tuple[Node, ...]
    kept: Plan


def mask_schedule(plan: Plan) -> MaskSchedule | None:
    """Return when a program takes new masks; None if no step is known to take none.

    Args:
        plan: A plan whose update part has types and attributes.
    """
    shown = {output.value for output in plan.outputs}
    shown.update(name for step in plan.layer_steps for name in step.loads)
    conditions: dict[str, None] = {}
    updates = []
    spread = spread_scalars(plan)
    read_later = set(shown)
    for update in reversed(plan.updates):
        kept = kept_masks(update, read_later=read_later, types=plan.types, spread=spread)
        if kept is not None:
            conditions.update(dict.fromkeys(spread.get(name, name) for name in kept.conditions))
        updates.append(update if kept is None else kept.update)
        read_later.update(name for node in update.nodes for name in node.operands)
        read_later.update(commit.value for commit in update.commits)
    nodes = (*plan.update_constants, *(node for each in plan.updates for node in each.nodes))
    deciding = needed_nodes(nodes, conditions)
    if not conditions or not _is_known_early(plan, deciding, conditions):
        return None
    return MaskSchedule(
        conditions=tuple(conditions),
        deciding=deciding,
        kept=replace(plan, updates=tuple(reversed(updates))),
    )


def _is_known_early(plan: Plan, deciding: tuple[Node, ...], conditions: dict[str, None]) -> bool:
    """Whether conditions are computed from scalars of the state that a step begins with."""
    known = {tensor.value for tensor in plan.state}
    made = {name for node in deciding for name in node.results}
    read = {name for node in deciding for name in node.operands} | {*conditions}
    return read <= known | made and not any(plan.types[name].shape for name in read | made)
