"""Whether a step takes new masks, which systems have to know before they send gradients."""

from collections.abc import Collection, Mapping

from appliance.core.plans.plan import Plan
from appliance.core.plans.sparse.mask_schedule import mask_schedule
from appliance.core.sparsity.encodings import MatrixShape
from appliance.numerics.programs.program import Program
from appliance.streams.torch_views import Tensors


class MaskDecision:
    """How many values of scheduled gradients a step needs; see `SparseWeight.scheduled_totals`.

    Args:
        plan: The plan of the session.
        shapes: Shape of each sparse weight, by value name.
        state: State tensors in the store, by value name.
    """

    def __init__(self, plan: Plan, *, shapes: Mapping[str, MatrixShape], state: Tensors) -> None:
        self._state, self._shapes = state, shapes
        scheduled = {name for sparse in plan.sparse for name in sparse.scheduled_totals}
        self.layer_steps: Collection[int] = frozenset(
            index
            for index, step in enumerate(plan.layer_steps)
            if not scheduled.isdisjoint(sum_.total for sum_ in step.sums)
        )
        self._conditions: tuple[str, ...] = ()
        self._takes_new_masks = False
        schedule = mask_schedule(plan) if scheduled else None
        if schedule is not None:
            self._conditions = schedule.conditions
            self._deciding = Program(
                schedule.deciding,
                types={
                    name: plan.types[name] for node in schedule.deciding for name in node.operands
                },
                live_out=schedule.conditions,
            )

    def begin(self, step: int) -> None:
        """Decide for a step that is about to begin: the state is that of the end of the last one.

        Args:
            step: Its number.
        """
        if self._conditions:
            values = dict(self._state)
            self._deciding.run(values, step=step)
            self._takes_new_masks = any(bool(values[name]) for name in self._conditions)

    def num_asked(self, weight: str, num_values: int) -> int:
        """Return how many values of a weight's scheduled gradients the step needs.

        Args:
            weight: Its value name.
            num_values: What its mask lets through.
        """
        return self._shapes[weight].num_elements if self._takes_new_masks else num_values
