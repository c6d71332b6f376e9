"""A compile job's wait for resources after a cache miss.

A compile job starts at once and holds nothing, so that nobody queues for a program that is in the
cache. Only after a miss it is queued as any other job is; the user's console shows its position.
"""

import logging
import threading
from collections.abc import Callable
from typing import Protocol

import grpc

from appliance.coordinator.console import Console, Topic
from appliance.core.clock import Clock
from appliance.core.errors import ClusterError
from protos.wsc.v1.management_pb2 import RequestCompileReply

logger = logging.getLogger(__name__)

_FIRST_SECONDS = 1.0
_POLL_SECONDS = 10.0
_REPEAT_SECONDS = 600.0
"""The console is told again after so long although the place in the queue is the same."""
_AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


class CompileCall(Protocol):
    """A question to management that is under way."""

    def result(self) -> RequestCompileReply:
        """Wait for the answer; raises `grpc.RpcError`, or that it was cancelled."""
        ...

    def cancel(self) -> bool:
        """Wait no longer."""
        ...


class CompileTurn:
    """Waits until a compile job may compile.

    Args:
        request: Asks management, which answers within the seconds given; it is told of the systems
            that the program is for, and whether the program lies in the cache.
        console: Told of the place in the queue.
        clock: Times how often.
    """

    def __init__(
        self, request: Callable[[float, int, bool], CompileCall], console: Console, clock: Clock
    ) -> None:
        self._request = request
        self._console = console
        self._clock = clock
        self._lock = threading.Lock()
        self._call: CompileCall | None = None
        self._end = ""
        self._told_position = 0
        self._told_at = 0.0

    def wait(self, num_systems: int, is_answered: Callable[[], bool]) -> None:
        """Return once the job may compile, or need not, or need not any more.

        Args:
            num_systems: Systems that the program is for.
            is_answered: Whether the program lies in the cache.

        Raises:
            ClusterError: The job ends, or management refuses.
        """
        if is_answered():
            self._ask(_FIRST_SECONDS, num_systems, is_cached=True)
        seconds = _FIRST_SECONDS
        while not is_answered():
            reply = self._ask(seconds, num_systems)
            if reply is not None and reply.is_granted:
                return
            if reply is not None:
                self._tell(reply)
            seconds = _POLL_SECONDS

    def close(self, reason: str) -> None:
        """End the wait, if there is one, as the job ends."""
        with self._lock:
            self._end = reason
            if self._call is not None:
                self._call.cancel()

    def _ask(
        self, seconds: float, num_systems: int, *, is_cached: bool = False
    ) -> RequestCompileReply | None:
        """Return management's answer; None while management is away."""
        with self._lock:
            if self._end:
                raise ClusterError(self._end)
            self._call = self._request(seconds, num_systems, is_cached)
        try:
            return self._call.result()
        except grpc.FutureCancelledError as error:
            raise ClusterError(self._end) from error
        except grpc.RpcError as error:
            if error.code() in _AWAY:
                logger.info("Management is not reached", extra={"reason": error.details()})
                return None
            raise ClusterError(error.details() or str(error.code())) from error

    def _tell(self, reply: RequestCompileReply) -> None:
        now = self._clock.monotonic_seconds()
        is_old = now - self._told_at >= _REPEAT_SECONDS
        if not reply.position or (reply.position == self._told_position and not is_old):
            return
        self._told_position, self._told_at = reply.position, now
        self._console.write(
            Topic.COMPILE, f"The program is not in the compile cache. {reply.reason}"
        )
