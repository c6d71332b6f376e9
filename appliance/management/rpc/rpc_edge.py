"""The edge of every gRPC server: checks access, runs handlers, translates errors to status codes.

A handler that is an ordinary function runs in a thread pool, since it may wait for the database; a
coroutine or an asynchronous generator runs in the event loop.
"""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from appliance.core.access_rules.methods import METHODS
from appliance.core.access_rules.model import Identity
from appliance.core.errors import (
    TooLargeError,
    TooSlowError,
    UserError,
    WscError,
)
from appliance.management.access.allowances import ReadingPlaces
from appliance.management.access.authorization import Change, act_as
from appliance.management.rpc.access_edge import Entered, Gate, name_of
from appliance.management.rpc.call_watch import StreamWatch, cut_if_untaken
from appliance.management.rpc.connections import Connections
from appliance.management.store.database_errors import find_refusal
from appliance.observability import metrics, tracing
from appliance.observability.spans import Side
from appliance.observability.traced_calls import is_quiet, place_in
from appliance.wire.caller import caller
from appliance.wire.connections.accepted import AcceptedConnections
from appliance.wire.error_status import status_of

logger = logging.getLogger(__name__)

if TYPE_CHECKING:  # generic in its stubs alone
    _MethodHandler = grpc.RpcMethodHandler[Any, Any]

# `Any`: gRPC's handlers take and return whatever message their method has.
_Any = Any
_Handler = Callable[..., Any]
_Read = Callable[[AsyncIterator[Any], Any, "_Reader"], Awaitable[Any]]

ENTRY_POINT = "grpc"
"""The name of this entry point in the audit trail."""

INNER_OPTIONS = (
    ("grpc.so_reuseport", 0),  # else a second appliance would share the port without an error
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 5000),
)
"""What holds between the appliance's own processes."""

CLIENT_OPTIONS = (
    *(option for option in INNER_OPTIONS if option[0] != "grpc.max_receive_message_length"),
    ("grpc.max_receive_message_length", max(rule.max_bytes for rule in METHODS.values())),
    ("grpc.server_handshake_timeout_ms", 10_000),  # who connects and says nothing is hung up on
    ("grpc.http2.bdp_probe", 0),  # else each unread message may fill a window of megabytes
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.max_connection_idle_ms", 3_600_000),
)
"""What holds where strangers can connect."""

_FIRST_SECONDS = 30.0
_LEAST_BYTES_PER_SECOND = 1 << 18
"""A message has to arrive as if it were sent so fast, after so many seconds."""
_STRANGER_SECONDS = 10.0
"""How long the one message of a caller who has proved nothing may take instead, also to be read at
all. Not a stream's first: the client sleeps for ten seconds before its first beat."""
_SILENT_SECONDS = 300.0
"""How long a stream of messages may be silent; clients beat every ten seconds."""


