"""Loads of layer steps for a CS-2 that computes directly on MemoryX's memory."""

from appliance.core.plans.plan import Plan
from appliance.core.plans.shard_plans import shard_plans
from appliance.streams.protocol import Store
from appliance.streams.stream_topology import (
    COMPUTED_SEGMENT,
    STATE_SEGMENT,
    computed_layout,
    state_layout,
)
from appliance.streams.torch_views import Tensors, tensors_of


class MappedLoads:
    """What each layer step loads as views of MemoryX's memory.

    Args:
        plan: A verified plan.
        num_shards: Shards of MemoryX.
    """

    def __init__(self, plan: Plan, num_shards: int) -> None:
        self._names = tuple(step.loads for step in plan.layer_steps)
        loaded = {name for names in self._names for name in names}
        self._layouts = tuple(
            {
                STATE_SEGMENT: state_layout(shard.plan).of_only(loaded),
                COMPUTED_SEGMENT: computed_layout(shard.plan),
            }
            for shard in shard_plans(plan, num_shards)
        )
        self._tensors: Tensors = {}

    @property
    def num_shards(self) -> int:
        """Shards of MemoryX."""
        return len(self._layouts)

    def attach(self, shard: int, memory: Store) -> None:
        """Map a shard's store; the views live as long as it is open."""
        for segment, layout in self._layouts[shard].items():
            self._tensors |= tensors_of(layout, memory.attach(segment))

    def loads(self, layer_step: int) -> Tensors:
        """Return what a layer step loads, by name."""
        return {name: self._tensors[name] for name in self._names[layer_step]}
