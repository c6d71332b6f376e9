"""Runs shell commands of the client, and collects the output of all its programs."""

import contextlib
import fcntl
import os
import select
import subprocess
import sys
import termios
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType

from protos.sdk.sdk_common_pb2 import StatusCode
from workers.sdk.errors import SdkError
from workers.sdk.files import JobFiles
from workers.sdk.options import SdkLimits
from workers.sdk.programs import Programs, end

_DRAIN_SECONDS = 5.0
SYSTEM_PLACEHOLDER = "%CMADDR%"


class Output:
    """Collects what a program prints, and copies it to the job's log as it comes.

    The client gets the standard output alone of a command that succeeds, so each descriptor has a
    pipe of its own. One thread reads them all and counts what waits in the later ones first: what
    a program prints to `err` never stands before what it had printed to `out` until then.

    Args:
        max_bytes: Bytes that are kept for the client, the last ones.
    """

    def __init__(self, log_path: Path, max_bytes: int) -> None:
        self._log = log_path.open("ab", buffering=0)
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._parts: list[tuple[str, bytes]] = []
        self._kept_bytes = 0
        self._is_cut = False
        self._ends: dict[str, tuple[int, int]] = {}
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Output":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close_writers()
        if self._thread is not None:  # a process that has left the group may hold the other end
            self._thread.join(_DRAIN_SECONDS)
        self._log.close()

    def writer(self, name: str) -> int:
        """Return a descriptor that a program can print to.

        Args:
            name: `out`, and after it `err` if that is told apart.
        """
        self._ends[name] = os.pipe()
        return self._ends[name][1]

    def read(self) -> None:
        """Begin to collect; the program has been started."""
        self._close_writers()
        readers = {name: reader for name, (reader, _) in self._ends.items()}
        self._thread = threading.Thread(target=self._copy, args=(readers,), daemon=True)
        self._thread.start()

    def text(self, only: str = "") -> str:
        """Return what was printed, in the order in which it came; or by one descriptor only."""
        with self._lock:
            data = b"".join(part for name, part in self._parts if only in ("", name))
            is_cut = self._is_cut
        note = f"[the first part is in the job's log; the last {len(data)} bytes follow]\n"
        return (note if is_cut else "") + data.decode(errors="replace")

    def _close_writers(self) -> None:
        for name, (reader, writer) in self._ends.items():
            if writer >= 0:
                os.close(writer)
                self._ends[name] = (reader, -1)

    def _copy(self, readers: dict[str, int]) -> None:
        """Read all pipes to their ends."""
        poll = select.poll()
        for reader in readers.values():
            poll.register(reader, select.POLLIN)
        while readers:
            has_ended = {reader for reader, events in poll.poll() if events & select.POLLHUP}
            waiting = [(name, _num_waiting(reader)) for name, reader in reversed(readers.items())]
            for name, num_bytes in reversed(waiting):
                if num_bytes:
                    self._keep(name, os.read(readers[name], num_bytes))
                if readers[name] in has_ended:
                    poll.unregister(readers[name])
                    os.close(readers.pop(name))

    def _keep(self, name: str, data: bytes) -> None:
        with contextlib.suppress(OSError, ValueError):  # full, or given up on
            self._log.write(data)
        with self._lock:
            self._parts.append((name, data))
            self._kept_bytes += len(data)
            while self._kept_bytes > self._max_bytes and len(self._parts) > 1:
                self._kept_bytes -= len(self._parts.pop(0)[1])
                self._is_cut = True


def _num_waiting(reader: int) -> int:
    """Return the bytes that lie in a pipe."""
    return int.from_bytes(fcntl.ioctl(reader, termios.FIONREAD, bytes(4)), sys.byteorder)


class Watch:
    """Ends programs whose client has gone away, or whose job ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False

    @contextlib.contextmanager
    def ends(self, process: "subprocess.Popen[bytes]") -> Iterator[None]:
        """End a program if, within the block, the client goes away."""
        with self._lock:
            self._process = process
            is_over = self._is_over
        if is_over:
            end(process)
        try:
            yield
        finally:
            with self._lock:
                self._process = None

    def client_left(self) -> None:
        """The client has gone away."""
        with self._lock:
            self._is_over = True
            process = self._process
        if process is not None:
            end(process)

    @property
    def is_over(self) -> bool:
        """Whether nobody waits any more."""
        return self._is_over


class Commands:
    """Runs the client's commands.

    Args:
        programs: Starts them.
        files: Where artifacts lie.
        limits: How much output is answered.
        system_address: What stands for the system in commands; empty if the job holds none.
    """

    def __init__(
        self, programs: Programs, files: JobFiles, limits: SdkLimits, system_address: str
    ) -> None:
        self._programs, self._files, self._limits = programs, files, limits
        self._system_address = system_address

    def run(self, commands: Iterable[tuple[str, str]], watch: Watch) -> str:
        """Run commands one after another and return what they printed.

        Args:
            commands: For each the id of its artifact, in whose directory it runs, and the command.
            watch: Tells if the client has gone.

        Raises:
            SdkError: One has failed; the message is what it, and those before it, printed.
        """
        printed = ""
        for target, command in commands:
            code, output = self._run(target, self._complete(command), watch)
            if code != 0:
                raise SdkError(
                    f"{printed}{output.text()}{_ending(command, code)}",
                    StatusCode.SDK_COMMAND_ERROR,
                )
            printed += output.text(only="out")
        return printed

    def _complete(self, command: str) -> str:
        if SYSTEM_PLACEHOLDER not in command:
            return command
        if not self._system_address:
            raise SdkError(
                f"{SYSTEM_PLACEHOLDER} stands for a system, and this job holds none.",
                StatusCode.SDK_COMMAND_ERROR,
            )
        return command.replace(SYSTEM_PLACEHOLDER, self._system_address)

    def _run(self, target: str, command: str, watch: Watch) -> tuple[int, Output]:
        directory = self._files.artifact(target)
        output = Output(self._programs.log_path, self._limits.output_bytes)
        with output:
            process = self._programs.start_shell(
                command,
                directory=directory,
                output=output.writer("out"),
                errors=output.writer("err"),
            )
            output.read()
            try:
                with watch.ends(process):
                    code = process.wait()
            finally:
                end(process)
        return code, output


def _ending(command: str, code: int) -> str:
    how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return f"\n{command!r} {how}."
