"""Which values a layer step is sent, and which a CS-2 still has from before.

Weight streaming sends every layer step all that it loads, and the CS-2 drops it afterwards. In
pipelined execution a loaded value stays on the CS-2, so it is sent again only when it has changed:
computed values and state tensors that the step overwrites are sent once in every step, with the
first visit that loads them; everything else in the session's first step alone. No state tensor is
overwritten before its last load, so nothing changes between two visits of a step.

In weight streaming, too, a CS-2 may keep some loads until the last visit of the step that loads
them (`kept`); they are sent with the first one alone.
"""

from collections.abc import Iterator, Set
from dataclasses import dataclass

from appliance.core.plans.loads.kept import kept_loads
from appliance.core.plans.micro_batches import Visit, visits
from appliance.core.plans.plan import Execution, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliveries:
    """What the slots of the broadcast stream hold.

    Attributes:
        rows: The different contents, each the names of values in slot order.
        first_step: Row of each visit in the first step of a session.
        later_steps: Row of each visit in any other step.
        kept: Values that are sent once in a step and kept for later visits.
    """

    rows: tuple[tuple[str, ...], ...]
    first_step: tuple[int, ...]
    later_steps: tuple[int, ...]
    kept: frozenset[str] = frozenset()

    def row(self, step: int, visit: int) -> int:
        """Return the row of a visit.

        Args:
            step: Step of the session, from 0.
            visit: Position of the visit in the step.
        """
        return (self.later_steps if step else self.first_step)[visit]


def deliveries(plan: Plan, num_systems: int, *, keep_bytes: int = 0) -> Deliveries:
    """Return what SwarmX sends and every CS-2 takes, visit by visit.

    Args:
        plan: A verified plan, with the sparse weights that the session handles as such.
        num_systems: Number of systems of the session.
        keep_bytes: What a system may keep of loads within a step.
    """
    order = visits(plan, num_systems)
    kept = kept_loads(plan, order, keep_bytes)
    if plan.execution is Execution.WEIGHT_STREAMING and not kept:
        rows = tuple(visit.layer_step for visit in order)
        return Deliveries(
            rows=tuple(step.loads for step in plan.layer_steps), first_step=rows, later_steps=rows
        )
    if plan.execution is Execution.WEIGHT_STREAMING:
        first = later = tuple(_fresh(plan, order, resident=set(), stays=kept))
    else:
        every = frozenset(plan.types)
        first = tuple(_fresh(plan, order, resident=set(), stays=every))
        later = tuple(_fresh(plan, order, resident=_unchanging(plan), stays=every))
    rows_of = {names: index for index, names in enumerate(dict.fromkeys((*first, *later)))}
    return Deliveries(
        rows=tuple(rows_of),
        first_step=tuple(rows_of[names] for names in first),
        later_steps=tuple(rows_of[names] for names in later),
        kept=kept,
    )


def _fresh(
    plan: Plan, order: tuple[Visit, ...], resident: set[str], stays: Set[str]
) -> Iterator[tuple[str, ...]]:
    """Yield what each visit of a step loads that is not there; adds what stays to `resident`."""
    for visit in order:
        loads = plan.layer_steps[visit.layer_step].loads
        yield tuple(name for name in loads if name not in resident)
        resident.update(name for name in loads if name in stays)


def _unchanging(plan: Plan) -> set[str]:
    """Return the values that are the same in every step of a session."""
    overwritten = {
        commit.state
        for update in plan.updates
        for commit in update.commits
        if commit.value != commit.state
    }
    constants = {name for node in plan.update_constants for name in node.results}
    return constants | {tensor.value for tensor in plan.state} - overwritten
