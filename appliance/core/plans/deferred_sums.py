"""Sums of gradients that MemoryX holds until a later update needs them."""

from appliance.core.plans.plan import Plan


def deferred_sums(plan: Plan) -> tuple[str, ...]:
    """Return the sums that an update reads or commits after a later layer step, in that order.

    Args:
        plan: A verified plan. With clipping by the norm of all gradients these are all of them.
    """
    arrival = {
        sum_.total: index for index, step in enumerate(plan.layer_steps) for sum_ in step.sums
    }
    late: dict[str, None] = {}
    for update in plan.updates:
        read = [name for node in update.nodes for name in node.operands]
        read += [commit.value for commit in update.commits]
        late.update(dict.fromkeys(n for n in read if arrival.get(n, update.after) < update.after))
    return tuple(late)
