"""Where the batch goes: sharded, partial or replicated, and what crosses SwarmX."""

import numpy as np
import pytest

from appliance.compiler.passes.batch_sharding import ShardedGraph, shard_batch
from appliance.compiler.passes.shardings import Sharding, through_reshape
from appliance.core.errors import ProgramError
from appliance.core.ir.graph import Node
from appliance.core.ir.tensors import DType
from tests.support.graphs import GraphBuilder

BATCH = 6


def shard(builder: GraphBuilder) -> ShardedGraph:
    return shard_batch(builder.graph(), BATCH)


def nodes(sharded: ShardedGraph, op: str) -> list[Node]:
    return [node for node in sharded.graph.nodes if node.op == op]


def ops(sharded: ShardedGraph) -> set[str]:
    return {node.op for node in sharded.graph.nodes if node.op.startswith("wsc.")}


def test_rows_stay_sharded_and_weight_gradients_are_summed():
    builder = GraphBuilder()
    x, w = builder.batch(BATCH, 4), builder.state(4, 5)
    y = builder.op("MatMul", x, w, transpose_a=False, transpose_b=False)
    gradient = builder.op("MatMul", x, y, transpose_a=True, transpose_b=False)
    builder.update("w", gradient)
    sharded = shard(builder)
    assert sharded.shardings[y] == Sharding(axis=0)
    (total,) = nodes(sharded, "wsc.Sum")
    assert total.results == (gradient,)
    assert ops(sharded) == {"wsc.Sum"}


def test_a_splat_and_a_broadcast_are_made_narrow_rather_than_cut():
    builder = GraphBuilder()
    x, b = builder.batch(BATCH, 4), builder.state(4)
    spread = builder.op("BroadcastInDim", b, shape=(BATCH, 4), broadcast_dimensions=(1,))
    y = builder.op("Mul", builder.op("Add", x, spread), builder.splat(2.0, BATCH, 4))
    builder.output(builder.op("Reduce", y, dimensions=(0,), keep_dims=(), reduce_kind="ADD"))
    assert ops(shard(builder)) == {"wsc.Sum"}


def test_a_weight_with_a_batch_dim_is_cut():
    builder = GraphBuilder()
    x, p = builder.batch(BATCH, 4), builder.state(BATCH, 4)
    y = builder.op("Add", x, p)
    builder.output(builder.op("Reduce", y, dimensions=(0,), keep_dims=(), reduce_kind="ADD"))
    assert ops(shard(builder)) == {"wsc.ShardSlice", "wsc.Sum"}


def test_an_output_with_a_batch_axis_is_gathered_exactly_once():
    builder = GraphBuilder()
    y = builder.op("Relu", builder.batch(BATCH, 4))
    builder.output(y, "output_a")
    builder.output(y, "output_b")
    sharded = shard(builder)
    assert len(nodes(sharded, "wsc.ShardPad")) == len(nodes(sharded, "wsc.Sum")) == 1


def test_truth_values_are_gathered_as_numbers():
    builder = GraphBuilder()
    x = builder.batch(BATCH, 4)
    zero = builder.splat(0.0, BATCH, 4)
    builder.output(builder.op("Compare", x, zero, dtype=DType.I1, comparison_direction="GT"))
    (pad,) = nodes(shard(builder), "wsc.ShardPad")
    assert pad.types[0].dtype is DType.I8


def test_an_operation_over_the_batch_without_a_rule_is_computed_replicated():
    builder = GraphBuilder()
    x = builder.batch(BATCH, 4)
    y = builder.op("CumSum", x, axis=0, exclusive=False, reverse=False)
    builder.output(builder.op("Add", x, y))
    sharded = shard(builder)
    assert y not in sharded.shardings
    assert ops(sharded) == {"wsc.ShardPad", "wsc.Sum", "wsc.ShardSlice"}


def test_a_maximum_over_everything_gathers_one_number_a_sample():
    builder = GraphBuilder()
    x = builder.batch(BATCH, 4, 7)
    builder.output(builder.op("Reduce", x, dimensions=(0, 1, 2), keep_dims=(), reduce_kind="MAX"))
    (pad,) = nodes(shard(builder), "wsc.ShardPad")
    assert pad.types[0].num_elements == BATCH


def test_training_batch_norm_needs_two_sums_and_its_gradient_two_more():
    builder = GraphBuilder()
    x = builder.batch(BATCH, 3, 2, 2)
    scale, offset, mean, variance = (builder.state(3, name=f"s{index}") for index in range(4))
    attributes = {"epsilon": 1e-5, "data_format": "NCHW", "is_training": True}
    y, _, _ = builder.ops(
        "FusedBatchNorm", x, scale, offset, mean, variance,
        exponential_avg_factor=0.1, **attributes,
    )  # fmt: skip
    dx, dscale, doffset = builder.ops("FusedBatchNormGrad", y, x, scale, **attributes)
    builder.update(scale, dscale)
    builder.update(offset, doffset)
    builder.output(
        builder.op("Reduce", dx, dimensions=(0, 1, 2, 3), keep_dims=(), reduce_kind="ADD")
    )
    sharded = shard(builder)
    sums = [node.types[0].shape for node in nodes(sharded, "wsc.Sum")]
    assert sums == [(3,)] * 4 + [()]
    assert not nodes(sharded, "FusedBatchNorm")


