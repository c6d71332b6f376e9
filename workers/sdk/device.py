"""The runtime that the client drives: one program of the user, one operation at a time."""

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from appliance.sdk.servers.frames import MAX_COPY_BYTES, Frame
from protos.sdk.sdk_appliance_pb2 import MemcpyOpOptions
from workers.sdk.child import Child
from workers.sdk.errors import SdkError, file_error
from workers.sdk.files import JobFiles
from workers.sdk.programs import Programs

_NAME_FILE = ".csl_bin_name"
_ORDER_SECONDS = 5.0
"""How long an operation waits for earlier ones that the client may still be sending."""


class Place(NamedTuple):
    """What a copy moves: elements of each PE of a rectangle."""

    target: int
    x: int
    y: int
    w: int
    h: int
    elements_per_pe: int


class Device:
    """The runtime of one job.

    Args:
        programs: Starts it.
        files: Where artifacts lie.
        system_address: Address of the system that the job holds; empty for none.
    """

    def __init__(self, programs: Programs, files: JobFiles, system_address: str) -> None:
        self._programs, self._files, self._system_address = programs, files, system_address
        self._changed = threading.Condition()
        self._next_number = 0
        self._child: Child | None = None
        self._target = ""

    def create(self, target: str) -> None:
        """Make a runtime of an artifact, in place of an earlier one.

        Raises:
            SdkError: There is no such artifact, or it holds no program.
        """
        directory = self._files.artifact(target)
        name = self._files.read(f"{target}/{_NAME_FILE}")[1].decode(errors="replace").split("\n")[0]
        if not name or name.startswith("/") or ".." in name.split("/"):
            raise file_error(f"Artifact {target!r} names no directory of a program: {name!r}.")
        self.close("another runtime was created")
        child = Child(
            self._programs,
            "appliance.sdk.servers.runtime_server",
            str(directory / name),
            self._system_address,
            directory=directory,
            max_payload_bytes=MAX_COPY_BYTES,
        )
        with self._changed:
            self._child, self._target, self._next_number = child, target, 0
        child.ask({"op": "create"})

    def start(self) -> None:
        """Load the program and let it run."""
        self._ask({"op": "start"})

    def stop(self) -> None:
        """End the run after all its operations."""
        self._ask({"op": "stop"})

    def id_of(self, symbol: str) -> int:
        """Return the number of an exported symbol."""
        return int(self._ask({"op": "get_id", "symbol": symbol}).header["id"])

    def copy_in(self, number: int, place: Place, options: MemcpyOpOptions, data: bytes) -> None:
        """Copy to the device, or begin to."""
        self._in_order(number, {"op": "h2d", **_copy(place, options)}, data)

    def copy_out(self, number: int, place: Place, options: MemcpyOpOptions) -> bytes:
        """Copy from the device and return the bytes; or begin to, and return none."""
        return self._in_order(number, {"op": "d2h", **_copy(place, options)}).payload

    def call(self, number: int, name: str, words: list[int], *, nonblock: bool) -> None:
        """Call an exported function, or begin to."""
        self._in_order(number, {"op": "call", "name": name, "words": words, "nonblock": nonblock})

    def wait(self, number: int) -> bytes | None:
        """Wait for an operation that was begun; returns what it copied, None if nothing."""
        return _copied(self._ask({"op": "wait", "number": number}))

    def is_done(self, number: int) -> tuple[bool, bytes | None]:
        """Return whether an operation has ended, and if so what it copied as `wait` does."""
        answer = self._ask({"op": "done", "number": number})
        return bool(answer.header["done"]), _copied(answer)

    def symbol_rect(
        self, target: str, rectangle: tuple[int, int, int, int], symbol: str, element_bytes: int
    ) -> bytes:
        """Return what a symbol holds on a rectangle of the fabric, column by column of PEs."""
        if target != self._target:
            raise SdkError(f"The runtime of this job runs {self._target!r}, not {target!r}.")
        request = {
            "op": "symbol_rect",
            "rectangle": rectangle,
            "symbol": symbol,
            "bytes_per_element": element_bytes,
        }
        return self._ask(request).payload

    def close(self, reason: str) -> None:
        """End the runtime, if there is one."""
        with self._changed:
            child, self._child = self._child, None
        if child is not None:
            child.close(reason)

    # `Any`: a request of `appliance.sdk.servers.runtime_server`.
    def _in_order(self, number: int, request: Mapping[str, Any], payload: bytes = b"") -> Frame:
        """Ask for an operation once those of lower numbers were asked for."""
        with self._changed:
            self._changed.wait_for(lambda: self._next_number >= number, timeout=_ORDER_SECONDS)
        try:
            return self._ask({**request, "number": number}, payload)
        finally:
            with self._changed:
                self._next_number = max(self._next_number, number + 1)
                self._changed.notify_all()

    def _ask(self, request: Mapping[str, Any], payload: bytes = b"") -> Frame:
        with self._changed:
            child = self._child
        if child is None:
            raise SdkError("There is no runtime; create one of an uploaded artifact first.")
        return child.ask(request, payload)


def _copied(answer: Frame) -> bytes | None:
    return answer.payload if answer.header["done"] and answer.header["is_copy"] else None


# `Any`: as above.
def _copy(place: Place, options: MemcpyOpOptions) -> dict[str, Any]:
    return {
        "target": place.target,
        "rectangle": [place.x, place.y, place.w, place.h],
        "size": place.elements_per_pe,
        "streaming": options.streaming,
        "data_type": options.data_type,
        "order": options.order,
        "nonblock": options.nonblock,
    }
