"""Where state and updates go when MemoryX has several shards."""

import dataclasses
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.ir.tensors import DType
from appliance.core.plans.plan import STEP_START, Commit, Output, StateTensor, Update
from appliance.core.plans.plan_text import parse_plan, print_plan
from appliance.core.plans.shard_count import MemoryNodes, count_shards
from appliance.core.plans.shard_plans import most_shards, shard_plans
from appliance.core.plans.state_shards import HOME, place_state
from tests.support.deep_plans import chained_plan, deep_plan
from tests.support.plans import f32, node, two_layer_plan
from tests.support.played_shards import play_shards

SCALAR = f32()


def plan_of(sizes, *, with_norm=True, nodes=(), types=None):
    """Return a plan that updates tensors of some sizes by themselves times what all share."""
    base = two_layer_plan()
    made, commits, all_types = [], [], {"rate": SCALAR} | (types or {})
    scale = "norm" if with_norm else "rate"
    norms = [f"n{index}" for index in range(len(sizes))]
    if with_norm:
        for index, size in enumerate(sizes):
            name = f"w{index}"
            made.append(node("Mul", f"{name} {name}", f"q{index}", f32(size)))
            made.append(node("Reduce", f"q{index}", norms[index], SCALAR, dimensions=(0,)))
            all_types |= {f"q{index}": f32(size), norms[index]: SCALAR}
        so_far = norms[0]
        for index, norm in enumerate(norms[1:]):
            name = f"t{index}"
            made.append(node("Add", f"{so_far} {norm}", name, SCALAR))
            all_types[name] = SCALAR
            so_far = name
        made.append(node("Mul", f"{so_far} rate", "norm", SCALAR))
        all_types["norm"] = SCALAR
    for index, size in enumerate(sizes):
        name = f"w{index}"
        made.append(node("BroadcastInDim", scale, f"b{index}", f32(size), broadcast_dimensions=()))
        made.append(node("Mul", f"{name} b{index}", f"{name}_new", f32(size)))
        commits.append(Commit(state=name, value=f"{name}_new"))
        all_types |= dict.fromkeys((name, f"b{index}", f"{name}_new"), f32(size))
    state = [
        StateTensor(
            resource_name=f"state.{name}", value=name, type=all_types[name], wire_dtype=DType.F32
        )
        for name in ("rate", *(f"w{index}" for index in range(len(sizes))))
    ]
    return dataclasses.replace(
        base,
        state=tuple(state),
        outputs=(Output(output_name="o", value=scale, type=SCALAR, wire_dtype=DType.F32),),
        layer_steps=(),
        update_constants=(),
        updates=(Update(after=STEP_START, nodes=(*made, *nodes), commits=tuple(commits)),),
        types=all_types,
    )


SIZES = st.lists(st.integers(2, 1000), min_size=1, max_size=12)


@given(SIZES, st.integers(1, 6))
def test_every_tensor_is_on_one_shard_and_shards_are_balanced_by_bytes(sizes, num_shards):
    plan = plan_of(sizes)
    shards = shard_plans(plan, num_shards)
    names = [tensor.value for shard in shards for tensor in shard.plan.state]
    assert sorted(names) == sorted(tensor.value for tensor in plan.state)
    loads = [sum(t.type.num_bytes for t in shard.plan.state) for shard in shards]
    # The fullest shard was the emptiest one when it got its last tensor.
    assert max(loads) - min(loads) <= 4 * max(sizes) + SCALAR.num_bytes


@given(SIZES, st.integers(1, 6))
def test_the_placement_follows_from_the_text_of_the_plan(sizes, num_shards):
    plan = plan_of(sizes)
    assert place_state(plan, num_shards) == place_state(plan, num_shards)
    read = parse_plan(print_plan(two_layer_plan()))
    assert place_state(read, num_shards) == place_state(two_layer_plan(), num_shards)


def test_what_several_shards_need_is_computed_once_at_home_and_spread_on_each():
    plan = plan_of([100, 100, 100])
    placement = place_state(plan, 3)
    where = {
        each.results[0]: shards
        for each, shards in zip(plan.updates[0].nodes, placement.nodes, strict=True)
    }
    assert where["norm"] == {HOME}
    for index in range(3):
        shard = {placement.state[f"w{index}"]}
        assert where[f"q{index}"] == where[f"n{index}"] == where[f"w{index}_new"] == shard
        assert where[f"b{index}"] == shard
    assert placement.state["rate"] == HOME


def test_what_one_shard_alone_needs_is_computed_there():
    plan = plan_of([100, 50, 40], with_norm=False)
    own = node("Mul", "step step", "step_sq", SCALAR)
    use = node("BroadcastInDim", "step_sq", "spread", f32(40), broadcast_dimensions=())
    last = node("Mul", "w2_new spread", "w2_newer", f32(40))
    step = StateTensor(resource_name="state.step", value="step", type=SCALAR, wire_dtype=DType.F32)
    (update,) = plan.updates
    commits = (*update.commits[:2], Commit(state="w2", value="w2_newer"))
    plan = dataclasses.replace(
        plan,
        state=(*plan.state, step),
        updates=(
            dataclasses.replace(update, nodes=(*update.nodes, own, use, last), commits=commits),
        ),
        types=plan.types
        | {"step": SCALAR, "step_sq": SCALAR, "spread": f32(40), "w2_newer": f32(40)},
    )
    placement = place_state(plan, 3)
    assert placement.state["w2"] != HOME
    assert placement.state["step"] == placement.state["w2"]


