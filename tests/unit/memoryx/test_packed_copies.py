"""Packed copies follow what they are of: state, what updates compute, and sums."""

import dataclasses

import torch

from appliance.core.ir.tensors import DType
from appliance.numerics.float_formats import round_to
from appliance.numerics.packed_values import unpack
from tests.support.plans import two_layer_plan
from workers.memoryx.packed_copies import PackedCopies


def prepare(*names):
    plan = dataclasses.replace(two_layer_plan(), packed=dict.fromkeys(names, DType.CB16))
    values = {name: torch.randn(plan.types[name].shape) for name in names}
    packed = {name: torch.zeros(value.shape, dtype=torch.int16) for name, value in values.items()}
    return plan, values, packed, PackedCopies(plan, values=values, packed=packed)


def assert_packed(values, packed):
    for name, value in values.items():
        found = torch.empty(value.shape)
        unpack(DType.CB16, packed[name], found)
        assert torch.equal(found, round_to(DType.CB16, value)), name


def test_all_are_made_when_the_first_step_begins():
    _, values, packed, copies = prepare("w1", "w2")
    copies.make_all()
    assert_packed(values, packed)


def test_a_copy_is_made_anew_by_the_update_that_overwrites_its_state_and_by_no_other():
    plan, values, packed, copies = prepare("w1", "w2")
    copies.make_all()
    before = {name: tensor.clone() for name, tensor in packed.items()}
    for index, update in enumerate(plan.updates):
        written = {commit.state for commit in update.commits}
        for value in values.values():
            value.neg_()
        copies.after_update(index)
        for name in values:
            assert torch.equal(packed[name], before[name]) != (name in written), name
        for value in values.values():
            value.neg_()
        copies.make_all()


def test_a_sum_that_is_a_load_is_packed_when_it_arrives():
    plan, values, packed, copies = prepare("g2")
    (arrival,) = [i for i, s in enumerate(plan.layer_steps) if "g2" in [x.total for x in s.sums]]
    copies.after_sums((arrival + 1) % len(plan.layer_steps))
    assert not packed["g2"].any()
    copies.after_sums(arrival)
    assert_packed(values, packed)


def test_of_a_weight_held_by_its_nonzeros_as_many_values_are_packed():
    plan = dataclasses.replace(two_layer_plan(), packed={"w1": DType.CB16})
    room = torch.zeros(plan.types["w1"].shape, dtype=torch.int16)
    values = torch.randn(11)
    PackedCopies(plan, values={"w1": values}, packed={"w1": room}).make_all()
    assert_packed({"w1": values}, {"w1": room.view(-1)[:11]})
    assert not room.view(-1)[11:].any()
