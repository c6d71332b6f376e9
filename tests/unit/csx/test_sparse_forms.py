"""Programs that take non-zeros compute the sums of those that take whole weights."""

import dataclasses

import numpy as np
import pytest
import torch

from appliance.core.ir.sharding import split_batch
from appliance.core.plans.micro_batches import visits
from appliance.core.plans.plan import Precision
from appliance.core.plans.sparse.as_executed import as_executed
from appliance.numerics.sparse import weight_products
from appliance.numerics.sparse.matrices import sparse_matrix, values_at
from appliance.numerics.sparse.weight_products import parts_of
from appliance.streams.slot_layout import SlotLayout
from appliance.streams.stream_topology import largest, sum_layout
from appliance.streams.torch_views import SlotTensors
from tests.support.masked_plans import masked_data, masked_plan
from workers.csx.samples.micro_batches import share_parts
from workers.csx.samples.strands import Strands
from workers.csx.sparse_forms import NO_FORMS, sparse_forms


def weights_of(plan, state):
    """Return what layer steps load, masked where the program masks it."""
    values = {tensor.value: torch.as_tensor(state[tensor.resource_name]) for tensor in plan.state}
    masked = {
        name: values[sparse.weight] * values[sparse.mask]
        for sparse in plan.sparse
        for name in sparse.loads
    }
    return {**values, **masked}


def run(plan, forms, *, density, num_strands):
    """Return the sums of every visit of a step, those at a pattern as vectors."""
    state, (batch,) = masked_data(plan, density=density, num_steps=1)
    weights = weights_of(plan, state)
    layouts = tuple(sum_layout(plan, step) for step in plan.layer_steps)
    strands = Strands(
        share_parts(
            plan, split_batch(plan.batch_size, 1)[0], count=1, num_strands=num_strands, forms=forms
        ),
        sums=SlotTensors(layouts),
        sum_spans=tuple(map(SlotLayout.spans, layouts)),
        largest_sum_bytes=largest(layouts),
        num_threads=1,
    )
    found = {}
    with strands.running():
        strands.begin_step(0, {name: torch.as_tensor(value) for name, value in batch.items()})
        for visit in visits(plan, 1):
            step, slot = plan.layer_steps[visit.layer_step], np.zeros(largest(layouts), np.uint8)
            sparse = {
                name: sparse_matrix(weights[name]) for name in step.loads if name in forms.loads
            }
            loads = {name: weights[name] for name in step.loads if name not in sparse}
            for name, matrix in sparse.items():
                parts = (matrix.values, matrix.pattern.offsets, matrix.pattern.columns)
                loads.update(zip(parts_of(name), parts, strict=True))
            given = forms.gradients.get(visit.layer_step, {})
            sizes = {total: sparse[name].pattern.num_values for total, name in given.items()}
            strands.begin(visit, loads, slot, sizes)
            strands.finish()
            sums = SlotTensors(layouts).of(slot, visit.layer_step)
            for total, tensor in sums.items():
                whole = tensor.clone()
                size = sizes.get(total)
                found[total] = whole if size is None else whole.view(-1)[:size]
        strands.end_step()
    return found, weights


@pytest.mark.parametrize("num_strands", [1, 2])
@pytest.mark.parametrize("is_faster", [True, False])
def test_sums_are_those_of_whole_weights(monkeypatch, num_strands, is_faster):
    monkeypatch.setattr(weight_products, "is_sparse_faster", lambda *_: is_faster)
    plan = as_executed(masked_plan(), 1)
    forms = sparse_forms(plan)
    found, weights = run(plan, forms, density=0.3, num_strands=num_strands)
    wanted, _ = run(plan, NO_FORMS, density=0.3, num_strands=num_strands)
    assert forms.loads
    assert any(forms.gradients.values())
    at_pattern = {
        total: name for given in forms.gradients.values() for total, name in given.items()
    }
    for total, value in wanted.items():
        whole = value
        if total in at_pattern:
            pattern = sparse_matrix(weights[at_pattern[total]]).pattern
            whole = torch.empty(pattern.num_values)
            values_at(value, pattern, whole)
        torch.testing.assert_close(found[total], whole, rtol=1e-5, atol=1e-6)


def test_weights_of_16_bit_products_come_whole():
    plan = as_executed(masked_plan(Precision.EXACT), 1)
    types = {name: plan.types[name].dtype for sparse in plan.sparse for name in sparse.loads}
    halves = {name for name, dtype in types.items() if dtype.is_half}
    assert not sparse_forms(plan).loads & halves


def test_a_weight_that_something_else_reads_comes_whole():
    plan = as_executed(masked_plan(), 1)
    name = sorted(sparse_forms(plan).loads)[0]
    first = next(i for i, step in enumerate(plan.layer_steps) if name in step.loads)
    node = next(n for n in plan.layer_steps[first].nodes if name in n.operands)
    other = dataclasses.replace(
        node,
        op="Abs",
        operands=(name,),
        results=("beside",),
        types=(plan.types[name],),
        attributes={},
    )
    step = dataclasses.replace(
        plan.layer_steps[first], nodes=(*plan.layer_steps[first].nodes, other)
    )
    steps = (*plan.layer_steps[:first], step, *plan.layer_steps[first + 1 :])
    forms = sparse_forms(dataclasses.replace(plan, layer_steps=steps))
    assert name not in forms.loads
    assert name not in {load for given in forms.gradients.values() for load in given.values()}
