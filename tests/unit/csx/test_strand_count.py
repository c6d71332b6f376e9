"""When a system's threads divide its samples, and when they share every operation."""

import dataclasses

import pytest

from appliance.core.ir.sharding import split_batch
from tests.support.plans import two_layer_plan
from workers.csx.samples.strand_count import LEAST_WORK, num_strands


def strands(batch_size, *, threads=2, systems=1, system=0, micro_batch_size=None):
    plan = two_layer_plan(batch_size=batch_size, features=40, hidden=48, classes=20)
    plan = dataclasses.replace(plan, micro_batch_size=micro_batch_size)
    share = split_batch(plan.batch_size, systems)[system]
    return num_strands(plan, share, num_systems=systems, num_threads=threads)


ENOUGH = 2 * round(LEAST_WORK / 2)
"""Samples for two strands: with some two multiply-adds for a weight and sample."""


@pytest.mark.parametrize(
    ("threads", "found"), [(1, 1), (2, 2), (3, 3), (4, 4), (7, 7), (16, 8), (22, 2), (11, 1)]
)
def test_strands_divide_the_threads(threads, found):
    assert strands(64 * ENOUGH, threads=threads) == found


def test_with_too_little_work_for_what_is_summed_threads_share_operations():
    assert strands(ENOUGH) == 2
    assert strands(ENOUGH // 2) == 1


def test_what_counts_is_what_is_computed_at_a_time():
    assert strands(4 * ENOUGH, systems=4, system=3) == 2
    assert strands(4 * ENOUGH, systems=8) == 1
    assert strands(4 * ENOUGH, micro_batch_size=ENOUGH) == 2
    assert strands(4 * ENOUGH, micro_batch_size=ENOUGH // 2) == 1


def test_a_strand_with_more_samples_than_another_is_not_worth_it():
    plan = two_layer_plan(batch_size=3, features=40, hidden=48, classes=20)
    assert num_strands(plan, split_batch(3, 1)[0], num_systems=1, num_threads=2) == 1
