"""The pass that counts what PyTorch counts, on small graphs run by the definitions."""

import numpy as np
import pytest
import torch

from appliance.compiler.passes.counts import (
    count_chosen,
    count_from_the_end,
    count_labels,
    count_sums,
    count_towards_zero,
    count_windows,
)
from appliance.core.ir.graph import Frame, Location
from appliance.core.ir.ops import verify_ops
from appliance.core.ir.tensors import DType
from appliance.numerics import reference
from tests.support.graphs import GraphBuilder

SUM = {"reduce_kind": "ADD", "dimensions": (0,), "keep_dims": ()}


def at(operation, line=7):
    frame = Frame(function="step", file="train.py", line=line)
    return Location(module="loss", operation=operation, frames=(frame,))


def computed(graph, *arguments):
    """Run a graph by the definitions; return its results."""
    verify_ops(graph)
    table = dict(zip((a.name for a in graph.arguments), arguments, strict=True))
    for node in graph.nodes:
        operands = [table[name] for name in node.operands]
        table.update(zip(node.results, reference.evaluate(node, operands, step=0), strict=True))
    return [table[result.value] for result in graph.results]


def mean_loss(divided_at, labels_dtype=DType.I32):
    builder = GraphBuilder(location=at("aten::nll_loss_forward"))
    logits = builder.batch(4, 3)
    labels = builder.batch(4, name="labels", dtype=labels_dtype)
    loss, gradient = builder.ops(
        "SparseSoftmaxCrossEntropyWithLogits",
        logits,
        labels,
        shapes=[(4,), (4, 3)],
        dtypes=[DType.F32, DType.F32],
        axis=1,
    )
    total = builder.op("Reduce", loss, **SUM)
    builder.location = divided_at
    builder.output(builder.op("Div", total, builder.splat(4.0)))
    builder.output(builder.op("Div", gradient, builder.splat(4.0, 4, 3)))
    return builder.graph()


