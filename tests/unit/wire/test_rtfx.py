"""Values survive the client's wire, and what does not fit is refused with both numbers."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from appliance.core.errors import UserError
from appliance.core.ir.tensors import DType, TensorType
from appliance.wire import rtfx
from appliance.wire.tensor_chunks import output_messages
from protos.appliance.appliance_service_pb2 import GetOutputResponse
from protos.appliance.rtfx_pb2 import RtFxProto

WIDE = [DType.I1, DType.I16, DType.I32, DType.I64, DType.U8, DType.F32, DType.F64]


def messages(values: np.ndarray, dtype: DType, **options: int) -> list[RtFxProto]:
    encoded = output_messages(values, dtype, **options)
    return [GetOutputResponse.FromString(raw).rtfx_proto for raw in encoded]


@pytest.mark.parametrize("dtype", WIDE)
@given(data=st.data())
def test_types_that_are_carried_as_they_are_round_trip(dtype: DType, data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=3, max_side=4))
    values = data.draw(hnp.arrays(dtype.container, shape))
    chunks = [m.tensor.data for m in messages(values, dtype, chunk_bytes=7 * 8)]
    back = np.empty_like(values)
    rtfx.decode(rtfx.join(chunks, dtype).reshape(shape), dtype, back)
    np.testing.assert_array_equal(back, values)


@given(hnp.arrays(np.float16, 8))
def test_float16_values_round_trip_through_float32_containers(values: np.ndarray) -> None:
    container = np.empty(8, np.float32)
    rtfx.decode(values, DType.F16, container)
    np.testing.assert_array_equal(rtfx.encode(container, DType.F16).view(np.float16), values)


@given(hnp.arrays(np.float32, 16))
def test_bfloat16_rounds_as_torch_does(values: np.ndarray) -> None:
    expected = torch.from_numpy(values).to(torch.bfloat16).to(torch.float32).numpy()
    bits = rtfx.encode(values, DType.BF16)
    back = np.empty_like(values)
    rtfx.decode(bits, DType.BF16, back)
    np.testing.assert_array_equal(back, expected)


def test_a_bool_takes_two_bytes_on_the_wire() -> None:
    (message,) = messages(np.array([True, False]), DType.I1)
    assert message.dtype == RtFxProto.T_I1
    assert message.tensor.data == b"\x01\x00\x00\x00"


def test_cbfloat16_travels_as_float16_since_the_client_has_no_such_type() -> None:
    assert rtfx.element_type(DType.CB16) == RtFxProto.T_F16


def test_a_scalar_has_an_empty_shape_and_one_message() -> None:
    (message,) = messages(np.array(1.5, np.float32), DType.F32)
    assert list(message.tensor.shape) == []
    assert len(message.tensor.data) == 4


def test_an_empty_tensor_still_has_one_message() -> None:
    (message,) = messages(np.empty((0, 3), np.float32), DType.F32)
    assert list(message.tensor.shape) == [0, 3]


def test_a_wrong_element_type_is_refused_with_both_names() -> None:
    with pytest.raises(UserError, match=r"'w' arrives with element type T_F16.*needs T_F32"):
        rtfx.check_announced("w", (2, 3), RtFxProto.T_F16, expected=TensorType((2, 3), DType.F32))


def test_a_wrong_shape_is_refused_with_both_shapes() -> None:
    with pytest.raises(UserError, match=r"shape \[3, 2\]; the program needs \[2, 3\]"):
        rtfx.check_announced("w", (3, 2), RtFxProto.T_F32, expected=TensorType((2, 3), DType.F32))


def test_a_cut_stream_is_refused_with_both_lengths() -> None:
    with pytest.raises(UserError, match=r"'w' ended after 10 bytes; tensor<2x3xf32> takes 24"):
        rtfx.check_length("w", 10, TensorType((2, 3), DType.F32), is_scalar=False)
