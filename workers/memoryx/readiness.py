"""When a layer step's loads are ready: the order of events in MemoryX, derived from the plan.

A step is a fixed sequence of events: the step begins, the updates that need no sum run; the sums of
layer step 0 arrive, the updates that wait for them run; and so on. Events are counted through the
whole session. What layer step k of step t loads is ready when a certain number of events has
happened: a state tensor, when step t-1 has committed it; a computed value, when step t has computed
it.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from appliance.core.plans.deferred_sums import deferred_sums
from appliance.core.plans.plan import STEP_START, Plan
from appliance.streams.slot_layout import SlotLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point of the step at which updates become runnable.

    Attributes:
        layer_step: The layer step whose sums arrive; `STEP_START` for the step's beginning.
        updates: Indexes of the updates that run then, in order.
    """

    layer_step: int
    updates: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """Events that must have happened before a layer step's loads are ready."""

    same_step: int
    previous_step: int


def deferred_sum_layout(plan: Plan) -> SlotLayout:
    """Return where the sums lie that an update reads or commits after a later layer step."""
    return SlotLayout.of((name, plan.types[name]) for name in deferred_sums(plan))


class Readiness:
    """The events of a step, and how many of them each layer step's loads wait for.

    Args:
        plan: A verified plan.
        once_begun: Layer steps whose announcement says something of the step that it is of, and so
            waits until the step has begun.
    """

    def __init__(self, plan: Plan, *, once_begun: Collection[int] = ()) -> None:
        self.points = tuple(_points(plan))
        self.num_events = len(self.points) + len(plan.updates)
        arrival, completion = self._positions()
        computed = {
            sum_.total: arrival[index]
            for index, step in enumerate(plan.layer_steps)
            for sum_ in step.sums
        }
        committed: dict[str, int] = {}
        for index, update in enumerate(plan.updates):
            for node in update.nodes:
                computed.update(dict.fromkeys(node.results, completion[index]))
            committed.update({commit.state: completion[index] for commit in update.commits})
        begun = arrival[STEP_START]
        self._needs = tuple(
            _Need(
                same_step=max(
                    (
                        begun if index in once_begun else 0,
                        *(computed.get(name, 0) for name in step.loads),
                    )
                ),
                previous_step=max((committed.get(name, 0) for name in step.loads), default=0),
            )
            for index, step in enumerate(plan.layer_steps)
        )

    def events_needed(self, step: int, layer_step: int) -> int:
        """Return how many events of the session make a layer step's loads ready.

        Args:
            step: Step, from 0.
            layer_step: Index of the layer step.
        """
        need = self._needs[layer_step]
        same = step * self.num_events + need.same_step if need.same_step else 0
        previous = (step - 1) * self.num_events + need.previous_step if need.previous_step else 0
        return max(0, same, previous)

    def _positions(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return the number of events after each arrival and after each update."""
        arrival: dict[int, int] = {}
        completion: dict[int, int] = {}
        count = 0
        for point in self.points:
            count += 1
            arrival[point.layer_step] = count
            for update in point.updates:
                count += 1
                completion[update] = count
        return arrival, completion


def _points(plan: Plan) -> Iterator[Point]:
    for layer_step in range(STEP_START, len(plan.layer_steps)):
        updates = tuple(
            index for index, update in enumerate(plan.updates) if update.after == layer_step
        )
        yield Point(layer_step=layer_step, updates=updates)
