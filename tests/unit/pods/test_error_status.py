"""What a pod's method raises reaches the caller as a status and one sentence."""

import grpc
import pytest

from appliance.core.errors import (
    ClusterError,
    ConflictError,
    ForbiddenError,
    InternalError,
    NotFoundError,
    TooManyRequestsError,
    UnauthenticatedError,
    UserError,
)
from appliance.pods.error_status import ErrorStatusInterceptor


class AbortedError(Exception):
    """What gRPC raises to end a call."""


class Call:
    def abort(self, code, details):
        raise AbortedError(code, details)


class Details:
    method = "/wsc.v1.Pod/Load"


def through(method):
    """Return a method as a server with the interceptor calls it."""
    handler = grpc.unary_unary_rpc_method_handler(method)
    return ErrorStatusInterceptor().intercept_service(lambda _: handler, Details()).unary_unary


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (NotFoundError, grpc.StatusCode.NOT_FOUND),
        (ConflictError, grpc.StatusCode.FAILED_PRECONDITION),
        (UnauthenticatedError, grpc.StatusCode.UNAUTHENTICATED),
        (ForbiddenError, grpc.StatusCode.PERMISSION_DENIED),
        (TooManyRequestsError, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (UserError, grpc.StatusCode.INVALID_ARGUMENT),
        (ClusterError, grpc.StatusCode.UNAVAILABLE),
        (InternalError, grpc.StatusCode.INTERNAL),
    ],
)
def test_an_error_of_ours_becomes_its_status(kind, code):
    def fail(request, context):
        raise kind("Session 2 is no more.")

    with pytest.raises(AbortedError) as caught:
        through(fail)(None, Call())
    assert caught.value.args == (code, "Session 2 is no more.")


def test_an_answer_is_passed_on():
    assert through(lambda request, context: request + 1)(1, Call()) == 2


def test_a_method_that_is_not_served_stays_so():
    assert ErrorStatusInterceptor().intercept_service(lambda _: None, Details()) is None
