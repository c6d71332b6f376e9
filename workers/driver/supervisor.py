"""Runs a script until it has ended for good; management decides whether it is restarted."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

import grpc

from appliance.core.pods.pod_spec import PodSpec
from protos.wsc.v1 import drivers_pb2 as pb
from protos.wsc.v1 import drivers_pb2_grpc
from workers.driver.script import Script, say

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")

_CALL_SECONDS = 10.0
_RETRY_SECONDS = 1.0
_PATIENCE_SECONDS = 600.0
"""How long a script's end waits for a management that is being restarted."""


class ManagementLink:
    """The driver's side of `wsc.v1.DriverControl`.

    Args:
        address: Management's inner socket.
        spec: The driver's pod.
    """

    def __init__(self, address: str, spec: PodSpec) -> None:
        self._address, self._job = address, spec.job
        self._metadata = spec.job_key_metadata

    def __enter__(self) -> "ManagementLink":
        self._channel = grpc.insecure_channel(self._address)
        self._stub = drivers_pb2_grpc.DriverControlStub(self._channel)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._channel.close()

    def started(self) -> int:
        """Return how often the script was started again before this pod."""
        request = pb.DriverStartedRequest(job=self._job)
        reply = _answer(
            lambda: self._stub.DriverStarted(
                request, timeout=_CALL_SECONDS, metadata=self._metadata
            )
        )
        return 0 if reply is None else reply.restart_count

    def ended(self, exit_code: int, last_words: str) -> pb.DriverEndedReply:
        """Report how the script has ended and return what to do next.

        A management that does not answer for ten minutes is not coming back for this run: then the
        script stays ended.
        """
        request = pb.DriverEndedRequest(job=self._job, exit_code=exit_code, last_words=last_words)
        reply = _answer(
            lambda: self._stub.DriverEnded(request, timeout=_CALL_SECONDS, metadata=self._metadata)
        )
        return reply or pb.DriverEndedReply(reason="management does not answer")


def _answer(call: Callable[[], Reply]) -> Reply | None:
    """Return management's answer; None if there is none for ten minutes."""
    for _ in range(int(_PATIENCE_SECONDS / _RETRY_SECONDS)):
        try:
            return call()
        except grpc.RpcError as error:
            logger.warning("Management does not answer", extra={"why": str(error)})
            threading.Event().wait(_RETRY_SECONDS)
    return None


def supervise(
    script: Script, ended: Callable[[int, str], pb.DriverEndedReply], *, restart_count: int = 0
) -> int:
    """Run a script, again and again if management says so; return its last exit code.

    Args:
        ended: Tells management how it ended.
        restart_count: How often it was started again before, by pods that were lost.
    """
    if restart_count:
        say(f"the script is started again in a new pod, restart {restart_count}")
    while True:
        exit_code = script.run(restart_count)
        if exit_code == 0:
            return 0
        verdict = ended(exit_code, script.last_words)
        if not verdict.is_restart:
            why = f": {script.last_words}" if script.last_words else ""
            say(f"the script is not started again ({verdict.reason}){why}")
            return exit_code
        restart_count = verdict.restart_count
        say(f"the script is started again, restart {restart_count} ({verdict.reason})")
