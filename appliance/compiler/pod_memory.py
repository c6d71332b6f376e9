"""What a plan's pods take of memory: the wafer's model, and what is sent and stored around it.

A CS-2 worker plays the wafer and the memory around it, so what leaves the wafer between layer steps
counts as well (decision 0025), and a 16-bit value counts as what carries it here.
"""

from collections.abc import Iterable
from math import ceil

from appliance.core.plans.deferred_sums import deferred_sums
from appliance.core.plans.loads.kept import most_kept_bytes
from appliance.core.plans.memory_by_role import PodMemory
from appliance.core.plans.plan import Plan
from appliance.core.plans.sparse.as_executed import as_executed
from appliance.wafer.timing.plan_memory import num_bytes, plan_memory
from appliance.wafer.timing.program_operations import score_values

_PACKED_BYTES = 2


def pod_memory(plan: Plan) -> PodMemory:
    """Return the sizes that the pods of a verified plan have memory for."""
    held = {tensor.value for tensor in plan.state} | set(deferred_sums(plan))
    held.update(name for step in plan.layer_steps for name in step.loads)
    layers = [
        max(_bytes(plan, step.loads), _bytes(plan, [each.partial for each in step.sums]))
        for step in plan.layer_steps
    ]
    on_wafer = plan_memory(plan, score_values(plan))
    names = [value.name for value in on_wafer.values]
    widening = _bytes(plan, names) / max(sum(num_bytes(plan, name) for name in names), 1.0)
    inputs = _bytes(plan, [tensor.value for tensor in plan.inputs])
    return PodMemory(
        state_bytes=_bytes(plan, held) + _packed_bytes(plan),
        layer_bytes=max(layers, default=0),
        sample_bytes=ceil((on_wafer.working_bytes + on_wafer.boundary_bytes) * widening),
        fixed_bytes=ceil(on_wafer.fixed_bytes * widening),
        input_bytes=-(-inputs // plan.batch_size),
        batch_size=plan.batch_size,
        kept_bytes=most_kept_bytes(as_executed(plan, 1)),
    )


def _packed_bytes(plan: Plan) -> int:
    """Return what copies of loads take that are sent in two bytes a value."""
    return sum(_PACKED_BYTES * plan.types[name].num_elements for name in plan.packed)


def _bytes(plan: Plan, names: Iterable[str]) -> int:
    return sum(plan.types[name].num_bytes for name in names)
