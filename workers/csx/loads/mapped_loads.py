"""Loads of layer steps for a CS-2 that computes directly on MemoryX's memory."""

from collections.abc import Callable
from dataclasses import replace

from appliance.core.plans.plan import Plan
from appliance.core.plans.shard_plans import shard_plans
from appliance.streams.protocol import Store
from appliance.streams.slot_layout import SlotLayout
from appliance.streams.sparse_slots import pattern_of
from appliance.streams.stream_topology import (
    COMPUTED_SEGMENT,
    PACKED_SEGMENT,
    PATTERN_SEGMENT,
    STATE_SEGMENT,
    computed_layout,
    packed_layout,
    pattern_layout,
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
        copies = {name: each.weight for each in plan.sparse for name in each.copies}
        patterns = {name: _pattern(each.weight) for each in plan.sparse for name in each.loads}
        places = copies | {name: _packed(name) for name in plan.packed}
        self._names = tuple(
            {name: places.get(name, name) for name in step.loads}
            | {pattern_of(name): patterns[name] for name in step.loads if name in patterns}
            for step in plan.layer_steps
        )
        loaded = {name for names in self._names for name in names.values()}
        self._layouts = tuple(
            {
                STATE_SEGMENT: state_layout(shard.plan).of_only(loaded),
                COMPUTED_SEGMENT: computed_layout(shard.plan),
                PACKED_SEGMENT: _renamed(packed_layout(shard.plan), _packed),
                PATTERN_SEGMENT: _renamed(pattern_layout(shard.plan), _pattern),
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
        """Return what a layer step loads, by name, and the patterns of what is sparse of it.

        What is sparse has its values at the beginning of where the whole tensor would lie.
        """
        return {name: self._tensors[place] for name, place in self._names[layer_step].items()}


def _pattern(weight: str) -> str:
    return pattern_of(f"state {weight}")


def _packed(load: str) -> str:
    return f"packed {load}"


def _renamed(layout: SlotLayout, rename: Callable[[str], str]) -> SlotLayout:
    """Return a layout by names that no tensor of another segment has."""
    items = tuple(replace(item, name=rename(item.name)) for item in layout.items)
    return replace(layout, items=items)
