"""A runtime that a pod drives: `python -m appliance.sdk.servers.runtime_server SOCKET DIRECTORY`.

It runs as the job's user, so that the compiled program, which the user has uploaded, is read and
run with the user's rights. The SDK's client speaks to the pod, the pod to this program: one request
at a time over an inherited socket (`frames`), answered with `error`, or with a result and bytes.

The client ignores the answer to an operation that does not block; what was wrong with it is said
again when it is waited for.
"""

import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from appliance.sdk.host.arrays import MemcpyDataType, MemcpyOrder, Words
from appliance.sdk.host.inspection import StoppedRun
from appliance.sdk.host.runtime import SdkRuntime
from appliance.sdk.host.tasks import Task
from appliance.sdk.servers import frames
from appliance.sdk.symbols import HostCallError

# `Any`: values of a JSON object.
_Request = Mapping[str, Any]
_Answer = tuple[Mapping[str, Any], bytes]

_NOTHING: _Answer = ({}, b"")


class RuntimeServer:
    """Carries out what the pod asks for.

    Args:
        directory: The compiled program.
        cmaddr: Address of the system that the job holds; empty for none.
    """

    def __init__(self, directory: Path, cmaddr: str) -> None:
        self._directory, self._cmaddr = directory, cmaddr
        self._runtime: SdkRuntime | None = None
        self._operations: dict[int, _Operation] = {}
        self._refused: dict[int, str] = {}
        self._methods: Mapping[str, Callable[[_Request, bytes], _Answer]] = {
            "create": self._create,
            "start": self._start,
            "stop": self._stop,
            "get_id": self._get_id,
            "h2d": self._h2d,
            "d2h": self._d2h,
            "call": self._call,
            "wait": self._wait,
            "done": self._done,
            "symbol_rect": self._symbol_rect,
        }

    def serve(self, connection: socket.socket) -> None:
        """Answer until the other end hangs up."""
        while frame := frames.receive(connection, max_payload_bytes=frames.MAX_COPY_BYTES):
            try:
                header, payload = self._methods[frame.header["op"]](frame.header, frame.payload)
            except (HostCallError, ValueError, OverflowError, MemoryError) as error:
                story = str(error) or "There is not enough memory for this."
                if frame.header.get("nonblock"):
                    self._refused[frame.header["number"]] = story
                frames.send(connection, {"error": story})
            else:
                frames.send(connection, header, payload)

    @property
    def _present(self) -> SdkRuntime:
        if self._runtime is None:
            raise HostCallError("There is no runtime yet; create one first.")
        return self._runtime

    def _create(self, _: _Request, __: bytes) -> _Answer:
        self._runtime = SdkRuntime(self._directory, cmaddr=self._cmaddr)
        return _NOTHING

    def _start(self, _: _Request, __: bytes) -> _Answer:
        self._present.load()
        self._present.run()
        return _NOTHING

    def _stop(self, _: _Request, __: bytes) -> _Answer:
        self._present.stop()
        return _NOTHING

    def _get_id(self, request: _Request, _: bytes) -> _Answer:
        return {"id": self._present.get_id(request["symbol"])}, b""

    def _h2d(self, request: _Request, data: bytes) -> _Answer:
        source = np.frombuffer(data, np.uint32)
        x, y, w, h = request["rectangle"]
        task = self._present.memcpy_h2d(
            request["target"], source, x, y, w, h, request["size"], **_options(request)
        )
        return self._keep(request, _Operation(task))

    def _d2h(self, request: _Request, _: bytes) -> _Answer:
        x, y, w, h = request["rectangle"]
        target = np.zeros(max(w, 0) * max(h, 0) * max(request["size"], 0), np.uint32)
        task = self._present.memcpy_d2h(
            target, request["target"], x, y, w, h, request["size"], **_options(request)
        )
        return self._keep(request, _Operation(task, target))

    def _call(self, request: _Request, _: bytes) -> _Answer:
        name, words = request["name"], request["words"]
        task = self._present.call(name, words, nonblock=request["nonblock"])
        return self._keep(request, _Operation(task))

    def _keep(self, request: _Request, operation: "_Operation") -> _Answer:
        if request["nonblock"]:
            self._operations[request["number"]] = operation
            return _NOTHING
        return {}, operation.data

    def _wait(self, request: _Request, _: bytes) -> _Answer:
        operation = self._operation(request["number"])
        self._present.task_wait(operation.task)
        return self._finished(request["number"])

    def _done(self, request: _Request, _: bytes) -> _Answer:
        operation = self._operation(request["number"])
        if not self._present.is_task_done(operation.task):
            return {"done": False}, b""
        return self._finished(request["number"])

    def _finished(self, number: int) -> _Answer:
        operation = self._operations.pop(number)
        return {"done": True, "is_copy": operation.target is not None}, operation.data

    def _operation(self, number: int) -> "_Operation":
        if number in self._refused:
            raise HostCallError(self._refused[number])
        if number not in self._operations:
            raise HostCallError(
                f"There is no operation {number} that was begun and is not waited for."
            )
        return self._operations[number]

    def _symbol_rect(self, request: _Request, _: bytes) -> _Answer:
        x, y, w, h = request["rectangle"]
        size = request["bytes_per_element"]
        if size not in (1, 2, 4, 8):
            raise HostCallError(f"Elements of {size} bytes are not possible.")
        run = StoppedRun(self._directory)
        found = run.get_symbol_rect(((x, y), (w, h)), request["symbol"], f"u{size}")
        return {}, found.tobytes()


class _Options(TypedDict):
    streaming: bool
    data_type: MemcpyDataType
    order: MemcpyOrder
    nonblock: bool


def _options(request: _Request) -> _Options:
    return _Options(
        streaming=request["streaming"],
        data_type=MemcpyDataType(request["data_type"]),
        order=MemcpyOrder(request["order"]),
        nonblock=request["nonblock"],
    )


class _Operation:
    """A started operation: its task, and the array that it fills if it copies to the host."""

    def __init__(self, task: Task, target: Words | None = None) -> None:
        self.task, self.target = task, target

    @property
    def data(self) -> bytes:
        """The copied data."""
        return b"" if self.target is None else self.target.tobytes()


def main() -> int:
    """Serve on an inherited socket."""
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        connection.set_inheritable(False)
        RuntimeServer(Path(sys.argv[2]), sys.argv[3]).serve(connection)
    return 0


if __name__ == "__main__":
    sys.exit(main())
