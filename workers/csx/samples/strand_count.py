"""How many strands a system has: see `workers.csx.samples.strands`.

Strands avoid waking threads for each operation, but cost memory traffic: each writes all sums,
which are then added up. Which matters more depends on how much is computed for an element of the
sums, which for an ordinary layer is three multiply-adds for each row of its activations. Measured
on two threads with GPTs of width 256 to 1024 (docs/engine-performance.md).
"""

from appliance.core.ir.sharding import BatchShard
from appliance.core.plans.micro_batches import num_micro_batches, split_share
from appliance.core.plans.plan import Plan
from appliance.wafer.timing.program_operations import program_step

LEAST_WORK = 600.0
"""Multiply-adds of a strand for each element of the sums. With 780 strands are faster than threads
that share operations; with 190 they are as fast and take 7 % more processor time, and with 390 they
were slower on a machine that others used, in one run."""
_MOST_STRANDS = 8
"""One thread adds their sums up; nobody has measured where that would begin to hold them up."""
_MOST_UNEVENNESS = 1.05
"""Largest over average number of samples: at a layer step's end all wait for the largest strand."""


def num_strands(plan: Plan, share: BatchShard, *, num_systems: int, num_threads: int) -> int:
    """Return the number of strands of a system, a divisor of its threads.

    Args:
        plan: A verified plan.
        share: The system's share of the batch.
        num_systems: Systems that share the batch.
    """
    num_samples = split_share(share, num_micro_batches(plan, num_systems))[0].size
    candidates = [
        count
        for count in range(2, min(num_threads, num_samples, _MOST_STRANDS) + 1)
        if num_threads % count == 0
        and -(-num_samples // count) * count <= _MOST_UNEVENNESS * num_samples
    ]
    if not candidates:
        return 1
    work = _work_of_a_sample(plan) * num_samples
    return max((count for count in candidates if work / count >= LEAST_WORK), default=1)


def _work_of_a_sample(plan: Plan) -> float:
    """Return the multiply-adds of a sample for each element of the sums of a step."""
    macs = float(program_step(plan, name=plan.key).table.macs().sum())
    sums = (type_ for step in plan.layer_steps for _, type_ in plan.sum_types(step))
    return macs / max(1, sum(type_.num_elements for type_ in sums))
