"""The edge of every gRPC server: asks who may pass, runs handlers, gives errors status codes.

A handler that is an ordinary function runs in a thread pool, since it may wait for the database; a
coroutine or an asynchronous generator runs in the event loop, where waiting costs nothing.
"""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from appliance.core.errors import (
    ClusterError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    ProgramError,
    UnauthenticatedError,
    UnschedulableError,
    UserError,
    WscError,
)
from appliance.management.access.authorization import Change
from appliance.management.rpc.access_edge import Gate, name_of
from appliance.observability import metrics, tracing
from appliance.observability.traced_calls import is_quiet, place_in
from appliance.storage.database import WouldWaitError
from appliance.storage.failures import is_of_database, refusal_of
from appliance.wire.caller import caller

logger = logging.getLogger(__name__)

_CODES: tuple[tuple[type[WscError], grpc.StatusCode], ...] = (
    (NotFoundError, grpc.StatusCode.NOT_FOUND),
    (ConflictError, grpc.StatusCode.FAILED_PRECONDITION),
    (UnschedulableError, grpc.StatusCode.FAILED_PRECONDITION),
    (UnauthenticatedError, grpc.StatusCode.UNAUTHENTICATED),
    (ForbiddenError, grpc.StatusCode.PERMISSION_DENIED),
    (ProgramError, grpc.StatusCode.INVALID_ARGUMENT),
    (UserError, grpc.StatusCode.INVALID_ARGUMENT),
    (ClusterError, grpc.StatusCode.UNAVAILABLE),
)

if TYPE_CHECKING:  # generic in its stubs alone
    _MethodHandler = grpc.RpcMethodHandler[Any, Any]

# `Any`: gRPC's handlers take and return whatever message their method has.
_Any = Any
_Handler = Callable[..., Any]


def status_code(error: WscError) -> grpc.StatusCode:
    """Return the status code that stands for an error of ours."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return grpc.StatusCode.INTERNAL


class _MethodsByName:
    """Stands for a server whose services are added, so that their methods are found by name.

    What the stubs do beside that, to register every method with gRPC's core, is left out: for each
    call the asynchronous server then waits anew for a task of every method, some eighty here, which
    was a third of what a call cost the event loop.

    Args:
        server: The server.
    """

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server

    def add_generic_rpc_handlers(self, handlers: "Sequence[grpc.GenericRpcHandler]") -> None:
        """Let the server ask these for the handler of a call."""
        self._server.add_generic_rpc_handlers(handlers)

    def add_registered_method_handlers(
        self, service: str, handlers: "Mapping[str, _MethodHandler]"
    ) -> None:
        """Leave this out."""


def by_name(server: grpc.aio.Server) -> grpc.aio.Server:
    """Return what services are added to in place of a server; see `_MethodsByName`."""
    return cast("grpc.aio.Server", _MethodsByName(server))


class RpcEdge(grpc.aio.ServerInterceptor):
    """Wraps every handler of a server.

    Args:
        executor: Threads for plain handlers, and for the gate, which may wait for the database.
        gate: Says who may call what; None lets every call pass.
    """

    def __init__(self, executor: Executor, gate: Gate | None = None) -> None:
        self._executor = executor
        self._gate = gate
        self._wrapped: dict[str, _MethodHandler] = {}

    async def intercept_service(
        self,
        continuation: "Callable[[grpc.HandlerCallDetails], Awaitable[_MethodHandler | None]]",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "_MethodHandler | None":
        """Return the method's handler, wrapped; None for a method of no service."""
        method = handler_call_details.method
        known = self._wrapped.get(method)
        if known is None:
            handler = await continuation(handler_call_details)
            if handler is None:
                return None
            known = self._wrapped[method] = self._wrap(method, handler)
        return known

    def _wrap(self, method: str, handler: "_MethodHandler") -> "_MethodHandler":
        serializers = {
            "request_deserializer": _forgiving(handler.request_deserializer),
            "response_serializer": handler.response_serializer,
        }
        if handler.unary_unary:
            call = self._answer_once(method, handler.unary_unary)
            return grpc.unary_unary_rpc_method_handler(call, **serializers)
        if handler.stream_unary:
            call = self._answer_once(method, handler.stream_unary)
            return grpc.stream_unary_rpc_method_handler(call, **serializers)
        if handler.unary_stream:
            stream = self._answer_stream(method, handler.unary_stream)
            return grpc.unary_stream_rpc_method_handler(stream, **serializers)
        assert handler.stream_stream is not None
        stream = self._answer_stream(method, handler.stream_stream)
        return grpc.stream_stream_rpc_method_handler(stream, **serializers)

    def _answer_once(self, method: str, handler: _Handler) -> _Handler:
        is_coroutine = inspect.iscoroutinefunction(handler)
        seconds = metrics.GRPC_SECONDS.labels(*_names(method))
        answered = metrics.GRPC_CALLS.labels(*_names(method), grpc.StatusCode.OK.name)

        async def call(request: _Any, context: _Any) -> _Any:
            logger.debug("Call", extra={"method": method})
            try:
                request = _readable(request)
                with _span(method, context), seconds.time():
                    if is_coroutine:
                        response = await self._guard_coroutine(method, handler, request, context)
                    else:
                        response = await self._in_thread(
                            self._guard, method, handler, request, context
                        )
                answered.inc()
                return response
            except Exception as error:  # noqa: BLE001 - the edge: every error gets a status
                return await _abort(method, error, context)

        return call

    def _answer_stream(self, method: str, handler: _Handler) -> _Handler:
        async def stream(request: _Any, context: _Any) -> AsyncIterator[Any]:
            logger.debug("Stream opened", extra={"method": method})
            try:
                request = _readable(request)
                await self._admit_soon(method, request, context)
                async for message in handler(request, context):
                    yield message
                _count(method, grpc.StatusCode.OK)
            except Exception as error:  # noqa: BLE001 - the edge: every error gets a status
                await _abort(method, error, context)

        return stream

    async def _in_thread(self, function: _Handler, *arguments: _Any) -> _Any:
        loop = asyncio.get_running_loop()
        work = partial(copy_context().run, function, *arguments)  # the span goes with it
        return await loop.run_in_executor(self._executor, work)

    async def _admit_soon(self, method: str, request: _Any, context: _Any) -> Change | None:
        if self._gate is None:
            return None
        try:
            who = caller(context.invocation_metadata())
            return self._gate.admit_at_once(method, who, request)
        except WouldWaitError:
            change: Change | None = await self._in_thread(self._admit, method, request, context)
            return change

    def _admit(self, method: str, request: _Any, context: _Any) -> Change | None:
        if self._gate is None:
            return None
        return self._gate.admit(method, caller(context.invocation_metadata()), request)

    def _guard(self, method: str, handler: _Handler, request: _Any, context: _Any) -> _Any:
        change = self._admit(method, request, context)
        try:
            response = handler(request, context)
        except WscError as error:
            if change is not None:
                change.failed(error)
            raise
        if change is not None:
            change.done(name_of(response))
        return response

    async def _guard_coroutine(
        self,
        method: str,
        handler: _Handler,
        request: _Any,
        context: _Any,
    ) -> _Any:
        change = await self._admit_soon(method, request, context)
        try:
            with change.present() if change is not None else nullcontext():
                response = await handler(request, context)
        except WscError as error:
            if change is not None:
                await self._in_thread(change.failed, error)
            raise
        if change is not None and self._gate is not None:
            await change.done_with(self._gate.keep, name_of(response))
        return response


