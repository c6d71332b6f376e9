"""Shares of the batch, and nodes narrowed to them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.ir.sharding import BatchShard, localise, split_batch
from appliance.core.ir.tensors import DType, TensorType
from tests.support.graphs import GraphBuilder

SHARD = BatchShard(batch_size=6, offset=2, size=3)


@given(st.integers(1, 500), st.integers(1, 60))
def test_shares_cover_the_batch_and_differ_by_one_sample_at_most(batch_size, num_systems):
    num_systems = min(num_systems, batch_size)
    shards = split_batch(batch_size, num_systems)
    samples = [shard.offset + index for shard in shards for index in range(shard.size)]
    assert samples == list(range(batch_size))
    sizes = [shard.size for shard in shards]
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


def narrowed(builder: GraphBuilder, **sharded: int):
    nodes = localise(builder.nodes, sharded=sharded, types=builder.types, shard=SHARD)
    return nodes[-1]


def test_a_merged_batch_dim_shrinks_in_proportion():
    builder = GraphBuilder()
    builder.op("Reshape", builder.batch(6, 4), shape=(24,), name="y")
    node = narrowed(builder, x=0, y=0)
    assert node.types == (TensorType((12,), DType.F32),)


def test_replicated_nodes_stay_as_they_are():
    builder = GraphBuilder()
    builder.op("Tanh", builder.state(6, 4), name="y")
    assert narrowed(builder) is builder.nodes[-1]


def test_a_constant_is_cut_and_a_splat_only_reshaped():
    values = np.arange(12).reshape(6, 2)
    builder = GraphBuilder()
    node = narrowed(builder, **{builder.const(values): 0})
    np.testing.assert_array_equal(node.attributes["value"].to_numpy(), values[2:5])
    node = narrowed(builder, **{builder.splat(2.0, 6, 2): 0})
    assert node.attributes["value"].is_splat
    assert node.attributes["value"].type.shape == (3, 2)


def test_random_ops_learn_their_part_of_the_global_tensor():
    builder = GraphBuilder()
    builder.op("RandomUniform", shape=(4, 12), dtype=DType.F32, low=0.0, high=1.0, seed=1, stream=1,
               name="r")  # fmt: skip
    node = narrowed(builder, r=1)
    assert node.types[0].shape == (4, 6)
    found = {name: node.attributes[name] for name in ("global_shape", "axis", "start")}
    assert found == {"global_shape": (4, 12), "axis": 1, "start": 4}


def test_slices_and_splits_along_the_batch_take_whole_batches():
    builder = GraphBuilder()
    x = builder.batch(12, 4)
    builder.op("StridedSlice", x, begin=(6, 1), end=(12, 3), stride=(1, 1), name="y")
    assert narrowed(builder, x=0, y=0).attributes["begin"] == (3, 1)
    assert narrowed(builder, x=0, y=0).attributes["end"] == (6, 3)
    builder.ops("Split", x, axis=0, split_sizes=(6, 6), names=["a", "b"])
    assert narrowed(builder, x=0, a=0, b=0).attributes["split_sizes"] == (3, 3)
    builder.ops("Split", x, axis=1, split_sizes=(1, 3), names=["c", "d"])
    assert narrowed(builder, x=0, c=0, d=0).attributes["split_sizes"] == (1, 3)


def test_shares_know_where_they_lie():
    builder = GraphBuilder()
    builder.op("wsc.ShardSlice", builder.state(24, 2), axis=0, outer=2, name="y")
    node = narrowed(builder, y=0)
    assert node.types[0].shape == (12, 2)
    found = {name: node.attributes[name] for name in ("start", "size", "global_size")}
    assert found == {"start": 4, "size": 6, "global_size": 12}
    builder.op("wsc.ShardPad", "y", axis=0, outer=2, name="z")
    node = narrowed(builder, y=0)
    assert node.types[0].shape == (24, 2)
    assert node.attributes["start"] == 4
