"""Logs of programs of a user: they write to a pipe, and this process to the file.

A descriptor of the file would let the program make it any length, with a hole of terabytes, or cut
off what it has printed; with one of a pipe it can only write. A program that writes faster than
`_BYTES_PER_SECOND` waits: what limits logs looks at them now and then, and must keep up.
"""

import contextlib
import fcntl
import os
import select
import sys
import termios
import threading
import time
from pathlib import Path

from appliance.core.errors import InternalError

_CHUNK_BYTES = 1 << 16
_BYTES_PER_SECOND = 64 << 20
_LOOK_SECONDS = 0.005


class PipedLog:
    """A log that programs print to.

    Args:
        path: The file; what is there stays.
        is_for: Names the thread that copies.

    Raises:
        OSError: It cannot be written.
    """

    def __init__(self, path: Path, is_for: str) -> None:
        self._path, self._lock, self._has_ended = path, threading.Lock(), threading.Event()
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC)
        name = f"log of {is_for}"
        self._thread = threading.Thread(target=self._copy, name=name, daemon=True)
        self._thread.start()

    @property
    def writer(self) -> int:
        """The descriptor that is passed to programs; it is ours and stays open until `close`."""
        if self._writer < 0:
            raise InternalError(f"The log {self._path} is closed.")
        return self._writer

    def note(self, text: str) -> None:
        """Write a line of ours."""
        os.write(self._file, f"{text}\n".encode(errors="replace"))

    def tail(self, max_bytes: int, *, wait_seconds: float = 1.0) -> str:
        """Return its last bytes as text, with all that was printed until now.

        Args:
            max_bytes: So many at most.
            wait_seconds: How long to wait for a program that prints and prints.
        """
        self._drain(wait_seconds)
        try:
            with self._path.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - max_bytes))
                return file.read(max_bytes).decode(errors="replace")
        except OSError:
            return ""

    def close(self, *, wait_seconds: float = 1.0) -> None:
        """Pass it to no more programs; the file is closed when the last of them has ended."""
        self._drain(wait_seconds)
        with self._lock:
            writer, self._writer = self._writer, -1
        if writer >= 0:
            os.close(writer)

    def _drain(self, wait_seconds: float) -> None:
        """Wait until all that lies in the pipe is in the file."""
        deadline = time.monotonic() + wait_seconds
        while not self._has_ended.is_set() and time.monotonic() < deadline:
            with self._lock:
                if self._has_ended.is_set() or not _num_waiting(self._reader):
                    return
            self._has_ended.wait(_LOOK_SECONDS)

    def _copy(self) -> None:
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        while True:
            poll.poll()
            begun = time.monotonic()
            with self._lock:
                data = os.read(self._reader, _CHUNK_BYTES)
                if not data:
                    self._has_ended.set()
                    os.close(self._reader)
                    os.close(self._file)
                    return
                with contextlib.suppress(OSError):  # the disk is full: the program goes on
                    _write(self._file, data)
            left = len(data) / _BYTES_PER_SECOND - (time.monotonic() - begun)
            if left > 0:
                self._has_ended.wait(left)


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def _num_waiting(reader: int) -> int:
    """Return the bytes that lie in a pipe."""
    return int.from_bytes(fcntl.ioctl(reader, termios.FIONREAD, bytes(4)), sys.byteorder)
