"""What fills the slots of the broadcast ring, and that a pod copies it from every shard."""

import numpy as np
import pytest

from appliance.core.errors import StreamClosedError
from appliance.core.plans.shard_plans import shard_plans
from appliance.core.pods.pod_options import StreamMode
from appliance.streams.stream_topology import load_slots
from tests.support.masked_plans import masked_plan
from tests.support.plans import two_layer_plan
from workers.swarmx.broadcast_rows import BroadcastRows
from workers.swarmx.loads import ShardLoads, StoredLoads

NUM_SHARDS = 2


def rows_of(plan):
    return [step.loads for step in plan.layer_steps]


def broadcast_rows(plan, mode=StreamMode.RING):
    shards = [shard.plan for shard in shard_plans(plan, NUM_SHARDS)]
    return BroadcastRows(plan, shards, rows_of(plan), mode)


def row_with_most_loads(plan):
    return max(range(len(plan.layer_steps)), key=lambda row: len(plan.layer_steps[row].loads))


def test_each_shard_gives_what_is_its_own_and_all_of_them_the_whole_slot():
    plan = two_layer_plan()
    found = broadcast_rows(plan)
    shards = set()
    for row, loads in enumerate(rows_of(plan)):
        copies = found.copies(row, ())
        assert len(copies) == NUM_SHARDS
        for shard, own in enumerate(copies):
            assert {copy.shard for copy in own} <= {shard}
            shards.update(copy.shard for copy in own)
        layout = load_slots(plan, [loads]).layout(0, ())
        whole = sum(item.type.num_bytes for item in layout.items)
        assert sum(copy.num_bytes for own in copies for copy in own) == whole
        assert found.value_bytes(row, ()) == whole
        assert found.num_bytes(row, ()) == layout.num_bytes
    assert shards == set(range(NUM_SHARDS))


def test_what_is_read_where_it_lies_is_not_copied():
    plan = two_layer_plan()
    found = broadcast_rows(plan, StreamMode.MAPPED)
    for row in range(len(plan.layer_steps)):
        assert found.copies(row, ()) == ((),) * NUM_SHARDS
        assert found.num_bytes(row, ()) == found.value_bytes(row, ()) == 0


def test_copies_follow_the_counts_of_a_slot_and_those_of_the_latest_are_kept():
    plan = masked_plan()
    slots = load_slots(plan, rows_of(plan))
    row = next(row for row in range(len(plan.layer_steps)) if slots.header_bytes(row))
    found = broadcast_rows(plan)
    most = [1] * (slots.header_bytes(row) // 8)
    sizes = []
    for counts in ([5] * len(most), [9] * len(most), [5] * len(most)):
        slot = np.zeros(slots.most_bytes(row), np.uint8)
        slot[: slots.header_bytes(row)].view(np.int64)[...] = counts
        read = found.counts(row, slot)
        assert read == tuple(counts)
        copies = found.copies(row, read)
        assert found.copies(row, read) is copies
        sizes.append(found.value_bytes(row, read))
    assert sizes[0] == sizes[2] < sizes[1]


class PlayedShard:
    """A shard that has announced one visit, or has ended."""

    def __init__(self, *, has_ended=False):
        self.has_ended, self.num_released, self.pieces = has_ended, 0, []
        self.announce = self.store = self

    def acquire(self):
        return None if self.has_ended else np.zeros(0, np.uint8)

    def release(self):
        self.num_released += 1

    def read(self, pieces):
        self.pieces += pieces
        for piece in pieces:
            piece.target[...] = 7


def stored_loads(played, rows):
    shards = [
        ShardLoads(name=f"announce-{index}", announce=shard.announce, store=shard.store)
        for index, shard in enumerate(played)
    ]
    return StoredLoads(shards, rows)


def test_a_slot_is_filled_from_every_shard():
    plan = two_layer_plan()
    rows, row = broadcast_rows(plan), row_with_most_loads(plan)
    played = [PlayedShard() for _ in range(NUM_SHARDS)]
    loads = stored_loads(played, rows)
    loads.wait()
    slot = np.zeros(rows.largest_bytes, np.uint8)
    copied = loads.copy(row, slot)
    assert [len(shard.pieces) for shard in played] == [len(own) for own in rows.copies(row, ())]
    assert int((slot == 7).sum()) == copied.num_copied == rows.value_bytes(row, ())
    assert copied.num_bytes == rows.num_bytes(row, ())
    loads.release()
    assert [shard.num_released for shard in played] == [1] * NUM_SHARDS


def test_rows_of_other_shards_than_there_are_are_refused():
    plan = two_layer_plan()
    loads = stored_loads([PlayedShard()], broadcast_rows(plan))
    loads.wait()
    with pytest.raises(ValueError, match="zip"):
        loads.copy(0, np.zeros(1 << 12, np.uint8))


@pytest.mark.parametrize("which", range(NUM_SHARDS))
def test_a_shard_that_has_ended_is_named(which):
    played = [PlayedShard(has_ended=number == which) for number in range(NUM_SHARDS)]
    with pytest.raises(StreamClosedError, match=f"announce-{which}"):
        stored_loads(played, broadcast_rows(two_layer_plan())).wait()
