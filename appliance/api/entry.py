"""Checks access to REST: each route declares its rule, which is checked before a body is read.

A route takes `entry: Annotated[Entry, enter(rules.X)]`. `EntryRoute` finds that rule, lets
management's gate say who calls and whether they may call now, and only then has the body read, of
so many bytes and in so much time as the rule says. Then the dependency lets the gate decide about
the object that the path names; where the body names it, the route itself asks through `Entry`, and
a route that forgets to ask fails. A route without a rule does not get into the application.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, get_args, get_type_hints

from fastapi import APIRouter, Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.params import Depends as DependsParameter
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from appliance.api.services import Services, connection_of, services_of, token_of
from appliance.core.access_rules.model import Cost, Rule
from appliance.core.cluster.access import Action, Principal, Target
from appliance.core.cluster.records import User
from appliance.core.errors import InternalError, TooLargeError, TooSlowError, WscError
from appliance.core.integers import find_integer
from appliance.management.access.authorization import Change
from appliance.management.rpc.access_edge import Entered, Gate
from appliance.management.rpc.call_watch import RECHECK_SECONDS

ENTRY_POINT = "rest"
"""The name of this entry point in the audit trail."""

BODY_SECONDS = 30.0
LEAST_BYTES_PER_SECOND = 1 << 16
"""A body has to arrive as if it were sent so fast, after so many seconds."""

_NO_TEXT = "The body holds half of a surrogate pair, which is no character. Send text as UTF-8."
_HOLDS = "appliance.holds"
_NOBODY = Principal(user=User())


class Entry:
    """A request that was let in: who sends it, and what it asked to do.

    Args:
        gate: Decides.
        services: Management's services.
        entered: How it was let in.
        change: The change that it makes, if the path says all about it.
    """

    def __init__(
        self, gate: Gate, services: Services, entered: Entered, change: Change | None
    ) -> None:
        self._gate, self._services, self._entered = gate, services, entered
        self._change = change
        self._is_decided = not entered.rule.is_decided_by_body or entered.principal is None

    @property
    def caller(self) -> Principal:
        """The caller; anonymous on routes that are open to everybody."""
        return self._entered.principal or _NOBODY

    def describe(self, detail: str) -> None:
        """Say for the audit trail what the change consists in."""
        if self._change is not None:
            self._change.describe(detail)

    def allow(self, target: Target, action: Action | None = None) -> None:
        """Let the caller do what the body says, or raise `ForbiddenError`."""
        self._services.access.allow(self.caller, self._listed(action), target)
        self._is_decided = True

    @contextmanager
    def change(
        self, target: Target, *, action: Action | None = None, detail: str = ""
    ) -> Iterator[None]:
        """Check that the caller may make this change, and audit it after the block.

        Raises:
            ForbiddenError: They may not.
        """
        wanted = self._listed(action)
        self._is_decided = True  # a refusal decides too
        with self._services.access.change(
            self.caller, wanted, target, entry_point=ENTRY_POINT, detail=detail
        ):
            yield

    def check_decided(self) -> None:
        """Raise `InternalError` if nothing has asked whether the caller may do this."""
        if not self._is_decided:
            raise InternalError("The route has answered without asking whether the caller may.")

    def _listed(self, action: Action | None) -> Action:
        rule = self._entered.rule
        if action not in (None, rule.action, *rule.or_actions):
            raise InternalError(f"The route's rule does not list {action}.")
        return action or rule.action


def enter(rule: Rule) -> DependsParameter:
    """Return the dependency with which a route declares its access rule; see the module.

    The rule is one of `core.access_rules.rules`, which gRPC's methods share.
    """

    def entered(request: Request) -> Iterator[Entry]:
        services = services_of(request)
        letting_in: Entered = request.state.entered
        change = None
        if not rule.is_decided_by_body:
            route = request.scope["route"].name
            field = request.path_params.__getitem__
            change = services.gate.decide(letting_in, field, entry_point=ENTRY_POINT, detail=route)
        entry = Entry(services.gate, services, letting_in, change)
        try:
            yield entry
        except WscError as error:
            if change is not None:
                change.failed(error)
            raise
        entry.check_decided()
        if change is not None:
            change.done()

    entered.rule = rule  # type: ignore[attr-defined]  # read by `rule_of`
    depends: DependsParameter = Depends(entered, scope="function")
    return depends


def caller_of(request: Request) -> Principal:
    """Return the caller of an admitted request, for the dependencies of a route."""
    entered: Entered = request.state.entered
    return entered.principal or _NOBODY


def identify_again(request: Request) -> Principal:
    """Return who sends a request, unless the proof has lapsed; raises `UnauthenticatedError`."""
    proof = (User(), token_of(request.headers), connection_of(request).uid)
    return services_of(request).access.identify(*proof)


class StreamAccess:
    """Checks, while a stream is open, whether its reader may still receive it.

    A token may be revoked, and a role or a group taken away, while somebody reads.

    Args:
        request: What asked for the stream.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._asked_seconds = asyncio.get_running_loop().time()

    async def is_allowed(self) -> bool:
        """Check again, unless the last check was moments ago."""
        now = asyncio.get_running_loop().time()
        if now - self._asked_seconds < RECHECK_SECONDS:
            return True
        self._asked_seconds = now
        try:
            await asyncio.to_thread(_check_again, self._request)
        except WscError:
            return False
        return True