class _Unreadable:
    """Stands for bytes that are no message of their method."""


def _forgiving(read: Callable[[bytes], _Any] | None) -> Callable[[bytes], _Any]:
    """Let a message that cannot be read reach us, so that the caller gets a sentence."""

    def deserialize(data: bytes) -> _Any:
        try:
            return data if read is None else read(data)
        except DecodeError:
            return _Unreadable()

    return deserialize


def _readable(request: _Any) -> _Any:
    """Return a request, or a stream of them, of which every message can be read."""
    if isinstance(request, _Unreadable):
        raise UserError("The request is no message of this method.")
    return _readable_stream(request) if hasattr(request, "__aiter__") else request


async def _readable_stream(requests: AsyncIterator[_Any]) -> AsyncIterator[_Any]:
    async for request in requests:
        yield _readable(request)


def _span(method: str, context: _Any) -> AbstractContextManager[None]:
    if is_quiet(method):
        return nullcontext()
    parent = place_in(context.invocation_metadata())
    return tracing.span(method.removeprefix("/"), parent=parent, side=tracing.Side.SERVER)


def _names(method: str) -> tuple[str, str]:
    """Return the names of service and method; both are ours, so there are few."""
    service, _, name = method.removeprefix("/").partition("/")
    return service, name


def _count(method: str, code: grpc.StatusCode) -> None:
    metrics.GRPC_CALLS.labels(*_names(method), code.name).inc()


def _code_of(error: Exception) -> grpc.StatusCode:
    if isinstance(error, WscError):
        return status_code(error)
    is_unknown = isinstance(error, NotImplementedError)
    return grpc.StatusCode.UNIMPLEMENTED if is_unknown else grpc.StatusCode.INTERNAL


async def _abort(method: str, error: Exception, context: _Any) -> None:
    if isinstance(error, grpc.aio.AbortError | grpc.RpcError):
        raise error
    if is_of_database(error):
        logger.error("Call was not kept", extra={"method": method}, exc_info=error)
        error = refusal_of(error)
    _count(method, _code_of(error))
    if isinstance(error, WscError):
        logger.info("Call refused", extra={"method": method, "why": str(error)})
        await context.abort(status_code(error), str(error))
    if isinstance(error, NotImplementedError):
        sentence = f"This appliance does not serve {method.removeprefix('/')}."
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, sentence)
    logger.error("Call failed", extra={"method": method}, exc_info=error)
    await context.abort(
        grpc.StatusCode.INTERNAL,
        f"The appliance failed in {method.removeprefix('/')}: {error!r}. Its log has the details.",
    )
