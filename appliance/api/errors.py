"""Our errors as HTTP answers in the form of RFC 9457, `application/problem+json`."""

from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from appliance.core.errors import ClusterError, ConflictError, NotFoundError, UserError, WscError

_STATUSES: tuple[tuple[type[WscError], HTTPStatus], ...] = (
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (ConflictError, HTTPStatus.CONFLICT),
    (UserError, HTTPStatus.BAD_REQUEST),
    (ClusterError, HTTPStatus.SERVICE_UNAVAILABLE),
)


def install_error_handlers(app: FastAPI) -> None:
    """Let every error leave as a problem document."""

    @app.exception_handler(WscError)
    async def ours(request: Request, error: WscError) -> JSONResponse:
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        for kind, candidate in _STATUSES:
            if isinstance(error, kind):
                status = candidate
                break
        return _problem(status, error.message, hint=error.hint)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        return _problem(HTTPStatus(error.status_code), str(error.detail))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        return _problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{place}: {first['msg']}")


def _problem(status: HTTPStatus, detail: str, *, hint: str = "") -> JSONResponse:
    body: dict[str, object] = {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "detail": detail,
    }
    if hint:
        body["hint"] = hint
    return JSONResponse(body, status.value, media_type="application/problem+json")
