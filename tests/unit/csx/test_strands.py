"""Strands on their own: what they add up, what they do not wait for, and how they fail."""

import dataclasses
import threading

import numpy as np
import pytest
import torch

from appliance.core.errors import InternalError
from appliance.core.ir.sharding import split_batch
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.plans.micro_batches import num_micro_batches, visits
from appliance.core.pods.pod_options import StreamMode
from appliance.streams.slot_layout import SlotLayout, Span
from appliance.streams.stream_topology import largest, load_layout, sum_layout
from appliance.streams.torch_views import SlotTensors, tensors_of
from tests.support.plans import two_layer_data, two_layer_plan
from workers.csx.samples.micro_batches import share_parts
from workers.csx.samples.strands import Strands
from workers.csx.system_plan import system_part

SECONDS = 60.0


def strands_of(plan, *, num_strands, num_systems=1, system=0):
    share = split_batch(plan.batch_size, num_systems)[system]
    layouts = tuple(sum_layout(plan, step) for step in plan.layer_steps)
    return share, Strands(
        share_parts(
            plan, share, count=num_micro_batches(plan, num_systems), num_strands=num_strands
        ),
        sums=SlotTensors(layouts),
        sum_spans=tuple(map(SlotLayout.spans, layouts)),
        largest_sum_bytes=largest(layouts),
        num_threads=1,
    )


def values_of(plan):
    state, (batch,) = two_layer_data(plan, num_steps=1)
    weights = {tensor.value: state[tensor.resource_name] for tensor in plan.state}
    return {**weights, "gs": np.float32(0.1)}, batch


def sums_of(plan, *, num_strands, num_systems=1, system=0, ahead=0):
    """Run one step and return the sums of every visit, by name.

    Visits are begun so many ahead. Loads and sums are overwritten when a visit is finished.
    """
    values, batch = values_of(plan)
    share, strands = strands_of(
        plan, num_strands=num_strands, num_systems=num_systems, system=system
    )
    found, waiting = [], []

    def finish():
        layout, load_slot, sum_slot = waiting.pop(0)
        strands.finish()
        found.append({name: np.array(view) for name, view in layout.views(sum_slot).items()})
        load_slot[:] = sum_slot[:] = 0xFF

    with strands.running():
        part = slice(share.offset, share.offset + share.size)
        strands.begin_step(0, {n: torch.from_numpy(value[part]) for n, value in batch.items()})
        for visit in visits(plan, num_systems):
            step = plan.layer_steps[visit.layer_step]
            loads, sums = load_layout(plan, step.loads), sum_layout(plan, step)
            load_slot = np.zeros(loads.num_bytes, dtype=np.uint8)
            sum_slot = np.full(sums.num_bytes, 0xFF, dtype=np.uint8)
            for name, view in loads.views(load_slot).items():
                view[...] = values[name]
            waiting.append((sums, load_slot, sum_slot))
            strands.begin(visit, tensors_of(loads, load_slot), sum_slot)
            if len(waiting) > ahead:
                finish()
        while waiting:
            finish()
        strands.end_step()
        assert not list(strands.activations())
    return found


def wide_plan(batch_size, **changes):
    plan = two_layer_plan(batch_size=batch_size, features=96, hidden=160, classes=32)
    return dataclasses.replace(plan, **changes)


def assert_same_bits(found, want):
    assert len(found) == len(want)
    for one, other in zip(found, want, strict=True):
        assert {n: v.tobytes() for n, v in one.items()} == {
            n: v.tobytes() for n, v in other.items()
        }


@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize("num_strands", [2, 3])
def test_sums_are_those_of_as_many_systems_added_in_order(num_strands, ahead):
    plan = wide_plan(64)
    systems = [
        sums_of(plan, num_strands=1, num_systems=num_strands, system=system)
        for system in range(num_strands)
    ]
    want = []
    for visit in zip(*systems, strict=True):
        total = dict(visit[0])
        for other in visit[1:]:
            total = {name: value + other[name] for name, value in total.items()}
        want.append(total)
    assert_same_bits(sums_of(plan, num_strands=num_strands, ahead=ahead), want)


@pytest.mark.parametrize("micro_batch_size", [1, 2, 3])
def test_strands_divide_every_micro_batch_even_where_one_has_too_few_samples(micro_batch_size):
    plan = wide_plan(5, micro_batch_size=micro_batch_size)
    want = sums_of(plan, num_strands=1)
    found = sums_of(plan, num_strands=2, ahead=1)
    for one, other in zip(found, want, strict=True):
        for name, value in other.items():
            np.testing.assert_allclose(one[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_strand_goes_on_while_another_is_held_up(monkeypatch):
    plan = wide_plan(8)
    _, strands = strands_of(plan, num_strands=2)
    first, second = strands._strands
    gate, through = threading.Event(), threading.Event()
    number = len(visits(plan, 1)) - 1

    def held_up(visit, loads, sums):
        assert gate.wait(SECONDS)

    def counted(visit, loads, sums):
        if visit.layer_step == number:
            through.set()

    monkeypatch.setattr(first, "compute", held_up)
    monkeypatch.setattr(second, "compute", counted)
    slot = np.zeros(largest(sum_layout(plan, step) for step in plan.layer_steps), dtype=np.uint8)
    with strands.running():
        for visit in visits(plan, 1)[-2:]:
            strands.begin(visit, {}, slot)
        assert through.wait(SECONDS), "it waits for the strand that is held up"
        gate.set()
        strands.finish()
        strands.finish()


@pytest.mark.parametrize("failing", [0, 1])
def test_the_failure_of_a_strand_is_that_of_the_visit(failing, monkeypatch):
    plan = wide_plan(8)
    _, strands = strands_of(plan, num_strands=2)
    first_visit = visits(plan, 1)[0]

    def fail(visit, loads, sums):
        raise InternalError("Layer step 'l0': MatMul failed.")

    for number, strand in enumerate(strands._strands):
        monkeypatch.setattr(strand, "compute", fail if number == failing else lambda *_: None)
    slot = np.zeros(largest(sum_layout(plan, step) for step in plan.layer_steps), dtype=np.uint8)
    with strands.running():
        strands.begin(first_visit, {}, slot)
        with pytest.raises(InternalError, match="MatMul failed"):
            strands.finish()


def test_no_thread_of_a_strand_outlives_the_loop():
    plan = wide_plan(8)
    before = threading.active_count()
    sums_of(plan, num_strands=2)
    assert threading.active_count() == before


def test_a_slot_is_added_up_in_one_run_for_each_element_type():
    f32, i32 = TensorType((3,), DType.F32), TensorType((2,), DType.I32)
    layout = SlotLayout.of([("a", f32), ("b", f32), ("c", i32), ("d", f32)])
    assert layout.spans() == (
        Span(dtype=np.dtype(np.float32), start=0, end=76),
        Span(dtype=np.dtype(np.int32), start=128, end=136),
        Span(dtype=np.dtype(np.float32), start=192, end=204),
    )
    assert SlotLayout.of([]).spans() == ()


@pytest.mark.parametrize("mode", StreamMode)
def test_strands_that_are_computed_alike_share_one_part(mode):
    plan = wide_plan(8)
    share = split_batch(plan.batch_size, 1)[0]
    part = system_part(plan, share, num_systems=1, num_shards=1, mode=mode, num_strands=2)
    (first,), (second,) = (strand.parts for strand in part.strands)
    assert first is second
