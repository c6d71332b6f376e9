"""Counts at the beginning of slots that hold sparse values."""

import numpy as np
import pytest

from appliance.core.errors import InternalError
from appliance.core.ir.tensors import DType, TensorType
from appliance.core.sparsity.encodings import MatrixShape
from appliance.streams.sparse_slots import SparseSlots, pattern_of

TYPE = TensorType((8, 16), DType.F32)
ROW = (("bias", TensorType((8,), DType.F32)), ("w1", TYPE), ("w2", TYPE))
SHAPES = {name: MatrixShape.of(TYPE.shape, 4) for name in ("w1", "w2")}


def slots(**options):
    return SparseSlots([ROW], SHAPES, has_patterns=True, **options)


def slot_of(*counts):
    return np.array(counts, np.int64).view(np.uint8)


def test_a_load_may_come_with_a_count_of_gradients():
    asking = slots(asking={"w2"})
    assert (asking.header_bytes(0), slots().header_bytes(0)) == (24, 16)
    counts = asking.counts(0, slot_of(10, 20, 128))
    assert counts == (10, 20, 128)
    assert asking.asked(0, counts) == {"w2": 128}
    assert slots().asked(0, (10, 20)) == {}


def test_counts_of_gradients_change_nothing_of_where_values_lie():
    asking = slots(asking={"w2"})
    whole, few = asking.layout(0, (10, 20, 128)), asking.layout(0, (10, 20, 20))
    assert whole.items == few.items
    names = [item.name for item in whole.items]
    assert names == [item.name for item in slots().layout(0, (10, 20)).items]


@pytest.mark.parametrize("counts", [(10, 20, 129), (10, -1, 20), (129, 20, 20)])
def test_a_count_that_cannot_be_is_refused(counts):
    with pytest.raises(InternalError, match="holds"):
        slots(asking={"w2"}).counts(0, slot_of(*counts))


def test_a_pattern_lies_in_a_slot_where_it_takes_bytes_and_is_wanted():
    def names(slots, *counts):
        return [item.name for item in slots.layout(0, counts).items]

    patterns = [pattern_of("w1"), pattern_of("w2")]
    unwanted = SparseSlots([ROW], SHAPES, has_patterns=False)
    assert [name for name in names(slots(), 10, 20) if name in patterns] == patterns
    assert [name for name in names(slots(), 128, 20) if name in patterns] == patterns[1:], "dense"
    assert [name for name in names(unwanted, 10, 20) if name in patterns] == []
