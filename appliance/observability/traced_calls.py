"""gRPC's own part in traces: spans for calls, and the place in a trace as metadata.

Calls that come every few seconds, or with every step, are left out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc

from appliance.observability import tracing
from appliance.observability.spans import HEADER, Side

QUIET = frozenset(
    {
        "GetOutputStream",
        "Heartbeat",
        "ReportJob",
        "SendClientHeartbeat",
        "UnaryGetOutput",
        "UnaryHeartBeat",
        "UnaryMonitorCheck",
        "UnaryMonitorError",
        "UnaryMsgQueue",
    }
)
"""Methods without spans."""

# `Any`: messages differ from method to method, and gRPC's stubs are generic in them alone.
_Any = Any
if TYPE_CHECKING:
    _Handler = grpc.RpcMethodHandler[Any, Any]


def is_quiet(method: str) -> bool:
    """Whether calls of a method, as in `/package.Service/Method`, have no spans."""
    return not tracing.is_tracing() or method.rpartition("/")[2] in QUIET


def place_in(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """Return the caller's place in a trace; empty if it tells none."""
    for key, value in metadata or ():
        if key == HEADER and isinstance(value, str):
            return value
    return ""


class TracedServer(grpc.ServerInterceptor):
    """Makes a span of each call that a synchronous server answers."""

    def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], _Handler | None]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "_Handler | None":
        """Wrap a method."""
        handler = continuation(handler_call_details)
        method = handler_call_details.method
        if handler is None or is_quiet(method) or handler.request_streaming:
            return handler
        parent = place_in(handler_call_details.invocation_metadata)
        codec = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        name = method.removeprefix("/")
        if handler.unary_unary is not None:
            unary = _traced(handler.unary_unary, name, parent)
            return grpc.unary_unary_rpc_method_handler(unary, **codec)
        assert handler.unary_stream is not None
        stream = _traced_stream(handler.unary_stream, name, parent)
        return grpc.unary_stream_rpc_method_handler(stream, **codec)


def _traced(method: Callable[..., _Any], name: str, parent: str) -> Callable[..., _Any]:
    def call(request: _Any, context: _Any) -> _Any:
        with tracing.span(name, parent=parent, side=Side.SERVER):
            return method(request, context)

    return call


def _traced_stream(
    method: Callable[..., Iterator[_Any]], name: str, parent: str
) -> Callable[..., Iterator[_Any]]:
    def call(request: _Any, context: _Any) -> Iterator[_Any]:
        with tracing.span(name, parent=parent, side=Side.SERVER, is_current=False):
            yield from method(request, context)

    return call


class _Details(NamedTuple):
    """`grpc.ClientCallDetails` as its documentation wants it made."""

    method: str
    timeout: float | None
    metadata: Sequence[tuple[str, str | bytes]]
    credentials: grpc.CallCredentials | None
    wait_for_ready: bool | None
    compression: grpc.Compression | None


class _TracedClient(grpc.UnaryUnaryClientInterceptor):
    """Carries the caller's place in a trace to whoever answers."""

    def intercept_unary_unary(
        self, continuation: _Any, client_call_details: _Any, request: _Any
    ) -> _Any:
        """Add metadata to a call."""
        given = client_call_details
        if is_quiet(given.method) or not (place := tracing.here()):
            return continuation(given, request)
        details = _Details(
            method=given.method,
            timeout=given.timeout,
            metadata=[*(given.metadata or ()), (HEADER, place)],
            credentials=given.credentials,
            wait_for_ready=given.wait_for_ready,
            compression=given.compression,
        )
        return continuation(details, request)


def traced_server() -> tuple[grpc.ServerInterceptor, ...]:
    """Return what a server needs for spans of its calls; nothing while tracing is off."""
    return (TracedServer(),) if tracing.is_tracing() else ()


def traced_channel(channel: grpc.Channel) -> grpc.Channel:
    """Return a channel whose calls carry the caller's place; the same while tracing is off."""
    return grpc.intercept_channel(channel, _TracedClient()) if tracing.is_tracing() else channel
