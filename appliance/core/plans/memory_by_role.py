"""What the pods of a job will take of their nodes' memory, as the plan's memory model foretells.

Beyond what every pod takes once it has loaded its libraries. A scheduler of pods goes by these
numbers; nothing else depends on them. They are stored beside the plan, and so say nothing of how
many systems and shards there will be.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from appliance.core.ids import Role
from appliance.core.ir.sharding import split_batch

_LAYERS_IN_FLIGHT = 3
"""Slots of a ring, of one layer step's message each."""
_BATCHES_IN_FLIGHT = 4
"""Of a system's share, from the input workers to its chief."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMemory:
    """The sizes that a plan's pods have memory for.

    Attributes:
        state_bytes: What MemoryX holds: state, other loads, packed copies, sums that wait for their
            update.
        layer_bytes: The most that one layer step loads, or sends as sums.
        sample_bytes: What a system holds of each sample of its share.
        fixed_bytes: What a system holds whatever its share.
        input_bytes: One sample of the batch.
        batch_size: Samples of the whole batch.
        kept_bytes: What a system keeps of loads within a step if it may keep all that is worth it.
    """

    state_bytes: int
    layer_bytes: int
    sample_bytes: int
    fixed_bytes: int
    input_bytes: int
    batch_size: int
    kept_bytes: int

    def by_role(
        self, *, num_systems: int, num_shards: int, keep_weight_bytes: int = 0
    ) -> Mapping[Role, int]:
        """Return the bytes of one pod of each role.

        Args:
            num_systems: Systems that share the batch.
            num_shards: Weight pods that share the state.
            keep_weight_bytes: What each system may keep of loads within a step.
        """
        share = split_batch(self.batch_size, num_systems)[0].size
        rings = _LAYERS_IN_FLIGHT * self.layer_bytes
        batches = _BATCHES_IN_FLIGHT * share * self.input_bytes
        kept = min(keep_weight_bytes, self.kept_bytes)
        return {
            Role.COORDINATOR: rings,
            Role.WEIGHT: -(-self.state_bytes // num_shards) + rings,
            Role.BROADCASTREDUCE: 2 * rings,
            Role.CHIEF: share * self.sample_bytes + self.fixed_bytes + rings + batches + kept,
            Role.ACTIVATION: batches,
            Role.WORKER: batches,
        }

    def to_json(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "PodMemory":
        """Return what `to_json` wrote; ValueError or TypeError if it did not."""
        return cls(**json.loads(text))
