"""Which products of attention in a plan are causal: their scores meet a triangular mask.

A client writes the mask as a comparison of two ramps, one along the queries and one along the keys
(`Arange`, reshaped to a row and to a column), turns it into large negative numbers and adds it to
the scores. What is made of masked scores element by element (their softmax, the gradient of that)
is zero above the diagonal, so a product that reads or makes such a value may skip half of its
pairs. Nothing is evaluated: a mask that depends on the data, as one for padding does, is no ramp.
"""

from collections.abc import Iterable, Sequence

from appliance.core.ir.graph import Node
from appliance.core.plans.plan import Plan

_PRODUCTS = frozenset({"MatMul", "DotGeneral"})
_VIEWS = frozenset({"Reshape", "BroadcastInDim", "Cast"})
_ORDERINGS = frozenset({"GT", "GE", "LT", "LE"})
_SCALINGS = frozenset({"Add", "And", "Mul", "Neg", "Not", "Or", "Select", "Sub"})
"""What turns a mask of truth values into one of numbers, constants all."""


def causal_values(plan: Plan) -> set[str]:
    """Return the values that are as wide as scores and matter only on and below the diagonal.

    Args:
        plan: A verified plan; its layer steps are in the order in which they run.
    """
    nodes = [node for step in plan.layer_steps for node in step.nodes]
    masks = _triangular_masks(plan, (*plan.wafer_constants, *nodes))
    masked = _masked(plan, nodes, masks)
    return masked | _multiplied_by(plan, nodes, masked)


def _triangular_masks(plan: Plan, nodes: Iterable[Node]) -> set[str]:
    """Return masks: comparisons of a ramp along one axis with a ramp along another."""
    ramps: dict[str, int] = {}  # how many axes follow the one along which it rises
    masks: set[str] = set()
    constants: set[str] = set()
    for node in nodes:
        if not node.results or not constants.issuperset(node.operands):
            continue
        constants.update(node.results)
        if node.op == "Arange":
            ramps[node.results[0]] = 0
        elif node.op in _VIEWS and node.operands[0] in ramps:
            axis = _axes_after_ramp(plan, node)
            if axis is not None:
                ramps[node.results[0]] = axis
        elif node.op == "Compare" and _is_ordering(node):
            axes = {ramps.get(value) for value in node.operands[:2]}
            if len(axes) == 2 and None not in axes:
                masks.update(node.results)
        elif node.op in _VIEWS | _SCALINGS and masks.intersection(node.operands):
            masks.update(node.results)
    return masks


def _is_ordering(node: Node) -> bool:
    return str(node.attributes.get("comparison_direction", "")).strip('"') in _ORDERINGS


def _axes_after_ramp(plan: Plan, node: Node) -> int | None:
    """Return along which axis, from the last, a view of a ramp rises; None if along none."""
    before = plan.types[node.operands[0]].shape
    after = plan.types[node.results[0]].shape
    length = max(before, default=1)
    if before.count(length) != 1:
        return None
    if node.op == "BroadcastInDim":
        axes = node.attributes.get("broadcast_dimensions")
        kept = (axes,) if isinstance(axes, int) else axes
        if not isinstance(kept, tuple) or len(kept) != len(before):
            return None
        axis = kept[before.index(length)]
        return len(after) - 1 - axis if isinstance(axis, int) else None
    return len(after) - 1 - after.index(length) if after.count(length) == 1 else None


def _masked(plan: Plan, nodes: Iterable[Node], masks: set[str]) -> set[str]:
    """Return masked scores and what is computed from them, element by element."""
    found: set[str] = set()
    for node in nodes:
        if node.op in _PRODUCTS:
            continue
        sources = [name for name in node.operands if name in found or name in masks]
        sizes = {plan.types[name].num_elements for name in sources if name in found}
        if any(name in masks for name in sources):
            scores = set(node.operands) - masks
            sizes.update(plan.types[name].num_elements for name in scores if name in plan.sharded)
        found.update(
            name
            for name in node.results
            if name in plan.sharded and plan.types[name].num_elements in sizes
        )
    return found


def _multiplied_by(plan: Plan, nodes: Sequence[Node], masked: set[str]) -> set[str]:
    """Return what only ever meets masked values: scores before their mask, gradients of those."""
    found: set[str] = set()
    for node in reversed(nodes):
        if node.op in _PRODUCTS:
            continue
        sizes = {
            plan.types[name].num_elements
            for name in node.results
            if name in masked or name in found
        }
        found.update(
            name
            for name in node.operands
            if name in plan.sharded and plan.types[name].num_elements in sizes
        )
    return found