class _MethodsByName:
    """Stands for a server whose services are added, so that their methods are found by name.

    What the stubs do beside that, to register every method with gRPC's core, is left out: for each
    call the asynchronous server then waits anew for a task of every method, some eighty here, which
    was a third of what a call cost the event loop.
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

    Every request is read as a stream, of one message where the method takes one: so the caller is
    known, and let in or refused, before anything of a message is read, and what is not read stays
    with its sender by HTTP/2's flow control.

    Args:
        executor: Threads for plain handlers, and for the gate, which may wait for the database.
        gate: Says who may call what; None lets every call pass.
        accepted: Says whose connections are.
        connections: Are told who has proved themselves on which; None where no stream asks.
    """

    def __init__(
        self,
        executor: Executor,
        gate: Gate | None = None,
        accepted: AcceptedConnections | None = None,
        connections: Connections | None = None,
    ) -> None:
        self._executor = executor
        self._gate = gate
        self._accepted = accepted or AcceptedConnections()
        self._connections = connections
        self._places = ReadingPlaces()
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
        rule = METHODS.get(method) if self._gate is not None else None
        limit = rule.max_bytes if rule is not None else None
        serializers = {
            "request_deserializer": _forgiving(handler.request_deserializer, limit),
            "response_serializer": handler.response_serializer,
        }
        takes_one = handler.unary_unary or handler.unary_stream
        read = partial(self._one, limit=limit) if takes_one else _stream_of
        if inner := handler.unary_unary or handler.stream_unary:
            call = self._answer_once(method, inner, read)
            return grpc.stream_unary_rpc_method_handler(call, **serializers)
        follow = handler.unary_stream or handler.stream_stream
        assert follow is not None
        stream = self._answer_stream(method, follow, read)
        return grpc.stream_stream_rpc_method_handler(stream, **serializers)

    def _answer_once(self, method: str, handler: _Handler, read: _Read) -> _Handler:
        is_coroutine = inspect.iscoroutinefunction(handler)
        seconds = metrics.GRPC_SECONDS.labels(*_names(method))
        answered = metrics.GRPC_CALLS.labels(*_names(method), grpc.StatusCode.OK.name)
        guard = self._guard_coroutine if is_coroutine else self._guard_function

        async def call(requests: _Any, context: _Any) -> _Any:
            logger.debug("Call", extra={"method": method})
            try:
                entered = await self._enter(method, context)
                with nullcontext() if entered is None else entered.hold:
                    request = await read(requests, context, _reader(entered, context))
                    with _span(method, context), seconds.time():
                        response = await guard(method, handler, _Call(entered, request, context))
                answered.inc()
                cut_if_untaken(self._cut(context))
                return response
            except Exception as error:  # noqa: BLE001 - the edge: every error gets a status
                return await _abort(method, error, context)

        return call

    def _answer_stream(self, method: str, handler: _Handler, read: _Read) -> _Handler:
        async def stream(requests: _Any, context: _Any) -> AsyncIterator[Any]:
            logger.debug("Stream opened", extra={"method": method})
            try:
                entered = await self._enter(method, context)
                with nullcontext() if entered is None else entered.hold:
                    request = await read(requests, context, _reader(entered, context))
                    call = _Call(entered, request, context)
                    await self._decide_soon(method, call)
                    with StreamWatch(self._check_of(method, call), self._cut(context)) as watch:
                        async for message in handler(request, context):
                            watch.sends()
                            yield message
                            watch.sent()
                _count(method, grpc.StatusCode.OK)
            except Exception as error:  # noqa: BLE001 - the edge: every error gets a status
                await _abort(method, error, context)

        return stream

    async def _one(self, _: _Any, context: _Any, reader: "_Reader", *, limit: int | None) -> _Any:
        """Return the one message of a call, which has to come in its time."""
        seconds = reader.first_seconds + (limit or 0) / _LEAST_BYTES_PER_SECOND
        key = reader.key
        if key and not self._places.take(key):
            await self._wait_for_place(reader, seconds)
        try:
            message = await _read_within(context, seconds)
        finally:
            if key:
                self._places.give_back(key)
        if message is grpc.aio.EOF:
            raise UserError("The call carries no message.")
        return _readable(message)

    async def _wait_for_place(self, reader: "_Reader", seconds: float) -> None:
        """Wait until a message may be read; a caller who has proved nothing waits so long."""
        try:
            async with asyncio.timeout(seconds if reader.is_stranger else None):
                await self._places.wait(reader.key)
        except TimeoutError:
            raise TooSlowError(
                f"So many calls of this connection wait that none was read for {seconds:.0f} "
                "seconds."
            ) from None

    async def _in_thread(self, function: _Handler, *arguments: _Any) -> _Any:
        loop = asyncio.get_running_loop()
        work = partial(copy_context().run, function, *arguments)  # the span goes with it
        return await loop.run_in_executor(self._executor, work)

    async def _enter(self, method: str, context: _Any) -> Entered | None:
        """Let a call in, before anything of it is read."""
        gate = self._gate
        if gate is None:
            return None
        connection = context.peer()
        whose = self._accepted.of_call(connection)
        likely = None if self._connections is None else self._connections.likely(connection)
        call = (method, caller(context.invocation_metadata()), whose, likely)
        entered: Entered = await gate.ask(gate.enter_call, *call, in_thread=self._in_thread)
        act_as(entered.principal)
        if self._connections is not None and entered.principal is not None:
            self._connections.proved(connection, entered.principal)
        return entered

    async def _decide_soon(self, method: str, call: "_Call") -> Change | None:
        if self._gate is None:
            return None
        return await self._gate.ask(self._decide, method, call, in_thread=self._in_thread)

    def _decide(self, method: str, call: "_Call") -> Change | None:
        if self._gate is None or call.entered is None:
            return None
        named_in = caller(call.context.invocation_metadata()).session_of_object
        self._gate.check_session(named_in, call.request)
        detail = method.rpartition("/")[2]
        return self._gate.decide(call.entered, call.field, entry_point=ENTRY_POINT, detail=detail)

    def _cut(self, context: _Any) -> Callable[[], None]:
        """Return what cuts the connection of a call."""
        return partial(self._accepted.cut, context.peer())

    def _check_of(self, method: str, call: "_Call") -> Callable[[], Awaitable[None]] | None:
        """Return what checks that the reader of a stream may go on; None if each answer asks it."""
        entered = call.entered
        if entered is None or entered.rule.identity is not Identity.CALLER:
            return None
        return lambda: self._in_thread(self._check_again, method, call)

    def _check_again(self, method: str, call: "_Call") -> None:
        """Raise if the reader of a stream has lost the right to read it."""
        if self._gate is None or call.entered is None:
            return
        entered = self._gate.enter_again(
            call.entered,
            caller(call.context.invocation_metadata()),
            self._accepted.of_call(call.context.peer()),
        )
        if not entered.rule.action.is_change:
            self._decide(method, replace(call, entered=entered))

    async def _guard_function(self, method: str, handler: _Handler, call: "_Call") -> _Any:
        return await self._in_thread(self._guard, method, handler, call)

    def _guard(self, method: str, handler: _Handler, call: "_Call") -> _Any:
        change = self._decide(method, call)
        try:
            response = handler(call.request, call.context)
        except WscError as error:
            if change is not None:
                change.failed(error)
            raise
        if change is not None:
            change.done(name_of(response))
        return response

    async def _guard_coroutine(self, method: str, handler: _Handler, call: "_Call") -> _Any:
        change = await self._decide_soon(method, call)
        try:
            with change.present() if change is not None else nullcontext():
                response = await handler(call.request, call.context)
        except WscError as error:
            if change is not None:
                await self._in_thread(change.failed, error)
            raise
        if change is not None and self._gate is not None:
            await change.done_with(self._gate.write, name_of(response))
        return response


