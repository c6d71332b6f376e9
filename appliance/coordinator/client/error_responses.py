"""Translates errors for the client, once for every method of its service.

The client shows the message of a response with an error code as it is, but hides a status's text in
the cause of another error; and it repeats calls that end with UNAVAILABLE, UNKNOWN or
RESOURCE_EXHAUSTED. So an error becomes a response wherever the response has a code and a message,
else the status INTERNAL.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from appliance.coordinator.failure import JobFailedError, JobStalledError, UserFailedError
from appliance.core.errors import WscError
from protos.appliance import appliance_service_pb2
from protos.appliance.ws_common_pb2 import StatusCode

logger = logging.getLogger(__name__)

_SERVICE = appliance_service_pb2.DESCRIPTOR.services_by_name["Appliance"]


Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # messages differ from method to method


class AnswerInterceptor(grpc.ServerInterceptor):
    """Turns what a method raises into an answer that the client can show.

    Args:
        note_carried: Called when a call ends with the job's failure.
    """

    def __init__(self, note_carried: Callable[[], None]) -> None:
        self._note_carried = note_carried

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], "Handler | None"],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        """Wrap a method of the client's service."""
        handler = continuation(handler_call_details)
        name = handler_call_details.method.rpartition("/")[2]
        if handler is None or name not in _SERVICE.methods_by_name:
            return handler
        answer = _Answer(name, self._note_carried)
        codec = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        if handler.unary_unary is not None:
            unary = answer.one(handler.unary_unary)
            return grpc.unary_unary_rpc_method_handler(unary, **codec)
        if handler.unary_stream is not None:
            stream = answer.many(handler.unary_stream)
            return grpc.unary_stream_rpc_method_handler(stream, **codec)
        if handler.stream_unary is not None:
            unary = answer.one(handler.stream_unary)
            return grpc.stream_unary_rpc_method_handler(unary, **codec)
        assert handler.stream_stream is not None
        stream = answer.many(handler.stream_stream)
        return grpc.stream_stream_rpc_method_handler(stream, **codec)


class _Answer:
    """Wraps the implementation of one method.

    Args:
        method: Its name.
        note_carried: Called when a call ends with the job's failure.
    """

    def __init__(self, method: str, note_carried: Callable[[], None]) -> None:
        self._method, self._note_carried = method, note_carried
        descriptor = _SERVICE.methods_by_name[method].output_type
        self._response: Callable[..., Message] = GetMessageClass(descriptor)
        fields = descriptor.fields_by_name
        self._has_code = "code" in fields and "message" in fields

    def one(self, method: Callable[..., Message]) -> Callable[..., Message]:
        """Wrap a method that returns one response."""

        def call(request: object, context: grpc.ServicerContext) -> Message:
            try:
                return method(request, context)
            except Exception as error:  # noqa: BLE001 - the outermost frame of a call
                return self._refuse(error, context)

        return call

    def many(self, method: Callable[..., Iterator[Message]]) -> Callable[..., Iterator[Message]]:
        """Wrap a method that returns a stream of responses."""

        def call(request: object, context: grpc.ServicerContext) -> Iterator[Message]:
            try:
                yield from method(request, context)
            except Exception as error:  # noqa: BLE001 - the outermost frame of a call
                yield self._refuse(error, context)

        return call

    def _refuse(self, error: Exception, context: grpc.ServicerContext) -> Message:
        if not context.is_active():  # the caller has gone: Ctrl-C, or its own failure
            raise error
        if isinstance(error, NotImplementedError):  # what the generated base class raises
            text = f"{self._method} is not served: this appliance trains and evaluates, and keeps "
            context.abort(grpc.StatusCode.UNIMPLEMENTED, text + "checkpoints in files.")
        if isinstance(error, WscError):
            text = str(error)
            logger.warning("Call refused", extra={"method": self._method, "reason": text})
        else:
            text = f"The coordinator failed in {self._method}: {type(error).__name__}: {error}"
            logger.error("Call failed", extra={"method": self._method}, exc_info=error)
        if isinstance(error, JobFailedError | UserFailedError):
            self._note_carried()
        if not self._has_code:
            context.abort(grpc.StatusCode.INTERNAL, text)
        is_stall = isinstance(error, JobStalledError)
        code = StatusCode.WS_RT_STALL_DETECTED if is_stall else StatusCode.WS_RT_INTERNAL_ERROR
        return self._response(code=code, message=text)
