"""Loads that a CS-2 keeps from the first layer step that loads them to the last of the same step.

Where weights come over a network, what the forward pass has received need not come again for the
backward pass. How much a system keeps is limited, as its memory would else grow with the model's
depth. Everything is sent anew in every step, since updates change it.
"""

from collections.abc import Sequence

from appliance.core.plans.generation import loop_node
from appliance.core.plans.loads.packed import streamed_type
from appliance.core.plans.micro_batches import Visit
from appliance.core.plans.plan import Execution, Plan


def kept_loads(plan: Plan, order: Sequence[Visit], budget_bytes: int) -> frozenset[str]:
    """Return the loads that every system keeps.

    Those with the fewest visits in between come first: they are held for the shortest time. A
    sparse weight is not kept, as its size is known late; and where all loads stay, as in pipelined
    execution and in a loop over positions, there is nothing to keep.

    Args:
        plan: A verified plan, with the sparse weights that the session handles as such.
        order: The visits of a step.
        budget_bytes: Bytes that a system may keep.
    """
    if not budget_bytes or plan.execution is Execution.PIPELINED or loop_node(plan) is not None:
        return frozenset()
    sparse = {name for each in plan.sparse for name in each.loads}
    distances = {
        name: last - first
        for name, (first, last) in first_and_last_visits(plan, order).items()
        if last > first and name not in sparse
    }
    kept: set[str] = set()
    for name in sorted(distances, key=distances.__getitem__):
        num_bytes = streamed_type(plan, name).num_bytes
        if num_bytes <= budget_bytes:
            kept.add(name)
            budget_bytes -= num_bytes
    return frozenset(kept)


def first_and_last_visits(plan: Plan, order: Sequence[Visit]) -> dict[str, tuple[int, int]]:
    """Return the positions of the first and the last visit that loads each value.

    Args:
        plan: A verified plan.
        order: The visits of a step.
    """
    found: dict[str, tuple[int, int]] = {}
    for position, visit in enumerate(order):
        for name in plan.layer_steps[visit.layer_step].loads:
            found[name] = (found.get(name, (position,))[0], position)
    return found


def most_kept_bytes(plan: Plan) -> int:
    """Return what a system keeps that may keep everything, however many micro-batches it has."""
    order = [
        Visit(layer_step=index, micro_batch=micro_batch, is_first=False, is_last=False)
        for micro_batch in range(1 if plan.micro_batch_size is None else 2)
        for index in range(len(plan.layer_steps))
    ]
    every = sum(streamed_type(plan, name).num_bytes for name in plan.types)
    return sum(streamed_type(plan, name).num_bytes for name in kept_loads(plan, order, every))
