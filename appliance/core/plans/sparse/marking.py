"""Finds the weights that a program masks, and says so in its plan."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from appliance.core.ir.tensors import DType
from appliance.core.plans.plan import STEP_START, LayerStep, Plan
from appliance.core.plans.sparse.families import (
    Context,
    Family,
    NotProvenError,
    prove,
    zero_products,
)
from appliance.core.plans.sparse.gathered import gathered_weight
from appliance.core.plans.sparse.mask_schedule import mask_schedule
from appliance.core.plans.sparse_weight import SparseWeight


def mark_sparse(plan: Plan) -> Plan:
    """Return a plan that names its sparse weights; nothing else of it changes.

    Args:
        plan: A plan whose update part has types and attributes.
    """
    return replace(plan, sparse=tuple(_sparse_weights(Context.of(plan))))


def _sparse_weights(context: Context) -> Iterator[SparseWeight]:
    plan = context.plan
    loaded = {name for step in plan.layer_steps for name in step.loads}
    changed = {
        commit.state
        for update in plan.updates
        for commit in update.commits
        if commit.value != commit.state
    }
    schedule = mask_schedule(plan)
    kept = None if schedule is None else Context.of(schedule.kept)
    for tensor in plan.state:
        if tensor.type.dtype is not DType.I1 or not tensor.type.shape:
            continue
        products: dict[str, list[str]] = defaultdict(list)
        for state, product in zero_products(context, tensor.value):
            if product in loaded and plan.types[product].dtype.container.itemsize == 4:
                products[state].append(product)
        for weight, loads in products.items():
            found = SparseWeight(weight=weight, mask=tensor.value, loads=tuple(loads))
            if tensor.value in changed:
                yield gathered_weight(context, kept, found, "the program changes its mask")
            elif len(products) > 1:
                yield gathered_weight(
                    context, kept, found, "its mask is also that of other weights"
                )
            else:
                yield _with_family(context, kept, found)


def _with_family(context: Context, kept: Context | None, found: SparseWeight) -> SparseWeight:
    try:
        family = prove(context, found.weight, found.mask)
    except NotProvenError as reason:
        return gathered_weight(context, kept, found, str(reason))
    plan = context.plan
    state = [tensor.value for tensor in plan.state]
    loads = dict.fromkeys(n for step in plan.layer_steps for n in step.loads if n in family.zero)
    copies = _copies(plan, family, found.weight, tuple(loads))
    for name in loads:
        # The plan of non-zeros does not compute what is the same as another value.
        if name in family.alias and name not in copies:
            changed = f"%{name} is sent after %{found.weight} has changed"
            return gathered_weight(context, kept, found, changed)
    return replace(
        found,
        loads=tuple(loads),
        members=tuple(name for name in state if name in family.values),
        copies=copies,
        masked_totals=_totals(plan.layer_steps, family),
        totals=_totals([s for s in plan.layer_steps if {*loads} & {*s.loads}], family),
    )


def _copies(plan: Plan, family: Family, weight: str, loads: tuple[str, ...]) -> tuple[str, ...]:
    """Return the loads in whose place the weight itself can be sent."""
    same = tuple(name for name in loads if family.resolve(name) == weight)
    last_load = max(
        (index for index, step in enumerate(plan.layer_steps) if {*same} & {*step.loads}),
        default=STEP_START,
    )
    overwritten = [
        update.after
        for update in plan.updates
        for commit in update.commits
        if commit.state == weight and family.resolve(commit.value) != weight
    ]
    return same if last_load <= min(overwritten, default=last_load) else ()


def _totals(steps: Sequence[LayerStep], family: Family) -> tuple[str, ...]:
    """Return the sums of the family that layer steps send."""
    return tuple(sum_.total for step in steps for sum_ in step.sums if sum_.total in family.values)
