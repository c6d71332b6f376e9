"""A program of the user that answers requests: one at a time, over a socket."""

import contextlib
import socket
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from appliance.sdk.servers import frames
from appliance.sdk.servers.frames import Frame, FrameError
from appliance.user_code.piped_log import PipedLog
from protos.sdk.sdk_common_pb2 import StatusCode
from workers.sdk.errors import SdkError
from workers.sdk.programs import Programs, end

_TAIL_BYTES = 4096


class Child:
    """One such program, and the way to it.

    Args:
        programs: Starts it.
        module: Module that serves on the descriptor that is its first argument.
        arguments: Its other arguments.
        directory: Its working directory.
        max_payload_bytes: Bytes that it may answer with.
    """

    def __init__(
        self,
        programs: Programs,
        module: str,
        *arguments: str,
        directory: Path,
        max_payload_bytes: int,
    ) -> None:
        self._what = module.rpartition(".")[2]
        self._log = PipedLog(programs.log_path, self._what)
        self._max_payload_bytes = max_payload_bytes
        self._lock = threading.Lock()
        self._reason = ""
        self._connection, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = programs.start_python(
                    "-m",
                    module,
                    str(theirs.fileno()),
                    *arguments,
                    directory=directory,
                    output=self._log.writer,
                    pass_fds=(theirs.fileno(),),
                )
        except BaseException:
            self._log.close()
            raise

    # `Any`: values of a JSON object.
    def ask(self, request: Mapping[str, Any], payload: bytes = b"") -> Frame:
        """Return the answer to a request.

        Raises:
            SdkError: It answers with an error, or not at all.
        """
        with self._lock:
            try:
                frames.send(self._connection, request, payload)
                answer = frames.receive(self._connection, max_payload_bytes=self._max_payload_bytes)
            except FrameError as error:
                self.close(str(error))
                answer = None
            except OSError:
                answer = None
        if answer is None:
            raise SdkError(self._story(), StatusCode.SDK_RT_INTERNAL_ERROR)
        if "error" in answer.header:
            raise SdkError(str(answer.header["error"]))
        return answer

    def close(self, reason: str = "it was stopped") -> None:
        """End it; whoever waits for an answer gets an error with the reason."""
        self._reason = self._reason or reason
        with contextlib.suppress(OSError):  # the other end may be gone already
            self._connection.shutdown(socket.SHUT_RDWR)
        end(self._process)
        self._log.close()

    def _story(self) -> str:
        """Return how it has ended; it has hung up, so it has or will."""
        if self._reason:
            return f"The {self._what} does not answer any more: {self._reason}."
        try:
            code = self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            return f"The {self._what} has hung up."
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"The {self._what} ended with {how}.\n{self._log.tail(_TAIL_BYTES)}".rstrip()
