"""Messages that carry a piece of a tensor, taken apart and put together around the piece.

Parsing such a message the usual way copies the bytes of its tensor twice: into the message, and out
of it. Here the tensor's bytes stay where gRPC has put them; everything else is parsed as usual.
Building one the usual way copies them five times: out of the array, into the message, with it into
the response, into the encoded response, and that into a Python object. Here they are copied once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from appliance.core.errors import UserError
from appliance.core.ir.tensors import DType
from appliance.wire.rtfx import element_type, encode, encoded_dtype
from protos.appliance.appliance_service_pb2 import GetOutputResponse, SendInputRequest
from protos.appliance.rtfx_pb2 import RtFxProto

CHUNK_BYTES = 1 << 20
"""Bytes of one message of a tensor sent to the client.

The client spends 1.8 processor seconds on a gigabyte that comes in messages of 1 MB and 3.7 on one
in messages of 32 MB, whose buffers are fetched from the system and given back every time; below
1 MB the calls begin to cost more.
"""

_RTFX = SendInputRequest.RTFX_PROTO_FIELD_NUMBER
_OUTPUT = GetOutputResponse.RTFX_PROTO_FIELD_NUMBER
_TENSOR = RtFxProto.TENSOR_FIELD_NUMBER
_DATA = RtFxProto.RtFxTensor.DATA_FIELD_NUMBER


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorChunk:
    """A message of a stream of weights.

    Attributes:
        message: The message without the tensor's bytes.
        data: The tensor's bytes in this message; empty in one that only announces.
    """

    message: SendInputRequest
    data: memoryview


def parse_chunk(raw: bytes) -> TensorChunk:
    """Parse a `SendInputRequest`.

    Raises:
        UserError: The bytes are no such message.
    """
    try:
        rest, proto = _cut(memoryview(raw), _RTFX)
        proto_rest, tensor = _cut(proto, _TENSOR)
        tensor_rest, data = _cut(tensor, _DATA)
        message = SendInputRequest.FromString(rest)
        if proto is not None:
            message.rtfx_proto.MergeFromString(proto_rest)
        if tensor is not None:
            message.rtfx_proto.tensor.SetInParent()
            message.rtfx_proto.tensor.MergeFromString(tensor_rest)
    except (IndexError, ValueError, DecodeError) as error:
        raise UserError(
            f"A message of {len(raw):,} bytes in a stream of weights cannot be parsed."
        ) from error
    return TensorChunk(message=message, data=memoryview(b"") if data is None else data)


def output_messages(
    container: NDArray[np.generic], dtype: DType, *, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[bytes]:
    """Yield a tensor as the client reads it: encoded `GetOutputResponse`s, one or more.

    Args:
        container: Values as computed with.
        dtype: Element type on the wire.
        chunk_bytes: Most bytes of the tensor in one message; each has type and shape.
    """
    values = np.ascontiguousarray(container).reshape(-1)
    num_values = max(1, chunk_bytes // encoded_dtype(dtype).itemsize)
    described = RtFxProto(dtype=element_type(dtype)).SerializeToString()
    shape = RtFxProto.RtFxTensor(shape=container.shape).SerializeToString()
    for start in range(0, max(1, values.size), num_values):
        data = encode(values[start : start + num_values], dtype).view(np.uint8)
        tensor = shape + _header(_DATA, data.size)
        rtfx = described + _header(_TENSOR, len(tensor) + data.size) + tensor
        yield b"".join((_header(_OUTPUT, len(rtfx) + data.size), rtfx, data.data))


def _header(field: int, num_bytes: int) -> bytes:
    """Return what stands before a field of so many bytes: its tag and its length."""
    found = bytearray()
    for number in (field << 3 | 2, num_bytes):
        rest = number
        while rest >= 0x80:
            found.append(rest & 0x7F | 0x80)
            rest >>= 7
        found.append(rest)
    return bytes(found)


def _cut(message: memoryview | None, number: int) -> tuple[bytes, memoryview | None]:
    """Return a message without one of its fields, and that field's bytes.

    Args:
        message: An encoded message; None is one that is absent, and so is the field.
        number: A field of type bytes or message that occurs at most once.
    """
    rest: list[memoryview] = []
    found: memoryview | None = None
    if message is None:
        return b"", None
    for field, start, value, end in _fields(message):
        if field == number:
            found = message[value:end]
        else:
            rest.append(message[start:end])
    return b"".join(rest), found


def _fields(message: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Yield number, first byte, first byte of the value and end of each field."""
    position = 0
    while position < len(message):
        start = position
        tag, position = _varint(message, position)
        value = position
        match tag & 7:
            case 0:
                _, position = _varint(message, position)
            case 1:
                position += 8
            case 2:
                length, value = _varint(message, position)
                position = value + length
            case 5:
                position += 4
            case other:
                raise ValueError(f"wire type {other}")
        if position > len(message):
            raise ValueError(f"field {tag >> 3} ends after byte {len(message)}")
        yield tag >> 3, start, value, position


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