def _check_again(request: Request) -> None:
    entered = replace(request.state.entered, principal=identify_again(request))
    services_of(request).gate.decide(
        entered,
        request.path_params.__getitem__,
        entry_point=ENTRY_POINT,
        detail=request.scope["route"].name,
    )


# `Any`: routes return whatever FastAPI can write.
def rule_of(endpoint: Callable[..., Any]) -> Rule:
    """Return the rule that a route says in its signature.

    Raises:
        InternalError: It says none, or more than one.
    """
    hints = get_type_hints(endpoint, include_extras=True).values()
    rules = [
        rule
        for hint in hints
        for part in get_args(hint)[1:]
        if isinstance(part, DependsParameter)
        and (rule := getattr(part.dependency, "rule", None)) is not None
    ]
    if len(rules) != 1 or not isinstance(rules[0], Rule):
        raise InternalError(
            f"Route {endpoint.__name__} says {len(rules)} rules; it needs one.",
            hint="Take `entry: Annotated[Entry, enter(rules.READ)]` among its parameters.",
        )
    return rules[0]


class _TextRequest(Request):
    """A request whose JSON holds nothing but text.

    JSON can spell halves of surrogate pairs, which are no characters: nothing could keep them, nor
    even answer with them.
    """

    async def json(self) -> object:
        """Return the body; one that holds what is no text is refused."""
        value: object = await super().json()
        if b"\\u" in await self.body():
            try:
                json.dumps(value, ensure_ascii=False).encode()
            except UnicodeEncodeError as error:
                raise HTTPException(HTTPStatus.BAD_REQUEST, _NO_TEXT) from error
        return value


class EntryRoute(APIRoute):
    """A route that checks its access rule before it reads a body."""

    # `Any`: as FastAPI declares it.
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request, behind the gate."""
        handler = super().get_route_handler()
        rule = rule_of(self.endpoint)
        # An identity provider may add to its answer what it likes.
        queries = None if rule.cost is Cost.LOGIN else frozenset(queries_of(self.dependant))

        async def behind_the_gate(request: Request) -> Response:
            entered = await _enter(rule, request)
            request.scope[_HOLDS].append(entered.hold)
            _check_queries(request, queries)
            _check_length(request.headers.get("content-length", ""), rule.max_bytes)
            bounded = _TextRequest(request.scope, _bounded(request.receive, rule.max_bytes))
            bounded.state.entered = entered
            try:
                return await handler(bounded)
            except HTTPException as error:  # FastAPI's word for whatever went wrong with the body
                if isinstance(error.__cause__, WscError):
                    raise error.__cause__ from None
                raise

        return behind_the_gate


def queries_of(dependant: Dependant) -> Iterator[str]:
    """Yield the names of the query parameters that a route takes."""
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from queries_of(inner)


def _check_queries(request: Request, known: Set[str] | None) -> None:
    """Refuse a query parameter that the route does not have: nothing would come of it."""
    if known is None:
        return
    for name in request.query_params:
        if name not in known:
            has = ", ".join(sorted(known)) or "none"
            message = f"there is no such parameter here. There is: {has}"
            raise RequestValidationError(
                [{"type": "extra_forbidden", "loc": ("query", name[:80]), "msg": message}]
            )


def entry_router(*tags: str) -> APIRouter:
    """Return a router whose routes need a rule."""
    return APIRouter(tags=list(tags), route_class=EntryRoute)


class Holds:
    """ASGI middleware that releases a request's resources when it is answered or abandoned.

    Args:
        app: What requests occupy.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        holds = scope[_HOLDS] = []
        try:
            await self._app(scope, receive, send)
        finally:
            for hold in holds:
                hold.release()


async def _enter(rule: Rule, request: Request) -> Entered:
    gate, token = services_of(request).gate, token_of(request.headers)
    enter_request = partial(gate.enter, rule, User(), token, connection=connection_of(request))
    return await gate.ask(enter_request, in_thread=run_in_threadpool)


def _check_length(text: str, max_bytes: int) -> None:
    if text.isdecimal() and find_integer(text, max_bytes) is None:
        raise TooLargeError(
            f"The request's body of {text[:20]} bytes is above the limit of {max_bytes:,}."
        )


def _bounded(receive: Receive, max_bytes: int) -> Receive:
    """Return what reads no more than so much of a body, in the time that it may take."""
    num_bytes, is_whole = 0, False
    end = asyncio.get_running_loop().time() + BODY_SECONDS + max_bytes / LEAST_BYTES_PER_SECOND

    async def bounded() -> Message:
        nonlocal num_bytes, is_whole
        if is_whole:  # what comes now is the end of the connection, in whatever time
            return await receive()
        try:
            async with asyncio.timeout_at(end):
                message = await receive()
        except TimeoutError:
            raise TooSlowError(f"Of the body {num_bytes:,} bytes have come in time.") from None
        if message["type"] == "http.request":
            num_bytes += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if num_bytes > max_bytes:
                raise TooLargeError(
                    f"The request's body is above the limit of {max_bytes:,} bytes."
                )
        return message

    return bounded


def rules_of(routers: Sequence[tuple[str, APIRouter]]) -> dict[str, Rule]:
    """Return the rule of each route, by method and path.

    Raises:
        InternalError: A route does not pass the gate, or says no rule.
    """
    found = {}
    for prefix, router in routers:
        for route in router.routes:
            if not isinstance(route, EntryRoute):
                raise InternalError(f"Route {route} does not pass the gate.")
            for method in sorted(route.methods or ()):
                found[f"{method} {prefix}{route.path}"] = rule_of(route.endpoint)
    return found
