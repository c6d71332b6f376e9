"""How many MemoryX shards a job gets: what its user allows, and what its tensors need."""

from dataclasses import dataclass

from appliance.core.plans.deferred_sums import deferred_sums
from appliance.core.plans.plan import Plan
from appliance.core.plans.shard_plans import shard_plans
from appliance.core.plans.state_shards import place_state

MAX_SHARDS = 64
"""More would be more pods than a job's other roles have on the largest cluster that was shown."""
TENSOR_SHARE = 0.6
"""Share of the memory of MemoryX that tensors may take; rings, values of an update, files' pages
and Python need the rest. A node is given no more; a pod with more keeps its state in a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNodes:
    """The nodes that one job's MemoryX may have.

    Attributes:
        num_nodes: How many.
        node_bytes: Memory of each; 0 if unknown.
    """

    num_nodes: int = 1
    node_bytes: int = 0

    def __str__(self) -> str:
        return f"{self.num_nodes},{self.node_bytes}"

    @classmethod
    def parse(cls, text: str) -> "MemoryNodes":
        """Return what `str` wrote; one node of unknown size for an empty text."""
        if not text:
            return ONE_NODE
        num_nodes, node_bytes = text.split(",")
        return cls(num_nodes=int(num_nodes), node_bytes=int(node_bytes))


ONE_NODE = MemoryNodes()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardCount:
    """How many shards, and why.

    Attributes:
        num_shards: How many.
        reason: What the user is told, as a sentence; empty if there is nothing to tell.
    """

    num_shards: int = 1
    reason: str = ""


def may_have_shards(max_shards: int, nodes: MemoryNodes) -> bool:
    """Whether a job may get more than one shard, so that its plan has to be looked at.

    Args:
        max_shards: Shards at most; 0 leaves it to the appliance.
        nodes: What there is.
    """
    return max_shards > 1 or (max_shards == 0 and nodes.num_nodes > 1 and nodes.node_bytes > 0)


def count_shards(plan: Plan, max_shards: int, nodes: MemoryNodes) -> ShardCount:
    """Return the number of shards for a program: as many as allowed, or as its state needs.

    Args:
        plan: A verified plan.
        max_shards: Shards at most; 0 leaves it to the appliance.
        nodes: What there is.
    """
    if not may_have_shards(max_shards, nodes):
        return ShardCount()
    num_bytes = sum(tensor.type.num_bytes for tensor in plan.state)
    if max_shards:
        wanted = min(max_shards, MAX_SHARDS)
        why = f"max_wgt_servers is {max_shards}"
    else:
        wanted = _num_needed(plan, nodes)
        why = f"a MemoryX node has {nodes.node_bytes:,} bytes"
    wanted = max(1, wanted)
    families = max(1, place_state(plan, 1).num_families)
    found = min(wanted, families)
    if found < wanted:
        return ShardCount(
            num_shards=found,
            reason=(
                f"The state is put on {found} instead of {wanted} MemoryX shards: its "
                f"{len(plan.state):,} tensors are updated in {families} "
                f"part{'s' if families > 1 else ''}, which cannot be divided."
            ),
        )
    if found == 1:
        return ShardCount()
    return ShardCount(
        num_shards=found,
        reason=(
            f"The state, {num_bytes:,} bytes, is put on {found} MemoryX shards, balanced by bytes "
            f"({why})."
        ),
    )


def _num_needed(plan: Plan, nodes: MemoryNodes) -> int:
    """Return the least shards of which each fits a node, or as many as there are nodes."""
    room, most = int(nodes.node_bytes * TENSOR_SHARE), min(nodes.num_nodes, MAX_SHARDS)
    for num_shards in range(1, most):
        if max(_held_bytes(shard.plan) for shard in shard_plans(plan, num_shards)) <= room:
            return num_shards
    return most


def _held_bytes(plan: Plan) -> int:
    """Return the bytes of what a shard keeps: state, loads that are not state, deferred sums."""
    held = {tensor.value for tensor in plan.state}
    held.update(name for step in plan.layer_steps for name in step.loads)
    held.update(deferred_sums(plan))
    return sum(plan.types[name].num_bytes for name in held)
