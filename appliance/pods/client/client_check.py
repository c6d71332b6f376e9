"""Who may call a coordinator or an SDK pod: the check before every method of the client's service.

The public client sends its coordinator no credentials. What it does send, with each call, is the
authority that management told it, so that authority is the credential: it cannot be guessed, and
only the job's owner is told it. Beside that a connection from this machine must be the owner's own,
or root's, or of the user that we run as, which is the SNI proxy; see docs/security.md. Of that the
front takes care (`client_front`), which cuts what may not come here before gRPC learns of it.

gRPC for Python takes the message of a unary call from the connection before it calls the method. So
each is served as a stream of requests, which is the same on the wire: the check comes first, and
who fails it has nothing read, nor can he keep a thread by sending nothing. For the same reason only
a few messages are read at a time (`message_memory`): what is not read stays with its sender.
"""

import hmac
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias, cast

import grpc
from google.protobuf.message import Message

from appliance.pods.client.client_front import REFUSAL
from appliance.pods.client.message_memory import MessageRoom

logger = logging.getLogger(__name__)

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # messages differ from method to method
_Method: TypeAlias = Callable[[Any, grpc.ServicerContext], Any]

SMALL_BYTES = 16 << 20
"""Limit of a message of a method that sends neither programs nor data."""
_HELD_BYTES = 1 << 30
"""No further message is read while calls that are being answered hold so much."""


@dataclass(frozen=True, slots=True)
class _TooLong:
    """Stands for a message that is longer than its method takes, and was not decoded."""

    num_bytes: int
    most_bytes: int


class ClientCheck(grpc.ServerInterceptor):
    """Refuses every call that is not of the job's own client; what it does not know, too.

    Args:
        authority: By which the job's client calls.
        most_bytes: Limits of messages by the method's name, where it is not `SMALL_BYTES`; of
            each message of a method that takes a stream of them, the server's own otherwise.
    """

    def __init__(self, authority: str, most_bytes: Mapping[str, int]) -> None:
        self.authority, self._most_bytes = authority, most_bytes
        self._authority = authority.encode()
        # gRPC has one limit for all methods: each message may turn out as long as the longest.
        self._small = MessageRoom(num_read=2, held_bytes=_HELD_BYTES)
        self._large = MessageRoom(num_read=1, held_bytes=_HELD_BYTES)
        self._streamed = MessageRoom(num_read=4, held_bytes=_HELD_BYTES)
        self._lock = threading.Lock()
        self._num_open = 0
        self._was_seen = False

    def was_client_here(self) -> bool:
        """Whether the client has called since this was asked last, or is waiting for an answer."""
        with self._lock:
            was_seen, self._was_seen = self._was_seen, False
            return was_seen or self._num_open > 0

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], "Handler | None"],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler | None":
        """Put the check before a method, whatever it is."""
        handler = continuation(handler_call_details)
        if handler is None:
            return None
        name = handler_call_details.method.rpartition("/")[2]
        most_bytes = self._most_bytes.get(name)
        codec = {
            "request_deserializer": _limited(handler.request_deserializer, most_bytes),
            "response_serializer": handler.response_serializer,
        }
        if not handler.request_streaming:
            room = self._small if most_bytes is None else self._large
            codec["request_deserializer"] = _limited(
                handler.request_deserializer, SMALL_BYTES if most_bytes is None else most_bytes
            )
            if handler.unary_unary is not None:
                return grpc.stream_unary_rpc_method_handler(
                    self._checked(_of_one(handler.unary_unary, room)), **codec
                )
            assert handler.unary_stream is not None
            return grpc.stream_stream_rpc_method_handler(
                self._checked(_of_one(handler.unary_stream, room)), **codec
            )
        if handler.stream_unary is not None:
            return grpc.stream_unary_rpc_method_handler(
                self._checked(_of_many(handler.stream_unary, self._streamed)), **codec
            )
        assert handler.stream_stream is not None
        return grpc.stream_stream_rpc_method_handler(
            self._checked(_of_many(handler.stream_stream, self._streamed)), **codec
        )

    def _checked(self, method: _Method) -> _Method:
        # `Any`: whatever message, or stream of them, the method takes and returns.
        def call(request: Any, context: grpc.ServicerContext) -> Any:  # noqa: ANN401
            if not hmac.compare_digest(_authority_of(context), self._authority):
                logger.warning("Call refused")
                context.abort(grpc.StatusCode.PERMISSION_DENIED, REFUSAL)
            self._begin(context)
            return method(request, context)

        return call

    def _begin(self, context: grpc.ServicerContext) -> None:
        with self._lock:
            self._was_seen = True
            self._num_open += 1
        if not context.add_callback(self._end):
            self._end()

    def _end(self) -> None:
        with self._lock:
            self._num_open -= 1


def _of_one(method: _Method, room: MessageRoom) -> _Method:
    """Return a method of a stream of one request for a method of that request."""

    def call(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:  # noqa: ANN401
        with room.reading():
            request = next(requests, None)
        if request is None:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "The call has no message.")
        if isinstance(request, _TooLong):
            _refuse(request, context)
        with room.holding(_length(request)):
            return method(request, context)

    return call


def _length(request: bytes | Message) -> int:
    return len(request) if isinstance(request, bytes) else request.ByteSize()


def _of_many(method: _Method, room: MessageRoom) -> _Method:
    """Return a method of a stream of requests that takes its turn to read each of them."""

    def read(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        while True:
            with room.reading():
                request = next(requests, None)
            if request is None:
                return
            if isinstance(request, _TooLong):
                _refuse(request, context)
            yield request
            del request  # or it would stay until the next one is there

    def call(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:  # noqa: ANN401
        return method(read(requests, context), context)

    return call


def _refuse(message: _TooLong, context: grpc.ServicerContext) -> NoReturn:
    context.abort(
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        f"A message of {message.num_bytes:,} bytes is too long for this method, which takes "
        f"{message.most_bytes:,} bytes.",
    )


def _limited(
    decode: Callable[[bytes], Any] | None, most_bytes: int | None
) -> Callable[[bytes], Any]:
    """Return a decoder that leaves messages alone that are too long."""

    def read(data: bytes) -> Any:  # noqa: ANN401 - whatever message the method takes
        if most_bytes is not None and len(data) > most_bytes:
            return _TooLong(len(data), most_bytes)
        return data if decode is None else decode(data)

    return read


class ByName:
    """Stands for a server whose service is added, so that its methods are found by name.

    gRPC tells the authority of a call to a method that is registered with its core to nobody.
    """

    def __init__(self, server: grpc.Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: "tuple[grpc.GenericRpcHandler, ...]") -> None:
        """Let the server ask these for the handler of a call."""
        self._server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(
        self, service: str, handlers: "Mapping[str, Handler]"
    ) -> None:
        """Leave this out."""


def by_name(server: grpc.Server) -> grpc.Server:
    """Return what services are added to in place of a server; see `ByName`."""
    return cast("grpc.Server", ByName(server))


def _authority_of(context: grpc.ServicerContext) -> bytes:
    """Return the authority that a call names; empty if that cannot be said, so that nothing fits.

    gRPC for Python has no public way to ask, so what it keeps for itself is read.
    """
    details = getattr(getattr(context, "_rpc_event", None), "call_details", None)
    host = getattr(details, "host", None)
    return bytes(host) if isinstance(host, bytes) else b""