@pytest.mark.parametrize("labels", [[0, -100, 2, -100], [0, 1, 2, 0], [-100] * 4])
def test_a_mean_loss_and_its_gradient_are_pytorchs_whatever_labels_are_left_out(labels):
    logits = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    graph = count_labels(mean_loss(at("aten::nll_loss_forward")))
    loss, gradient = computed(graph, logits, np.array(labels, np.int32))
    x = torch.from_numpy(logits).requires_grad_()
    want = torch.nn.functional.cross_entropy(x, torch.tensor(labels))
    want.backward()
    np.testing.assert_allclose(loss, want.item(), rtol=1e-6)
    np.testing.assert_allclose(gradient, x.grad.numpy(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("place", [at("aten::div"), at("aten::nll_loss_forward", line=8)])
def test_a_division_that_is_not_the_losss_own_stays_as_it_is_written(place):
    graph = mean_loss(place)
    assert count_labels(graph) == graph


def test_labels_that_cannot_be_negative_are_all_counted():
    graph = mean_loss(at("aten::nll_loss_forward"), DType.U8)
    assert count_labels(graph) == graph


def test_the_sum_of_truth_values_is_a_number_where_it_is_cast_and_a_truth_value_elsewhere():
    builder = GraphBuilder()
    total = builder.op("Reduce", builder.batch(4, dtype=DType.I1), **SUM)
    shown = builder.op("Reshape", total, shape=(1,))
    builder.output(builder.op("Cast", shown, dtype=DType.F32))
    builder.output(builder.op("Not", total))
    number, none = computed(count_sums(builder.graph()), np.array([True, False, True, True]))
    assert (number.tolist(), bool(none)) == ([3.0], False)


NARROW = [DType.I8, DType.I16, DType.I32, DType.U8]


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("kind", ["sum", "prod", "cumsum", "cumprod"])
def test_whole_numbers_are_added_up_and_multiplied_beyond_their_own_type(kind, dtype):
    values = np.full(4, np.iinfo(dtype.container).max, dtype.container)
    builder = GraphBuilder()
    terms = builder.batch(4, dtype=dtype)
    if kind.startswith("cum"):
        total = builder.op(
            "CumSum" if kind == "cumsum" else "CumProd",
            terms,
            axis=0,
            exclusive=False,
            reverse=False,
        )
    else:
        reduction = SUM if kind == "sum" else {**SUM, "reduce_kind": "MUL"}
        total = builder.op("Reduce", terms, **reduction)
    builder.output(builder.op("Cast", total, dtype=DType.I64))
    builder.output(total)
    wide, narrow = computed(count_sums(builder.graph()), values)
    x = torch.from_numpy(values)
    want = getattr(x, kind)(*([0] if kind.startswith("cum") else []))
    assert np.array_equal(wide, want.numpy())
    assert narrow.dtype == dtype.container


@pytest.mark.parametrize("dtype", [DType.F32, DType.I64])
def test_sums_of_other_types_stay_as_they_are_written(dtype):
    builder = GraphBuilder()
    builder.output(builder.op("Cast", builder.op("Reduce", builder.batch(4, dtype=dtype), **SUM)))
    assert count_sums(builder.graph()) == builder.graph()


@pytest.mark.parametrize("divisor", [3, -3, 1, 7])
@pytest.mark.parametrize("operation", ["fmod", "remainder"])
def test_only_the_remainder_of_fmod_has_the_sign_of_the_dividend(operation, divisor):
    values = np.array([-7, -6, -1, 0, 1, 5, 6, 8], np.int32)
    builder = GraphBuilder(location=at(f"aten::{operation}"))
    dividend = builder.batch(8, dtype=DType.I32)
    by = builder.splat(divisor, 8, dtype=DType.I32)
    quotient = builder.op("Div", dividend, by)
    builder.output(builder.op("Sub", dividend, builder.op("Mul", quotient, by)))
    builder.output(quotient)
    found, shared = computed(count_towards_zero(builder.graph()), values)
    x = torch.from_numpy(values)
    assert found.tolist() == getattr(torch, operation)(x, divisor).tolist()
    assert shared.tolist() == (x // divisor).tolist()


@pytest.mark.parametrize(
    ("operation", "pooled", "is_adaptive"),
    [
        ("aten::_adaptive_avg_pool2d", 3, True),
        ("aten::_adaptive_avg_pool3d", 3, True),
        ("aten::_adaptive_avg_pool2d", 4, False),
        ("aten::avg_pool2d", 3, False),
    ],
)
def test_only_adaptive_means_of_unequal_windows_have_their_own(operation, pooled, is_adaptive):
    builder = GraphBuilder(location=at(operation))
    x, dy = builder.batch(4, 2, 1, 1, 8), builder.batch(4, 2, 1, 1, pooled, name="dy")
    window = {
        "pool_type": "AVERAGE",
        "data_format": "NCDHW",
        "ksize": (1, 1, 1, 1, 8 - 2 * (pooled - 1)),
        "strides": (1, 1, 1, 1, 2),
        "padding": (0,) * 10,
        "dilation": (1,) * 5,
    }
    builder.output(builder.op("Pool", x, x, shape=(4, 2, 1, 1, pooled), **window))
    builder.location = at(f"{operation}_backward")
    builder.output(builder.op("Pool", x, dy, shape=(4, 2, 1, 1, 8), gradient=True, **window))
    nodes = count_windows(builder.graph()).nodes
    assert [node.attributes.get("adaptive", False) for node in nodes] == [is_adaptive] * 2


@pytest.mark.parametrize("operation", ["aten::index", "aten::index_select"])
def test_only_advanced_indexing_counts_from_the_end(operation):
    builder = GraphBuilder(location=at(operation))
    table = builder.batch(4, 3, name="table")
    places = builder.batch(2, 2, name="places", dtype=DType.I64)
    builder.output(builder.op("GatherNd", table, places, shape=(2,), start_dim=0))
    graph = count_from_the_end(builder.graph())
    values, chosen = np.arange(12.0, dtype=np.float32).reshape(4, 3), np.array([[-1, 0], [1, -3]])
    if operation == "aten::index":
        assert computed(graph, values, chosen)[0].tolist() == [9.0, 3.0]
    else:
        with pytest.raises(ValueError, match="out of range"):
            computed(graph, values, chosen)


@pytest.mark.parametrize("count", range(4))
def test_a_mask_of_the_k_largest_has_k_marks_none_included(count):
    builder = GraphBuilder()
    order = builder.batch(1, 3, name="order", dtype=DType.I64)
    is_chosen = builder.batch(1, 3, name="chosen", dtype=DType.I1)
    first = builder.splat(2, 1, 3, dtype=DType.I64)
    places = builder.op("Select", is_chosen, order, first, dtype=DType.I64)
    no, yes = (builder.splat(truth, 1, 3, dtype=DType.I1) for truth in (False, True))
    marks = builder.op("Scatter", no, places, yes, axis=1, reduce_kind="NONE")
    builder.output(marks)
    chosen = (np.arange(3) < count)[None]
    (found,) = computed(count_chosen(builder.graph()), np.array([[2, 0, 1]]), chosen)
    assert found.sum() == count
