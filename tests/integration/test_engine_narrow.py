"""Weights sent in two bytes a value: half the bytes, and not one bit of a result changes."""

import dataclasses

import pytest

from appliance.core.plans.plan import Execution
from tests.support.engine import make_engine, separate_hosts
from tests.support.masked_plans import TEXT, TIED, masked_data
from tests.support.narrow_plans import FORMATS, narrow_plan
from tests.support.two_strands import TWO_STRANDS

pytestmark = pytest.mark.slow

COPIED = "wsc_swarmx_broadcast_copied_bytes"
LAST = 4


def run_both(directory, plan, *, density=0.3, **options):
    """Return what sessions of a plan yield: with packed loads, and with none."""
    state, batches = masked_data(plan, density=density, num_steps=LAST)
    with make_engine(directory, **options) as engine:
        results = [
            engine.run(each, state, batches, session=number, checkpoint_steps=[1, LAST])
            for number, each in enumerate((plan, dataclasses.replace(plan, packed={})), start=1)
        ]
        assert engine.job.coordinator.failures.empty()
    return results


def assert_same_bits(one, other):
    for here, there in zip(one.outputs, other.outputs, strict=True):
        for name, tensor in here.items():
            assert tensor.tobytes() == there[name].tobytes(), name
    for number, snapshot in one.snapshots.items():
        for name, tensor in snapshot.items():
            assert tensor.tobytes() == other.snapshots[number][name].tobytes(), name


def copied(result):
    return result.readings["broadcastreduce", 0][COPIED]


def saved(plan):
    """Return the bytes that packing saves in each step."""
    elements = (
        plan.types[name].num_elements
        for step in plan.layer_steps
        for name in step.loads
        if name in plan.packed
    )
    return 2 * sum(elements)


@pytest.mark.parametrize("half", FORMATS)
def test_weights_of_every_format_take_two_bytes_and_give_the_same_bits(tmp_path, half):
    plan = narrow_plan(half=half)
    found, wanted = run_both(tmp_path, plan, num_systems=2)
    assert_same_bits(found, wanted)
    assert copied(wanted) - copied(found) == LAST * saved(plan)
    assert saved(plan) > 0.4 * copied(wanted) / LAST


@pytest.mark.parametrize(
    "options",
    [
        {"streams": "mapped"},
        {"hosts": separate_hosts(2)},
        {"num_systems": 3, "fan_out": 2},
        TWO_STRANDS,
        {"num_shards": 2},
        {"memory_bytes": "1"},
    ],
    ids=["mapped", "network", "tree", "strands", "shards", "disk"],
)
def test_however_pods_are_joined_the_bits_are_the_same(tmp_path, options):
    found, wanted = run_both(
        tmp_path, narrow_plan(half="cbfloat16"), **{"num_systems": 2, **options}
    )
    assert_same_bits(found, wanted)


@pytest.mark.parametrize(
    "changes",
    [{"micro_batch_size": 1}, {"execution": Execution.PIPELINED}],
    ids=["micro-batches", "pipelined"],
)
def test_however_a_step_is_executed_the_bits_are_the_same(tmp_path, changes):
    plan = dataclasses.replace(narrow_plan(half="bfloat16"), **changes)
    found, wanted = run_both(tmp_path, plan, num_systems=2)
    assert_same_bits(found, wanted)
    assert copied(found) < copied(wanted)


@pytest.mark.parametrize(
    ("streams", "density"), [("ring", 0.3), ("ring", 1.0), ("mapped", 0.02), ("network", 0.95)]
)
def test_nonzeros_of_a_sparse_weight_are_sent_in_two_bytes(tmp_path, streams, density):
    plan = narrow_plan(TEXT, half="cbfloat16")
    assert [sparse.dense_because for sparse in plan.sparse] == ["", ""]
    options = {"hosts": separate_hosts(2)} if streams == "network" else {"streams": streams}
    found, wanted = run_both(tmp_path, plan, density=density, num_systems=2, **options)
    assert_same_bits(found, wanted)
    assert (copied(found) < copied(wanted)) == (streams != "mapped")


def test_a_tied_sparse_weight_that_is_gathered_in_float32_stays_so(tmp_path):
    plan = narrow_plan(TIED)
    gathered = {
        node.operands[0]
        for step in plan.layer_steps
        for node in step.nodes
        if node.op == "Gather" and node.operands[0] in step.loads
    }
    assert gathered
    assert gathered.isdisjoint(plan.packed)
    assert plan.packed
    found, wanted = run_both(tmp_path, plan, num_systems=2)
    assert_same_bits(found, wanted)