def test_tensors_that_large_values_connect_stay_together():
    together = node("Add", "w0_new w1", "both", f32(5000))
    plan = plan_of([5000, 5000], with_norm=False, types={"both": f32(5000)}, nodes=(together,))
    (update,) = plan.updates
    commits = (Commit(state="w0", value="both"), Commit(state="w1", value="w1_new"))
    plan = dataclasses.replace(plan, updates=(dataclasses.replace(update, commits=commits),))
    assert place_state(plan, 1).num_families == 1
    count = count_shards(plan, 4, MemoryNodes())
    assert count.num_shards == 1
    assert "1 instead of 4" in count.reason
    assert "in 1 part, which" in count.reason


def test_messages_are_sent_before_they_are_read_and_in_one_order():
    plan = plan_of([100, 100, 100])
    shards = shard_plans(plan, 3)
    assert [shard.readers for shard in shards] == [(1, 2), (HOME,), (HOME,)]
    for shard in shards:
        assert sorted(shard.sends.values()) == list(range(len(shard.messages)))
        for source in shard.sources:
            got = [r.contents for row in shard.receipts for r in row if r.shard == source]
            assert got == list(shards[source].messages)
    assert shards[1].messages == (("n1",),)
    assert shards[HOME].messages[-1] == ("norm",)


def test_a_single_shard_runs_the_plan_itself():
    plan = two_layer_plan()
    (shard,) = shard_plans(plan, 1)
    assert shard.plan is plan
    assert shard.messages == ()
    assert not any(shard.receipts)


def test_shards_beyond_the_tensors_get_nothing_and_do_no_harm():
    shards = shard_plans(plan_of([10]), 4)
    assert [len(shard.plan.updates) for shard in shards[1:]] == [0, 0, 0]
    assert all(shard.sources == () and shard.readers == () for shard in shards)


def test_the_number_of_shards_is_what_is_allowed_or_what_memory_asks_for():
    plan = plan_of([1000, 1000, 1000, 1000])
    size = 4 * 4000 + 4
    several = MemoryNodes(num_nodes=3, node_bytes=size)
    assert count_shards(plan, 3, MemoryNodes()).num_shards == 3
    assert count_shards(plan, 1, several).num_shards == 1
    assert count_shards(plan, 0, MemoryNodes()).num_shards == 1
    assert count_shards(plan, 0, MemoryNodes(num_nodes=3, node_bytes=2 * size)).num_shards == 1
    assert count_shards(plan, 0, several).num_shards == 2
    # Three nodes would each have room for a third of it, but one tensor of four is more than that.
    third = MemoryNodes(num_nodes=9, node_bytes=-(-size // 3) * 10 // 6)
    assert count_shards(plan, 0, third).num_shards == 4
    assert count_shards(plan, 0, MemoryNodes(num_nodes=3, node_bytes=size // 4)).num_shards == 3
    assert "16,004 bytes" in count_shards(plan, 2, several).reason
    assert MemoryNodes.parse(str(several)) == several


def assert_same_bits(plan, num_shards):
    generator = torch.Generator().manual_seed(num_shards)
    state = {t.value: torch.rand(t.type.shape, generator=generator) + 0.5 for t in plan.state}
    sums = [
        {
            name: torch.rand(type_.shape, generator=generator)
            for step in plan.layer_steps
            for name, type_ in plan.sum_types(step)
        }
        for _ in range(3)
    ]
    turns = random.Random(num_shards).randrange
    one, several = (
        play_shards(plan, state, sums, *how) for how in ((1, lambda count: 0), (num_shards, turns))
    )
    assert all(torch.equal(several[1][name], one[1][name]) for name in state)
    assert all(
        torch.equal(found[name], wanted[name])
        for found, wanted in zip(several[0], one[0], strict=True)
        for name in wanted
    )


@pytest.mark.parametrize("num_shards", [2, 3])
def test_clipping_by_the_global_norm_takes_two_messages_however_many_layers_there_are(num_shards):
    plan = deep_plan(140, overwritten=139)
    shards = shard_plans(plan, num_shards)
    assert most_shards(plan, num_shards) == num_shards
    assert all(1 <= len(shard.messages) <= 2 for shard in shards)
    others = [name for shard in shards[1:] for names in shard.messages for name in names]
    assert shards[HOME].messages[-1] == ("clip",)
    assert {name[0] for name in others} == set("nrv")
    waits = [bool(row) for row in shards[HOME].receipts]
    assert sum(waits) <= 2
    assert not any(waits[:-3])
    assert_same_bits(plan, num_shards)


@pytest.mark.parametrize("num_shards", [2, 3])
def test_what_waits_for_others_reads_a_state_tensor_before_it_is_overwritten(num_shards):
    plan = deep_plan(20, overwritten=10)
    shards = shard_plans(plan, num_shards)
    assert all(len(shard.messages) <= 3 for shard in shards)
    assert_same_bits(plan, num_shards)


def test_a_plan_that_would_take_too_many_messages_is_put_on_fewer_shards():
    plan = chained_plan(100)
    assert most_shards(plan, 2) == 2
    assert max(len(shard.messages) for shard in shard_plans(plan, 2)) == 50
    assert_same_bits(plan, 2)
    plan = chained_plan(140)
    assert most_shards(plan, 2) == 1
    assert most_shards(plan, 3) == 3
    assert most_shards(chained_plan(200), 3) == 1
    shards = shard_plans(plan, 2)
    assert [len(shard.plan.state) for shard in shards] == [140, 0]
    assert not any(shard.messages for shard in shards)
    assert_same_bits(plan, 2)
