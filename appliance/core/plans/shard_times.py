"""In which update of a step each MemoryX shard runs its nodes.

A node runs in its own update, except a small one that depends on results of other shards. Run
there, it would wait for the others at every layer, with a message for every layer. Instead it runs
in the last possible update: just before a tensor is updated with it, a state tensor that it reads
is overwritten or another shard that does not wait needs it; if none of these occurs, at the end of
the step. What a layer step loads is not moved, nor is what is updated together with weights:
gradients are not held longer, nor are weights announced later.
"""

from collections.abc import Mapping
from itertools import chain

from appliance.core.plans.plan import Plan
from appliance.core.plans.state_shards import SMALL_ELEMENTS, Placement

Times = Mapping[tuple[int, int], int]
"""Number of the update, by number of the node (in the order of the plan) and shard."""


def node_times(plan: Plan, placement: Placement) -> Times:
    """Return when each shard runs the nodes that it has.

    A node never runs before those that it reads, neither on its own shard nor on another.
    """
    return _Timer(plan, placement).run()


class _Timer:
    """Works out the times of one placement."""

    def __init__(self, plan: Plan, placement: Placement) -> None:
        self._plan, self._placement = plan, placement
        self._nodes = tuple(node for update in plan.updates for node in update.nodes)
        self._own = tuple(
            number for number, update in enumerate(plan.updates) for _ in update.nodes
        )
        self._loaded = frozenset(chain.from_iterable(step.loads for step in plan.layer_steps))
        self._makers: dict[str, frozenset[int]] = {
            state: frozenset({shard}) for state, shard in placement.state.items()
        }
        for node, shards in zip(self._nodes, placement.nodes, strict=True):
            self._makers.update(dict.fromkeys(node.results, shards))

    def run(self) -> Times:
        waits = self._waiting()
        times: dict[tuple[int, int], int] = {}
        limits, overwritten = self._commits()
        for index in reversed(range(len(self._nodes))):
            node = self._nodes[index]
            for shard in self._placement.nodes[index]:
                time = self._own[index]
                if (index, shard) in waits and not self._is_fixed(index):
                    read = (overwritten.get((name, shard)) for name in node.operands)
                    used = (limits.get((name, shard)) for name in node.results)
                    known = [each for each in (*read, *used) if each is not None]
                    time = min(known, default=len(self._plan.updates) - 1)
                times[index, shard] = time
            for shard in self._placement.nodes[index]:
                self._limit(limits, node.operands, shard, times[index, shard])
        return times

    def _waiting(self) -> frozenset[tuple[int, int]]:
        """Return the nodes, by shard, that depend on something of another shard."""
        waiting: set[tuple[int, int]] = set()
        values: set[tuple[str, int]] = set()
        for index, node in enumerate(self._nodes):
            for shard in self._placement.nodes[index]:
                if any(self._waits(name, shard, values) for name in node.operands):
                    waiting.add((index, shard))
                    values.update((name, shard) for name in node.results)
        return frozenset(waiting)

    def _waits(self, name: str, shard: int, values: set[tuple[str, int]]) -> bool:
        makers = self._makers.get(name)
        return (makers is not None and shard not in makers) or (name, shard) in values

    def _is_fixed(self, index: int) -> bool:
        node = self._nodes[index]
        names = (*node.operands, *node.results)
        return (
            index in self._placement.beside_weights
            or not self._loaded.isdisjoint(node.results)
            or max(self._plan.types[name].num_elements for name in names) > SMALL_ELEMENTS
        )

    def _commits(self) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
        """Return the last updates that may make a value, and that may read a state tensor."""
        limits: dict[tuple[str, int], int] = {}
        overwritten: dict[tuple[str, int], int] = {}
        for number, update in enumerate(self._plan.updates):
            for commit in update.commits:
                shard = self._placement.state[commit.state]
                overwritten[commit.state, shard] = number
                self._limit(limits, (commit.value,), shard, number)
        return limits, overwritten

    def _limit(
        self, limits: dict[tuple[str, int], int], names: tuple[str, ...], shard: int, time: int
    ) -> None:
        """Note that a shard uses values in an update, wherever they are made."""
        for name in names:
            makers = self._makers.get(name, frozenset())
            maker = shard if shard in makers else min(makers, default=shard)
            limits[name, maker] = min(time, limits.get((name, maker), time))
