"""An error crosses gRPC as a status code, and a callee's own comes back as what it was."""

import grpc
import pytest

from appliance.core.errors import (
    ConflictError,
    ForbiddenError,
    InternalError,
    NotFoundError,
    UserError,
)
from appliance.wire.error_status import error_of, status_of


@pytest.mark.parametrize("kind", [ConflictError, ForbiddenError, NotFoundError, UserError])
def test_an_error_of_ours_comes_back_as_its_class(kind):
    back = error_of(status_of(kind("why")), "why")
    assert type(back) is kind
    assert back.message == "why"


def test_other_failures_are_nobodys_error():
    assert status_of(InternalError("why")) is grpc.StatusCode.INTERNAL
    for code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE):
        assert error_of(code, "why") is None