def test_evaluation_batch_norm_stays_one_operation():
    builder = GraphBuilder()
    x = builder.batch(BATCH, 3, 2, 2)
    vectors = [builder.state(3, name=f"s{index}") for index in range(4)]
    y, _, _ = builder.ops(
        "FusedBatchNorm", x, *vectors,
        epsilon=1e-5, data_format="NCHW", is_training=False, exponential_avg_factor=0.1,
    )  # fmt: skip
    builder.output(y)
    sharded = shard(builder)
    assert len(nodes(sharded, "FusedBatchNorm")) == 1
    assert sharded.shardings[y] == Sharding(axis=0)


def test_a_scatter_into_something_adds_it_once():
    builder = GraphBuilder()
    rows = builder.batch(BATCH, 4)
    index = builder.batch(BATCH, 1, name="i", dtype=DType.I32)
    table = builder.state(9, 4)
    builder.update(table, builder.op("ScatterNd", table, index, rows))
    sharded = shard(builder)
    (scatter,) = nodes(sharded, "ScatterNd")
    assert scatter.operands[0] != table
    assert len(nodes(sharded, "wsc.Sum")) == len(nodes(sharded, "Add")) == 1


def test_partial_sums_of_short_formats_are_completed_in_float32():
    builder = GraphBuilder()
    x = builder.batch(BATCH, 4, dtype=DType.F16)
    y = builder.op("Reduce", x, dimensions=(0,), keep_dims=(), reduce_kind="ADD")
    builder.output(y)
    sharded = shard(builder)
    (total,) = nodes(sharded, "wsc.Sum")
    assert total.types[0].dtype is DType.F32
    assert sharded.graph.types()[y].dtype is DType.F16


def test_dropout_masks_are_drawn_where_they_are_needed():
    builder = GraphBuilder()
    x = builder.batch(BATCH, 4)
    draw = builder.op(
        "RandomUniform", shape=(BATCH, 4), dtype=DType.F32, low=0.0, high=1.0, seed=1, stream=1
    )
    y = builder.op("Mul", x, draw)
    builder.output(builder.op("Reduce", y, dimensions=(0, 1), keep_dims=(), reduce_kind="ADD"))
    sharded = shard(builder)
    (random,) = nodes(sharded, "RandomUniform")
    assert sharded.shardings[random.results[0]] == Sharding(axis=0)


def test_a_batch_tensor_without_the_batch_is_refused():
    builder = GraphBuilder()
    builder.output(builder.op("Relu", builder.batch(BATCH + 1, 4)))
    with pytest.raises(ProgramError, match="no multiple of the batch size 6"):
        shard(builder)


@pytest.mark.parametrize(
    ("source", "target", "before", "after"),
    [
        ((6, 4), (24,), (0, 1), (0, 1)),
        ((24,), (6, 4), (0, 1), (0, 1)),
        ((6, 4), (6, 2, 2), (0, 1), (0, 1)),
        ((5, 6, 4), (30, 4), (1, 1), (0, 5)),
        ((30, 4), (5, 6, 4), (0, 5), (1, 1)),
        ((30, 4), (30, 2, 2), (0, 5), (0, 5)),
        ((30,), (5, 6), (0, 5), (1, 1)),
        ((6, 4), (2, 12), (0, 1), None),
        ((6, 4), (3, 8), (0, 1), None),
        ((1, 6, 4), (6, 4), (1, 1), (0, 1)),
    ],
)
def test_a_reshape_carries_the_batch_along(source, target, before, after):
    found = through_reshape(source, target, Sharding(axis=before[0], outer=before[1]), 6)
    assert found == (after and Sharding(axis=after[0], outer=after[1]))


def test_sequences_in_front_of_the_batch_stay_local():
    builder = GraphBuilder()
    x, w = builder.batch(BATCH, 5, 4), builder.state(4, 4)
    rows = builder.op(
        "Reshape", builder.op("Transpose", x, permutation=(1, 0, 2)), shape=(5 * BATCH, 4)
    )
    y = builder.op("MatMul", rows, w, transpose_a=False, transpose_b=False)
    back = builder.op("Reshape", y, shape=(5, BATCH, 4))
    builder.output(builder.op("Reduce", back, dimensions=(0, 1), keep_dims=(), reduce_kind="ADD"))
    sharded = shard(builder)
    assert sharded.shardings[rows] == Sharding(axis=0, outer=5)
    assert sharded.shardings[back] == Sharding(axis=1)
    assert ops(sharded) == {"wsc.Sum"}


def test_batches_that_are_joined_and_cut_again_stay_local():
    builder = GraphBuilder()
    x = builder.batch(BATCH, 4)
    both = builder.op("Concat", x, builder.op("Tanh", x), axis=0)
    half = builder.op("StridedSlice", both, begin=(BATCH, 0), end=(2 * BATCH, 4), stride=(1, 1))
    builder.output(builder.op("Reduce", half, dimensions=(0,), keep_dims=(), reduce_kind="ADD"))
    sharded = shard(builder)
    assert sharded.shardings[both] == Sharding(axis=0, outer=2)
    assert ops(sharded) == {"wsc.Sum"}


def test_constants_of_any_shape_are_cut_along_the_batch():
    builder = GraphBuilder()
    x = builder.batch(BATCH, 2)
    values = builder.const(np.arange(2 * BATCH).reshape(BATCH, 2))
    builder.output(builder.op("Reduce", builder.op("Mul", x, values), dimensions=(0,), keep_dims=(),
                              reduce_kind="ADD"))  # fmt: skip
    sharded = shard(builder)
    (value,) = nodes(sharded, "Const")
    assert sharded.shardings[value.results[0]] == Sharding(axis=0)
