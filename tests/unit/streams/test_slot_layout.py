import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.ir.tensors import DType, TensorType
from appliance.streams.slot_layout import ALIGNMENT_BYTES, SlotLayout

types = st.builds(
    TensorType, st.lists(st.integers(0, 5), max_size=3).map(tuple), st.sampled_from(list(DType))
)


@given(st.lists(types, max_size=8))
def test_tensors_are_aligned_and_never_overlap(found):
    layout = SlotLayout.of((str(index), type_) for index, type_ in enumerate(found))
    end = 0
    for item in layout.items:
        assert item.offset % ALIGNMENT_BYTES == 0
        assert item.offset >= end
        end = item.offset + item.type.num_bytes
    assert layout.num_bytes >= end


@given(st.lists(types, max_size=8))
def test_what_is_written_through_one_view_is_read_through_another(found):
    layout = SlotLayout.of((str(index), type_) for index, type_ in enumerate(found))
    buffer = np.zeros(layout.num_bytes, dtype=np.uint8)
    for index, view in enumerate(layout.views(buffer).values()):
        view[...] = index % 2
    for index, view in enumerate(layout.views(buffer).values()):
        assert view.shape == found[index].shape
        assert np.all(view == index % 2)
