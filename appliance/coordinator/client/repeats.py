"""Answers a repeated call as the first attempt was answered, without executing it again.

The client's gRPC library makes a call again when its connection broke, whether or not the first
attempt arrived, and counts the earlier attempts in a header (gRFC A6, "Client Retries").
"""

import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import Message

from appliance.wire.caller import caller

_BOUNDARIES = frozenset({"UnaryLoad", "UnaryFinalize"})
"""A session's first and last call: what came before is not repeated any more."""
_CHANGES = _BOUNDARIES | {
    "UnaryRun",
    "UnaryStartStreaming",
    "UnarySendDeferredInput",
    "UnaryCarryOverFromPTR",
    "UnaryMoveToPTR",
    "UnaryDeleteFromPTR",
}
"""What makes a difference when it is done twice; each is asked once in a session, by its request.
`UnaryCompile` has a number for it, and is told apart by that."""

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # messages differ from method to method


class RepeatInterceptor(grpc.ServerInterceptor):
    """Gives a repeated call of the client's service the answer, or the error, of the first one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, bytes], Future[Message]] = {}

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], "Handler | None"],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        """Wrap a method that must not be carried out twice."""
        handler = continuation(handler_call_details)
        name = handler_call_details.method.rpartition("/")[2]
        if handler is None or handler.unary_unary is None or name not in _CHANGES:
            return handler
        method = handler.unary_unary
        is_repeat = caller(handler_call_details.invocation_metadata).num_previous_attempts > 0

        def call(request: Message, context: grpc.ServicerContext) -> Message:
            return self._answer(name, request, lambda: method(request, context), is_repeat)

        return grpc.unary_unary_rpc_method_handler(
            call,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def _answer(
        self, name: str, request: Message, carry_out: Callable[[], Message], is_repeat: bool
    ) -> Message:
        text = request.SerializeToString(deterministic=True)
        key = (name, hashlib.sha256(text).digest())
        mine: Future[Message] = Future()
        with self._lock:
            first = self._answers.get(key) if is_repeat else None
            if first is None:
                if name in _BOUNDARIES:
                    self._answers.clear()
                self._answers[key] = mine
        if first is not None:
            return first.result()
        try:
            mine.set_result(carry_out())
        except BaseException as error:
            mine.set_exception(error)
            raise
        return mine.result()