@dataclass(frozen=True, slots=True)
class _Call:
    """A call whose message has been read.

    Attributes:
        entered: How it was let in; None where there is no gate.
        request: The message, or an iterator over messages.
        context: gRPC's context of the call.
    """

    entered: Entered | None
    request: _Any
    context: _Any

    def field(self, name: str) -> _Any:
        """Return a field of the message."""
        return getattr(self.request, name)


class _Unreadable:
    """Stands for bytes that are no message of their method, or too many.

    Args:
        error: What is wrong with them.
    """

    def __init__(self, error: UserError) -> None:
        self.error = error


def _forgiving(read: Callable[[bytes], _Any] | None, limit: int | None) -> Callable[[bytes], _Any]:
    """Let a message that cannot be read reach us, so that the caller gets a sentence."""

    def deserialize(data: bytes) -> _Any:
        if limit is not None and len(data) > limit:
            return _Unreadable(
                TooLargeError(f"The message has {len(data):,} bytes; this method takes {limit:,}.")
            )
        try:
            return data if read is None else read(data)
        except DecodeError:
            return _Unreadable(UserError("The request is no message of this method."))

    return deserialize


async def _read_within(context: _Any, seconds: float) -> _Any:
    """Return the message of a call, or say that it has taken too long.

    What `asyncio.timeout` does beyond this costs as much as all else of a read.
    """
    task, is_late = asyncio.current_task(), False
    assert task is not None

    def give_up() -> None:
        nonlocal is_late
        is_late = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(seconds, give_up)
    try:
        return await context.read()
    except asyncio.CancelledError:
        if not is_late or task.uncancel() > 0:
            raise  # somebody else has cancelled the call
        raise TooSlowError(f"The message has not arrived within {seconds:.0f} seconds.") from None
    finally:
        timer.cancel()


