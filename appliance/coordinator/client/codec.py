"""Parses and builds tensor-stream messages without copies, and all others with generated code."""

from collections.abc import Callable
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import Message

from appliance.wire.tensor_chunks import parse_chunk

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # messages differ from method to method

_TAKEN = "/cerebras.Appliance/SendInputBidirStream"
_SENT = ("/cerebras.Appliance/GetOutputStream", "/cerebras.Appliance/GetFromPTRStream")


class ChunkInterceptor(grpc.ServerInterceptor):
    """Gives `SendInputBidirStream` its requests as `TensorChunk`s.

    The two methods that send tensors may yield responses that are encoded already.
    """

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], "Handler | None"],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        """Exchange parser or serializer of these methods."""
        handler = continuation(handler_call_details)
        if handler is not None and handler_call_details.method in _SENT:
            assert handler.unary_stream is not None
            return grpc.unary_stream_rpc_method_handler(
                handler.unary_stream,
                request_deserializer=handler.request_deserializer,
                response_serializer=encoded,
            )
        if handler is None or handler_call_details.method != _TAKEN:
            return handler
        assert handler.stream_stream is not None
        return grpc.stream_stream_rpc_method_handler(
            handler.stream_stream,
            request_deserializer=parse_chunk,
            response_serializer=handler.response_serializer,
        )


def encoded(response: Message | bytes) -> bytes:
    """Return a response's bytes; an answer that refuses comes as a message."""
    return response if isinstance(response, bytes) else response.SerializeToString()
