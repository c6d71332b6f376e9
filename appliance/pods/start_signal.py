"""How the first process of a container learns that all pods of its job have a node, and may run.

The annotation of its pod, which the kubelet copies into a file, says so soonest, as a rule. A
kubelet may take minutes for that, so nothing rests on it: a pod that has waited for some seconds
asks management too, over the way that its role uses later. A child process asks, since this one is
forked into the role and must have no threads.
"""

import contextlib
import os
import signal
import sys
import threading
from pathlib import Path
from typing import NoReturn

from appliance.core.pods.pod_spec import PodSpec

_POLL_SECONDS = 0.05
_HINT_SECONDS = 3.0
"""For so long the file alone is looked at: most pods are let start by then, and need no child."""

_ASK_EVERY_SECONDS = 0.5
_CALL_SECONDS = 5.0
_RETRY_SECONDS = 5.0
"""How soon another child is started after one that has failed."""


class StartSignal:
    """Waits until a pod may run its role.

    Args:
        spec: The pod, with its address.
        file: Says something once the pod may run; may come late, or never.
        hint_seconds: How long to look at the file alone.
    """

    def __init__(self, spec: PodSpec, file: Path, *, hint_seconds: float = _HINT_SECONDS) -> None:
        self._spec, self._file = spec, file
        self._ask_in_seconds = hint_seconds
        self._child = 0
        self._pause = threading.Event()
        self._ended: list[int] = []

    def wait(self) -> int:
        """Return 0 once the pod may run, or the number of the signal that ended the wait before."""
        for number in (signal.SIGTERM, signal.SIGINT):  # process 1 ignores them without a handler
            signal.signal(number, lambda number, _: self._ended.append(number))
        try:
            while not (self._ended or self._is_in_file() or self._is_told()):
                self._pause.wait(_POLL_SECONDS)
        finally:
            self._end_child()
        return self._ended[0] if self._ended else 0

    def _is_in_file(self) -> bool:
        """Whether the file says it; a kubelet replaces it, so there is no news of it."""
        return self._file.exists() and bool(self._file.stat().st_size)

    def _is_told(self) -> bool:
        """Whether management has told the child; starts one when it is time."""
        if self._child:
            return self._has_child_heard()
        self._ask_in_seconds -= _POLL_SECONDS
        if self._ask_in_seconds <= 0 and self._spec.management_address:
            self._child = os.fork()
            if not self._child:
                _ask_as_child(self._spec)
        return False

    def _has_child_heard(self) -> bool:
        pid, status = os.waitpid(self._child, os.WNOHANG)
        if not pid:
            return False
        self._child, self._ask_in_seconds = 0, _RETRY_SECONDS
        return status == 0

    def _end_child(self) -> None:
        if self._child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)


def _ask_as_child(spec: PodSpec) -> NoReturn:
    """Ask management until it says that the pod may run; exit with 0 then."""
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        _ask(spec, parent=os.getppid())
        code = 0
    finally:
        os._exit(code)


def _ask(spec: PodSpec, *, parent: int) -> None:
    # Only here: a pod that is let start at once never needs them in its first process.
    import grpc  # noqa: PLC0415

    from appliance.core.clock import SystemClock  # noqa: PLC0415
    from appliance.pods.peers import Peers  # noqa: PLC0415
    from protos.wsc.v1 import management_pb2, management_pb2_grpc  # noqa: PLC0415

    request, said = management_pb2.AskStartRequest(job=spec.job), ""
    pause = threading.Event()
    peers = Peers(spec, SystemClock())
    with grpc.insecure_channel(peers.management()) as channel:
        stub = management_pb2_grpc.ManagementStub(channel)
        while os.getppid() == parent:
            try:
                reply = stub.AskStart(
                    request,
                    timeout=_CALL_SECONDS,
                    wait_for_ready=True,
                    metadata=spec.job_key_metadata,
                )
                if reply.may_start:
                    return
            except grpc.RpcError as error:
                why = peers.trouble() or str(error.details())
                if why != said:
                    sys.stdout.write(f"{spec.name} cannot ask whether it may start: {why}\n")
                    sys.stdout.flush()
                said = why
            pause.wait(_ASK_EVERY_SECONDS)
    raise SystemExit(1)
