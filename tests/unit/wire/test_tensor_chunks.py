"""A chunk of a tensor parses to what the generated parser gives, and its bytes are not copied."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.core.errors import UserError
from appliance.core.ir.tensors import DType
from appliance.wire.tensor_chunks import output_messages, parse_chunk
from protos.appliance.appliance_service_pb2 import GetOutputResponse, SendInputRequest


@given(
    name=st.text(max_size=20),
    iteration=st.integers(0, 2**64 - 1),
    shape=st.lists(st.integers(0, 2**32 - 1), max_size=4),
    data=st.binary(max_size=300),
    has_more=st.booleans(),
)
def test_it_holds_what_the_generated_parser_finds(name, iteration, shape, data, has_more) -> None:
    request = SendInputRequest(
        iteration=iteration, tensor_name=name, has_more=has_more, num_bytes=7
    )
    request.rtfx_proto.dtype = 11
    request.rtfx_proto.tensor.name = name
    request.rtfx_proto.tensor.shape.extend(shape)
    request.rtfx_proto.tensor.data = data
    chunk = parse_chunk(request.SerializeToString())
    assert bytes(chunk.data) == data
    request.rtfx_proto.tensor.ClearField("data")
    assert chunk.message == request


def test_the_bytes_stay_where_they_are() -> None:
    request = SendInputRequest(tensor_name="w")
    request.rtfx_proto.tensor.data = bytes(range(200))
    raw = request.SerializeToString()
    assert np.shares_memory(
        np.frombuffer(parse_chunk(raw).data, np.uint8), np.frombuffer(raw, "u1")
    )


def test_a_scalar_is_left_in_the_message() -> None:
    request = SendInputRequest(tensor_name="w")
    request.rtfx_proto.scalar.data = b"\x00\x00\x80\x3f"
    chunk = parse_chunk(request.SerializeToString())
    assert chunk.message == request
    assert len(chunk.data) == 0


def test_a_message_without_a_tensor_is_left_as_it_is() -> None:
    assert parse_chunk(b"").message == SendInputRequest()


@pytest.mark.parametrize("raw", [b"\x2a\xff\x01", b"\x80", b"\x2b\x00", b"\x2a\x03\x12\x05\x00"])
def test_torn_bytes_are_refused_with_their_number(raw) -> None:
    with pytest.raises(UserError, match=f"{len(raw)} bytes"):
        parse_chunk(raw)


@given(shape=st.lists(st.integers(0, 9), max_size=4), num_elements=st.integers(1, 9))
def test_an_output_is_encoded_as_the_generated_classes_do_it(shape, num_elements) -> None:
    values = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    flat = values.reshape(-1)
    expected = []
    for start in range(0, max(1, flat.size), num_elements):
        response = GetOutputResponse()
        response.rtfx_proto.dtype = 11
        response.rtfx_proto.tensor.shape.extend(shape)
        response.rtfx_proto.tensor.data = flat[start : start + num_elements].tobytes()
        expected.append(response)
    found = output_messages(values, DType.F32, chunk_bytes=4 * num_elements)
    assert [GetOutputResponse.FromString(raw) for raw in found] == expected


def test_a_length_of_many_bytes_is_encoded_as_the_generated_classes_do_it() -> None:
    values = np.ones(100_000, np.float32)
    (raw,) = output_messages(values, DType.F32)
    (proto,) = [GetOutputResponse.FromString(raw).rtfx_proto]
    assert proto.tensor.data == values.tobytes()
