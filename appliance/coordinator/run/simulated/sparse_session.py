"""What the masks of a session's weights let through, and what that saves; pure.

The plan says which weights are masked, MemoryX how much their masks let through.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from appliance.core.cluster.run import SimulatedStep
from appliance.core.ir.sharding import split_batch
from appliance.core.plans.micro_batches import visits
from appliance.core.plans.plan import Plan
from appliance.core.plans.sparse.as_executed import as_executed, matrix_shapes, whole_reasons
from appliance.core.sparsity.encodings import Encoding, encoded
from appliance.core.sparsity.masked_weights import MaskedWeights
from appliance.streams.sparse_slots import COUNTS
from appliance.streams.stream_topology import load_slots
from appliance.wafer.hardware import Machine
from appliance.wafer.timing.system_timing import plan_timing, system_timing

_NOT_SMALLER = "its mask lets so much through that all of it takes fewer bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseSession:
    """What is known of a session's masked weights when its steps begin.

    Attributes:
        weights: For people; None if the program masks none.
        densities: Of what layer steps load and send by its non-zeros, by value name.
        simulated: What a step takes on each system, by number; empty if no weight is sparse.
    """

    weights: MaskedWeights | None = None
    densities: Mapping[str, float] = field(default_factory=dict)
    simulated: Mapping[int, SimulatedStep] = field(default_factory=dict)


def mask_tensors(plan: Plan) -> tuple[str, ...]:
    """Return the resource names of the masks of a plan's weights, each once."""
    names = {tensor.value: tensor.resource_name for tensor in plan.state}
    return tuple(dict.fromkeys(names[sparse.mask] for sparse in plan.sparse))


def sparse_session(
    plan: Plan,
    nonzeros: Mapping[str, int],
    *,
    machine: Machine,
    num_systems: int,
    num_shards: int,
) -> SparseSession:
    """Return what a session's masks let through, and what that saves.

    Args:
        plan: What is loaded.
        nonzeros: Elements that each of `mask_tensors` lets through.
        machine: What each system is.
        num_systems: How many.
        num_shards: Shards of MemoryX.
    """
    if not plan.sparse:
        return SparseSession()
    names = {tensor.value: tensor.resource_name for tensor in plan.state}
    counts = {sparse.weight: nonzeros[names[sparse.mask]] for sparse in plan.sparse}
    shapes = matrix_shapes(plan)
    executed = as_executed(plan, num_shards)
    kept = tuple(
        sparse
        for sparse in executed.sparse
        if encoded(shapes[sparse.weight], counts[sparse.weight]).encoding is not Encoding.DENSE
    )
    reasons = dict(whole_reasons(plan, num_shards))
    held = [each for each in executed.sparse if each.members]
    reasons |= {each.weight: _NOT_SMALLER for each in held if each not in kept}
    weights = MaskedWeights(
        num_masked=len(plan.sparse),
        num_sparse=len(kept),
        num_elements=sum(shapes[sparse.weight].num_elements for sparse in plan.sparse),
        num_nonzeros=sum(counts.values()),
        dense_because=dict(Counter(reasons.values())),
    )
    if not kept:
        return SparseSession(weights=weights)
    densities = {
        name: counts[sparse.weight] / shapes[sparse.weight].num_elements
        for sparse in kept
        for name in (*sparse.loads, *sparse.totals)
    }
    dense = replace(executed, sparse=())
    return SparseSession(
        weights=replace(
            weights,
            broadcast_bytes=_broadcast_bytes(executed, counts, num_systems),
            dense_broadcast_bytes=_broadcast_bytes(dense, counts, num_systems),
            simulated_step_seconds=plan_timing(
                plan, machine=machine, num_systems=num_systems, densities=densities
            ).seconds,
            simulated_dense_step_seconds=plan_timing(
                plan, machine=machine, num_systems=num_systems
            ).seconds,
        ),
        densities=densities,
        simulated=_simulated(plan, densities, machine, num_systems),
    )


def _broadcast_bytes(plan: Plan, counts: Mapping[str, int], num_systems: int) -> int:
    """Return the bytes of values and patterns that layer steps load in one step."""
    slots = load_slots(plan, [step.loads for step in plan.layer_steps])
    weight_of = {name: sparse.weight for sparse in plan.sparse for name in sparse.loads}
    sizes = []
    for row in range(len(plan.layer_steps)):
        layout = slots.layout(row, tuple(counts[weight_of[name]] for name in slots.names(row)))
        sizes.append(sum(item.type.num_bytes for item in layout.items if item.name != COUNTS))
    return sum(sizes[visit.layer_step] for visit in visits(plan, num_systems))


def _simulated(
    plan: Plan, densities: Mapping[str, float], machine: Machine, num_systems: int
) -> Mapping[int, SimulatedStep]:
    """Return what each system does in a step; those with shares of one size do the same."""
    of_size: dict[int, SimulatedStep] = {}
    found: dict[int, SimulatedStep] = {}
    for index, share in enumerate(split_batch(plan.batch_size, num_systems)):
        if share.size not in of_size:
            timing = system_timing(
                plan, machine=machine, num_systems=num_systems, index=index, densities=densities
            )
            of_size[share.size] = SimulatedStep(
                seconds=timing.step_seconds,
                utilization=timing.utilization,
                weight_bytes=timing.weight_bytes,
                gradient_bytes=timing.gradient_bytes,
            )
        found[index] = of_size[share.size]
    return found
