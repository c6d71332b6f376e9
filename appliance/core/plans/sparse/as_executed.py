"""Which of a plan's sparse weights a session handles by their non-zeros; the one rule for it.

All of them are, as far as `mark_sparse` has proven that it can be done, with the exceptions here:
the session's pods then run the plan as if it named no sparse weight, which is always right.
"""

from collections.abc import Mapping
from dataclasses import replace

from appliance.core.plans.generation import loop_node
from appliance.core.plans.plan import Execution, Plan
from appliance.core.plans.sparse_weight import SparseWeight
from appliance.core.sparsity.encodings import MatrixShape


def as_executed(plan: Plan, num_shards: int) -> Plan:
    """Return the plan with the sparse weights that a session handles as such; not the others.

    Args:
        plan: A verified plan.
        num_shards: Shards of MemoryX.
    """
    reason = _dense_because(plan, num_shards)
    kept = () if reason else tuple(sparse for sparse in plan.sparse if not sparse.dense_because)
    return replace(plan, sparse=kept)


def whole_reasons(plan: Plan, num_shards: int) -> Mapping[str, str]:
    """Return why each sparse weight of a plan that is held whole is; by its value name."""
    reason = _dense_because(plan, num_shards)
    reasons = {
        sparse.weight: reason or sparse.dense_because or sparse.whole_because
        for sparse in plan.sparse
    }
    return {weight: because for weight, because in reasons.items() if because}


def _dense_because(plan: Plan, num_shards: int) -> str:
    if num_shards > 1:
        return "MemoryX has several shards"
    if plan.execution is Execution.PIPELINED:
        return "all weights stay on the systems"
    if loop_node(plan) is not None:
        return "the program generates tokens"
    return ""


def matrix_shapes(plan: Plan) -> Mapping[str, MatrixShape]:
    """Return the shape of each sparse weight, by its value name."""
    return {sparse.weight: _matrix(plan, sparse) for sparse in plan.sparse}


def _matrix(plan: Plan, sparse: SparseWeight) -> MatrixShape:
    type_ = plan.types[sparse.weight]
    return MatrixShape.of(type_.shape, type_.dtype.container.itemsize)
