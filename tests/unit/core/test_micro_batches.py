from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.errors import InternalError, UserError
from appliance.core.ir.sharding import BatchShard, split_batch
from appliance.core.plans.micro_batches import (
    WaferLimits,
    num_micro_batches,
    segments,
    split_share,
    visits,
)
from appliance.core.plans.plan import verify
from tests.support.plans import two_layer_plan


def plan_with_statistic():
    """Return a plan whose second half waits for the sum that its loss step sends."""
    plan = two_layer_plan(batch_size=5)
    *before, second, last = plan.layer_steps
    return replace(
        plan, layer_steps=(*before, replace(second, loads=(*second.loads, "loss")), last)
    )


def visited(plan, num_systems=1):
    return [(visit.layer_step, visit.micro_batch) for visit in visits(plan, num_systems)]


def test_a_share_at_once_visits_every_layer_step_once():
    plan = two_layer_plan()
    assert visited(plan) == [(step, 0) for step in range(5)]
    assert all(visit.is_first and visit.is_last for visit in visits(plan, 1))


def test_a_micro_batch_runs_through_all_layer_steps_before_the_next_one():
    plan = replace(two_layer_plan(batch_size=5), micro_batch_size=3)
    assert segments(plan) == (range(5),)
    assert visited(plan) == [(step, part) for part in range(2) for step in range(5)]
    assert [visit.is_last for visit in visits(plan, 1)] == [False] * 5 + [True] * 5
    assert visited(plan, num_systems=2) == [(step, 0) for step in range(5)]


def test_a_value_that_comes_of_a_sum_is_waited_for_by_all_micro_batches():
    plan = replace(plan_with_statistic(), micro_batch_size=3)
    verify(plan)
    assert segments(plan) == (range(3), range(3, 5))
    first = [(step, part) for part in range(2) for step in range(3)]
    second = [(step, part) for part in range(2) for step in range(3, 5)]
    assert visited(plan) == first + second


@given(st.integers(1, 50), st.integers(1, 8), st.integers(1, 12))
def test_micro_batches_cover_every_share_in_order_and_none_is_too_large(size, systems, micro_batch):
    size = max(size, systems)
    plan = two_layer_plan(batch_size=size, features=101, hidden=102, classes=103)
    plan = replace(plan, micro_batch_size=micro_batch)
    count = num_micro_batches(plan, systems)
    parts = [part for s in split_batch(size, systems) for part in split_share(s, count)]
    assert [n for p in parts for n in range(p.offset, p.offset + p.size)] == list(range(size))
    assert max(part.size for part in parts) <= micro_batch


def test_the_last_micro_batch_of_a_smaller_share_may_be_empty():
    share = BatchShard(batch_size=5, offset=3, size=2)
    assert [(part.offset, part.size) for part in split_share(share, 3)] == [(3, 1), (4, 1), (5, 0)]


def test_a_micro_batch_without_samples_is_refused():
    with pytest.raises(UserError, match="A micro-batch of 0 samples"):
        WaferLimits(micro_batch_size=0)
    with pytest.raises(InternalError, match="micro-batches of 0 samples"):
        verify(replace(two_layer_plan(), micro_batch_size=0))
