"""Masked weights on real processes: by their non-zeros they give the numbers of the whole."""

import dataclasses

import numpy as np
import pytest

from appliance.core.plans.plan import Precision
from appliance.streams.slot_layout import ALIGNMENT_BYTES
from tests.support.engine import make_engine, separate_hosts
from tests.support.masked_plans import CHANGING, TIED, dense, masked_data, masked_plan
from tests.support.two_strands import TWO_STRANDS

pytestmark = pytest.mark.slow


def run_both(directory, plan, data, **options):
    """Return what sessions of the plan yield: as it is, and as if it named no sparse weight."""
    state, batches = data
    with make_engine(directory, **options) as engine:
        results = [
            engine.run(each, state, batches, session=number, checkpoint_steps=[1, len(batches)])
            for number, each in enumerate((plan, dense(plan)), start=1)
        ]
        assert engine.job.coordinator.failures.empty()
    return results


def assert_same_numbers(found, wanted):
    for one, other in zip(found.outputs, wanted.outputs, strict=True):
        for name, value in other.items():
            np.testing.assert_allclose(one[name], value, rtol=1e-6, err_msg=name)
    for step, state in wanted.snapshots.items():
        for name, value in state.items():
            got = found.snapshots[step][name]
            np.testing.assert_allclose(got, value, rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("density", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("num_systems", [1, 2])
def test_nonzeros_give_the_numbers_of_the_whole(tmp_path, num_systems, density):
    plan = masked_plan()
    assert [sparse.dense_because for sparse in plan.sparse] == ["", ""]
    data = masked_data(plan, density=density)
    found, wanted = run_both(tmp_path, plan, data, num_systems=num_systems)
    assert_same_numbers(found, wanted)


@pytest.mark.parametrize(
    "options",
    [
        {"streams": "mapped"},
        {"num_systems": 2, "streams": "network"},
        {"num_systems": 3, "fan_out": 2},
        TWO_STRANDS,
        {"num_shards": 2},
        {"memory_bytes": "1"},
    ],
    ids=["mapped", "network", "tree", "strands", "shards", "disk"],
)
def test_however_pods_are_joined_the_numbers_are_those_of_the_whole(tmp_path, options):
    plan = masked_plan()
    options = {"num_systems": 1, **options}
    if options.get("streams") == "network":
        options["hosts"] = separate_hosts(options["num_systems"])
        del options["streams"]
    found, wanted = run_both(tmp_path, plan, masked_data(plan, density=0.2), **options)
    assert_same_numbers(found, wanted)


def test_micro_batches_of_masked_weights_add_up(tmp_path):
    plan = dataclasses.replace(masked_plan(), micro_batch_size=1)
    data = masked_data(plan, density=0.2)
    found, wanted = run_both(tmp_path, plan, data, num_systems=2)
    assert_same_numbers(found, wanted)


def test_rounded_programs_give_the_numbers_of_the_whole(tmp_path):
    plan = masked_plan(Precision.EXACT)
    found, wanted = run_both(tmp_path, plan, masked_data(plan, density=0.2), num_systems=1)
    assert_same_numbers(found, wanted)


@pytest.mark.parametrize("density", [0.3, 1.0])
@pytest.mark.parametrize("num_systems", [1, 2])
def test_a_tied_weight_whose_gradients_are_added_and_clipped_is_held_by_its_nonzeros(
    tmp_path, num_systems, density
):
    plan = masked_plan(text=TIED)
    assert [sparse.dense_because for sparse in plan.sparse] == ["", ""]
    data = masked_data(plan, density=density)
    found, wanted = run_both(tmp_path, plan, data, num_systems=num_systems)
    assert_same_numbers(found, wanted)


@pytest.mark.parametrize(("num_systems", "density"), [(1, 0.3), (3, 1.0)])
@pytest.mark.parametrize("algorithm", CHANGING)
def test_nonzeros_of_a_mask_that_changes_give_the_numbers_of_the_whole(
    tmp_path, algorithm, num_systems, density
):
    plan = masked_plan(text=CHANGING[algorithm])
    assert all(sparse.is_gathered for sparse in plan.sparse)
    data = masked_data(plan, density=density)
    found, wanted = run_both(tmp_path, plan, data, num_systems=num_systems)
    assert_same_numbers(found, wanted)
    masks = {sparse.mask for sparse in plan.sparse}
    for tensor in plan.state:
        if tensor.value in masks:
            first, last = (each[tensor.resource_name] for each in found.snapshots.values())
            assert (first != last).any(), "steps 2 and 4 take a new mask"


def test_gradients_come_whole_only_in_steps_that_take_a_new_mask(tmp_path):
    plan = masked_plan(text=CHANGING["rigl"])
    data = masked_data(plan, density=0.2)
    found, wanted = run_both(tmp_path, plan, data, num_systems=2)
    less, whole = (
        run.readings["broadcastreduce", 0]["wsc_swarmx_reduced_bytes"] for run in (found, wanted)
    )
    (sparse,) = (each for each in plan.sparse if each.scheduled_totals)
    names = {tensor.value: tensor.resource_name for tensor in plan.state}
    masks = [found.snapshots[step][names[sparse.mask]] for step in (1, 5)]
    first, later = (np.count_nonzero(~mask.astype(np.bool_)) for mask in masks)
    # Steps 2 and 4 take a new mask; that of step 2 has as many values as that of step 4.
    num_left_out = 2 * (first + later + later)
    padding = 5 * 2 * 2 * ALIGNMENT_BYTES
    assert 0 <= 4 * num_left_out - (whole - less) <= padding


GMP = CHANGING["gmp"]


@pytest.mark.parametrize(
    ("plan", "options"),
    [
        (masked_plan(text=GMP), {"num_systems": 1, "streams": "mapped"}),
        (masked_plan(text=GMP), {"num_systems": 2, "hosts": separate_hosts(2)}),
        (dataclasses.replace(masked_plan(text=GMP), micro_batch_size=1), {"num_systems": 2}),
        (masked_plan(Precision.EXACT, text=GMP), {"num_systems": 1}),
    ],
    ids=["mapped", "network", "micro-batches", "exact"],
)
def test_a_mask_that_changes_gives_the_numbers_of_the_whole_however_pods_are_joined(
    tmp_path, plan, options
):
    found, wanted = run_both(tmp_path, plan, masked_data(plan, density=0.2), **options)
    assert_same_numbers(found, wanted)
