"""Calls whose time is measured by the steady clock, whatever happens to the wall clock.

gRPC for Python makes the deadline of a call a time of day (`time.time() + timeout`), which its core
then turns back into a span. If the clock is set in between, the call ends at once with
DEADLINE_EXCEEDED. The span is tiny, but pods begin at all times.
"""

from collections.abc import Callable
from typing import TypeVar

import grpc

from appliance.core.clock import Clock

Reply = TypeVar("Reply")


def answered(
    call: Callable[..., Reply],
    request: object,
    *,
    seconds: float,
    clock: Clock,
    **options: object,
) -> Reply:
    """Make a call, and make it again if it ends for want of time before its time is over.

    Args:
        call: A method of a stub; the server must be able to take it twice.
        request: What to send.
        seconds: How long it may take in all.
        options: Further options of the call.

    Raises:
        grpc.RpcError: The call failed otherwise, or its time is over.
    """
    deadline = clock.monotonic_seconds() + seconds
    while True:
        remaining = deadline - clock.monotonic_seconds()
        try:
            return call(request, timeout=remaining, **options)
        except grpc.RpcError as error:
            is_early = error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            if not is_early or clock.monotonic_seconds() >= deadline:
                raise
