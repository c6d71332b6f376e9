"""Our errors as HTTP answers in the form of RFC 9457, `application/problem+json`."""

import logging
import math
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from appliance.api.problems import PROBLEM_TYPE
from appliance.core.errors import (
    ClusterError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    StaleError,
    TooLargeError,
    TooManyRequestsError,
    TooSlowError,
    UnauthenticatedError,
    UserError,
    WscError,
)
from appliance.management.store.database_errors import DatabaseError, find_refusal

logger = logging.getLogger(__name__)

_STATUSES: tuple[tuple[type[WscError], HTTPStatus], ...] = (
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (StaleError, HTTPStatus.PRECONDITION_FAILED),
    (ConflictError, HTTPStatus.CONFLICT),
    (TooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (TooSlowError, HTTPStatus.REQUEST_TIMEOUT),
    (TooManyRequestsError, HTTPStatus.TOO_MANY_REQUESTS),
    (UnauthenticatedError, HTTPStatus.UNAUTHORIZED),
    (ForbiddenError, HTTPStatus.FORBIDDEN),
    (UserError, HTTPStatus.BAD_REQUEST),
    (ClusterError, HTTPStatus.SERVICE_UNAVAILABLE),
)


def install_error_handlers(app: FastAPI) -> None:
    """Let every error leave as a problem document."""

    @app.exception_handler(WscError)
    async def ours(request: Request, error: WscError) -> JSONResponse:
        status = status_of(error)
        headers = {}
        if isinstance(error, TooManyRequestsError) and error.retry_seconds:
            headers["retry-after"] = str(math.ceil(error.retry_seconds))
        return _problem(status, error.message, hint=error.hint, headers=headers)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        return _problem(
            HTTPStatus(error.status_code), str(error.detail), headers=dict(error.headers or {})
        )

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return _problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{place}: {first['msg']}")

    @app.exception_handler(DatabaseError)
    async def database(request: Request, error: DatabaseError) -> JSONResponse:
        refusal = find_refusal(error)
        if refusal is None:
            return await defect(request, error)
        logger.error(
            "What a request changes could not be committed",
            extra={"path": request.url.path},
            exc_info=error,
        )
        return _problem(HTTPStatus.SERVICE_UNAVAILABLE, refusal.message, hint=refusal.hint)

    @app.exception_handler(Exception)
    async def defect(request: Request, error: Exception) -> JSONResponse:
        logger.error("Request failed", extra={"path": request.url.path}, exc_info=error)
        return _problem(
            HTTPStatus.INTERNAL_SERVER_ERROR,
            f"The appliance failed in {request.method} {request.url.path}.",
            hint="Its log has the details.",
        )


def status_of(error: WscError) -> HTTPStatus:
    """Return the status by which an error leaves."""
    found = (status for kind, status in _STATUSES if isinstance(error, kind))
    return next(found, HTTPStatus.INTERNAL_SERVER_ERROR)


def _problem(
    status: HTTPStatus, detail: str, *, hint: str = "", headers: dict[str, str] | None = None
) -> JSONResponse:
    body: dict[str, object] = {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": _encodable(detail),
    }
    if hint:
        body["hint"] = _encodable(hint)
    headers = dict(headers or {})
    if status is HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(body, status.value, headers=headers, media_type=PROBLEM_TYPE)


def _encodable(text: str) -> str:
    """Return text that can be sent, whatever a caller has put into it."""
    return text.encode(errors="backslashreplace").decode()
