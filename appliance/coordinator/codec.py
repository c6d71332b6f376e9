"""Has the messages of weight streams parsed without copying; all others are parsed as generated."""

from collections.abc import Callable
from typing import Any, TypeAlias

import grpc

from appliance.wire.tensor_chunks import parse_chunk

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # messages differ from method to method

_METHOD = "/cerebras.Appliance/SendInputBidirStream"


class ChunkInterceptor(grpc.ServerInterceptor):
    """Gives `SendInputBidirStream` its requests as `TensorChunk`s."""

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], "Handler | None"],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        """Exchange the parser of that one method."""
        handler = continuation(handler_call_details)
        if handler is None or handler_call_details.method != _METHOD:
            return handler
        assert handler.stream_stream is not None
        return grpc.stream_stream_rpc_method_handler(
            handler.stream_stream,
            request_deserializer=parse_chunk,
            response_serializer=handler.response_serializer,
        )
