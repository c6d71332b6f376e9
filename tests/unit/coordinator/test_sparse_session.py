"""What the masks of a session let through, and what that saves."""

import dataclasses

import pytest

from appliance.coordinator.run.simulated.sparse_session import mask_tensors, sparse_session
from appliance.core.plans.plan import Execution
from appliance.wafer.hardware import parse_machine
from appliance.wafer.timing.system_timing import plan_timing, system_timing
from tests.support.masked_plans import masked_plan

MACHINE = parse_machine("cs2")


def session_of(plan, kept, *, num_systems=1, num_shards=1):
    """Return a session in which every mask lets this part of its weight through."""
    sizes = {tensor.resource_name: tensor.type.num_elements for tensor in plan.state}
    counts = {name: int(sizes[name] * kept) for name in mask_tensors(plan)}
    return sparse_session(
        plan, counts, machine=MACHINE, num_systems=num_systems, num_shards=num_shards
    ), counts


def test_density_bytes_and_simulated_time_follow_from_the_counts():
    plan = masked_plan()
    found, counts = session_of(plan, 0.125)
    weights = found.weights
    assert (weights.num_masked, weights.num_sparse) == (len(plan.sparse), len(plan.sparse))
    assert weights.num_nonzeros == sum(counts.values())
    assert weights.density == pytest.approx(0.125, abs=0.01)
    assert 0 < weights.broadcast_bytes < weights.dense_broadcast_bytes
    assert weights.saved_bytes == weights.dense_broadcast_bytes - weights.broadcast_bytes
    assert (
        weights.simulated_dense_step_seconds
        == plan_timing(plan, machine=MACHINE, num_systems=1).seconds
    )
    assert weights.speedup >= 1
    assert not weights.dense_because


def test_every_system_is_told_the_time_of_its_own_share():
    plan = masked_plan()
    found, _ = session_of(plan, 0.125, num_systems=2)
    assert set(found.simulated) == {0, 1}
    for index, step in found.simulated.items():
        timing = system_timing(
            plan, machine=MACHINE, num_systems=2, index=index, densities=found.densities
        )
        assert (step.seconds, step.utilization) == (timing.step_seconds, timing.utilization)
        assert step.weight_bytes == timing.weight_bytes
        assert step.seconds == found.weights.simulated_step_seconds


@pytest.mark.parametrize(
    ("plan", "kept", "num_shards", "reason"),
    [
        (masked_plan(), 0.125, 2, "MemoryX has several shards"),
        (
            dataclasses.replace(masked_plan(), execution=Execution.PIPELINED),
            0.125,
            1,
            "all weights stay on the systems",
        ),
        (masked_plan(), 1.0, 1, "its mask lets so much through that all of it takes fewer bytes"),
    ],
)
def test_weights_that_stay_whole_say_why(plan, kept, num_shards, reason):
    found, _ = session_of(plan, kept, num_shards=num_shards)
    assert found.weights.num_sparse == 0
    assert found.weights.dense_because == {reason: len(plan.sparse)}
    assert found.weights.speedup is None
    assert not found.densities
    assert not found.simulated


def test_a_plan_without_masks_has_nothing_to_say():
    plan = dataclasses.replace(masked_plan(), sparse=())
    assert mask_tensors(plan) == ()
    assert session_of(plan, 1.0)[0].weights is None