async def _stream_of(requests: AsyncIterator[_Any], _: _Any, __: "_Reader") -> AsyncIterator[_Any]:
    """Return a stream of messages of which every one can be read and comes in its time."""
    return _readable_stream(requests)


async def _readable_stream(requests: AsyncIterator[_Any]) -> AsyncIterator[_Any]:
    seconds = _FIRST_SECONDS
    while True:
        try:
            async with asyncio.timeout(seconds):
                request = await anext(requests)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise TooSlowError(f"Nothing has come for {seconds:.0f} seconds.") from None
        seconds = _SILENT_SECONDS
        yield _readable(request)


def _readable(request: _Any) -> _Any:
    if isinstance(request, _Unreadable):
        raise request.error
    return request


class _Reader(NamedTuple):
    """Whose message is to be read.

    Attributes:
        key: A user, or some connection; empty for one of our own.
        is_stranger: Whether nobody has proved who it is.
    """

    key: str
    is_stranger: bool

    @property
    def first_seconds(self) -> float:
        """How long a message may take, before its length counts."""
        return _STRANGER_SECONDS if self.is_stranger else _FIRST_SECONDS


def _reader(entered: Entered | None, context: _Any) -> _Reader:
    if entered is None:
        return _Reader("", is_stranger=False)
    if entered.principal is None:
        return _Reader(str(context.peer()), is_stranger=True)
    return _Reader(f"uid {entered.principal.user.uid}", is_stranger=False)


def _span(method: str, context: _Any) -> AbstractContextManager[None]:
    if is_quiet(method):
        return nullcontext()
    parent = place_in(context.invocation_metadata())
    return tracing.span(method.removeprefix("/"), parent=parent, side=Side.SERVER)


def _names(method: str) -> tuple[str, str]:
    """Return the names of service and method; both are ours, so there are few."""
    service, _, name = method.removeprefix("/").partition("/")
    return service, name


def _count(method: str, code: grpc.StatusCode) -> None:
    metrics.GRPC_CALLS.labels(*_names(method), code.name).inc()


def _code_of(error: Exception) -> grpc.StatusCode:
    if isinstance(error, WscError):
        return status_of(error)
    is_unknown = isinstance(error, NotImplementedError)
    return grpc.StatusCode.UNIMPLEMENTED if is_unknown else grpc.StatusCode.INTERNAL


async def _abort(method: str, error: Exception, context: _Any) -> None:
    if isinstance(error, grpc.aio.AbortError | grpc.RpcError):
        raise error
    if (refusal := find_refusal(error)) is not None:
        logger.error(
            "What a call changes could not be committed", extra={"method": method}, exc_info=error
        )
        error = refusal
    _count(method, _code_of(error))
    if isinstance(error, WscError):
        logger.info("Call refused", extra={"method": method, "why": str(error)})
        await context.abort(status_of(error), str(error))
    if isinstance(error, NotImplementedError):
        sentence = f"This appliance does not serve {method.removeprefix('/')}."
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, sentence)
    logger.error("Call failed", extra={"method": method}, exc_info=error)
    await context.abort(
        grpc.StatusCode.INTERNAL,
        f"The appliance failed in {method.removeprefix('/')}: {error!r}. Its log has the details.",
    )
