"""Which sparse loads a system hands to its programs as non-zeros, and which sums it gets so.

A load is, if every node that reads it, in every layer step, is a product that can
(`numerics/sparse/weight_products.py`); others are made whole. A sum is, if one node makes it,
nobody else reads it, its layer step loads the weight as non-zeros, and no step needs all of it.
This follows from the plan alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from appliance.core.ir.graph import Node
from appliance.core.plans.plan import LayerStep, Plan
from appliance.numerics.sparse.weight_products import gives_sparse, reads_sparse


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseForms:
    """What programs take and give as non-zeros.

    Attributes:
        loads: Names of loads.
        gradients: For each layer step, the totals that are given so, and the load that has the
            pattern.
    """

    loads: frozenset[str] = frozenset()
    gradients: Mapping[int, Mapping[str, str]] = field(default_factory=dict)


NO_FORMS = SparseForms()


def sparse_forms(plan: Plan) -> SparseForms:
    """Return what programs on the processor take and give as non-zeros.

    Args:
        plan: A verified plan, with the sparse weights that the session handles as such.
    """
    named = {name for sparse in plan.sparse for name in sparse.loads}
    loads = frozenset(name for name in named if _is_read_sparse(plan, name))
    weight_of = {n: s.weight for s in plan.sparse for n in (*s.loads, *s.totals)}
    scheduled = {name for sparse in plan.sparse for name in sparse.scheduled_totals}
    always = {name: weight for name, weight in weight_of.items() if name not in scheduled}
    gradients = {
        index: found
        for index, step in enumerate(plan.layer_steps)
        if (found := _gradients(plan, step, loads, always))
    }
    return SparseForms(loads=loads, gradients=gradients)


def _is_read_sparse(plan: Plan, name: str) -> bool:
    nodes = [n for step in plan.layer_steps for n in step.nodes if name in n.operands]
    return bool(nodes) and all(reads_sparse(node, plan.types, name) for node in nodes)


def _gradients(
    plan: Plan, step: LayerStep, loads: frozenset[str], weight_of: Mapping[str, str]
) -> dict[str, str]:
    patterns = {weight_of[name]: name for name in step.loads if name in loads}
    made = {name: node for node in step.nodes for name in node.results}
    return {
        sum_.total: patterns[weight_of[sum_.total]]
        for sum_ in step.sums
        if weight_of.get(sum_.total) in patterns
        and _is_given_sparse(plan, step, made.get(sum_.partial), sum_.partial)
    }


def _is_given_sparse(plan: Plan, step: LayerStep, node: Node | None, partial: str) -> bool:
    if node is None or not gives_sparse(node, plan.types):
        return False
    is_read = any(partial in each.operands for later in plan.layer_steps for each in later.nodes)
    return not is_read and sum(sum_.partial == partial for sum_ in step.sums) == 1
