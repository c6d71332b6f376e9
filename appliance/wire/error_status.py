"""Our errors as gRPC status codes and back: one table for management, coordinators and pods."""

from collections.abc import Mapping

import grpc

from appliance.core.errors import (
    ClusterError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    ProgramError,
    TooLargeError,
    TooManyRequestsError,
    TooSlowError,
    UnauthenticatedError,
    UnschedulableError,
    UserError,
    WscError,
)

_CODES: tuple[tuple[type[WscError], grpc.StatusCode], ...] = (
    (NotFoundError, grpc.StatusCode.NOT_FOUND),
    (ConflictError, grpc.StatusCode.FAILED_PRECONDITION),
    (UnschedulableError, grpc.StatusCode.FAILED_PRECONDITION),
    (UnauthenticatedError, grpc.StatusCode.UNAUTHENTICATED),
    (ForbiddenError, grpc.StatusCode.PERMISSION_DENIED),
    (TooLargeError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (TooManyRequestsError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (TooSlowError, grpc.StatusCode.DEADLINE_EXCEEDED),
    (ProgramError, grpc.StatusCode.INVALID_ARGUMENT),
    (UserError, grpc.StatusCode.INVALID_ARGUMENT),
    (ClusterError, grpc.StatusCode.UNAVAILABLE),
)
"""The first class that fits says the code."""

_ERRORS: Mapping[grpc.StatusCode, type[WscError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: UserError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.FAILED_PRECONDITION: ConflictError,
    grpc.StatusCode.PERMISSION_DENIED: ForbiddenError,
}
"""What a callee of ours has raised; the other codes may be gRPC's own."""


def status_of(error: WscError) -> grpc.StatusCode:
    """Return the status code that stands for an error."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return grpc.StatusCode.INTERNAL


def error_of(code: grpc.StatusCode, details: str) -> WscError | None:
    """Return the error that a callee has put into a status; None for any other failure."""
    kind = _ERRORS.get(code)
    return None if kind is None else kind(details)
