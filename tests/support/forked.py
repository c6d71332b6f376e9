"""Python programs forked from an interpreter that has imported what they need.

Importing PyTorch, gRPC or the public client takes five seconds of a core, and the tests start
hundreds of programs that do. A program forked here has them, and is otherwise what `python` makes
of the same arguments in the same directory and environment: `__main__`, the path, the exit code.

One interpreter for each set of imports (`forking_interpreter.py`) serves all processes of a test
run, and what those start: they find it by its socket, in a directory that `share` tells them.
"""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

_PROGRAM = Path(__file__).with_name("forking_interpreter.py")
_START_SECONDS = 300
_PACKET_BYTES = 1 << 18
VARIABLE = "WSC_TEST_INTERPRETERS"
"""Names the process with which the interpreters end, and the directory of their sockets."""
_DECIDING = ("PYTHON", "OMP_")
"""How the variables begin for each of whose values there is an interpreter of its own."""
_OF_ONE_PROCESS = ("PYTEST_", "CSCONFIG_PATH", "CSAUTH_TOKEN")
"""How the variables begin that no interpreter has, as it serves others too."""


class ForkServer:
    """A connection to an interpreter with its imports.

    Args:
        connection: It.
        log: What the interpreter itself says.
    """

    def __init__(self, connection: socket.socket, log: Path) -> None:
        self._connection, self._log = connection, log
        self._changed = threading.Condition()
        self._started: list[dict[str, int]] = []
        self._codes: dict[int, int] = {}
        self._has_ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def start(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        cwd: Path,
        output: Path,
        errors: Path | None = None,
    ) -> "ForkedProcess":
        """Start a program.

        Args:
            arguments: `-m` and a module, or a script; then the program's own.
            environment: All its variables.
            cwd: Its directory.
            output: File that takes its standard output and error.
            errors: File that takes its standard error instead.
        """
        with contextlib.ExitStack() as files:
            paths = [output] if errors is None else [output, errors]
            for path in paths:
                path.write_bytes(b"")
            opened = [files.enter_context(path.open("ab")).fileno() for path in paths]
            return self.inherit(
                arguments,
                environment=environment,
                cwd=cwd,
                output=opened[0],
                errors=opened[-1],
            )

    def inherit(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        cwd: Path,
        output: int,
        errors: int,
        descriptors: Sequence[int] = (),
        standard_input: int | None = None,
    ) -> "ForkedProcess":
        """Start a program that inherits descriptors.

        Args:
            arguments: `-m` and a module, or a script; then the program's own.
            environment: All its variables.
            cwd: Its directory.
            output: Takes its standard output.
            errors: Takes its standard error.
            descriptors: What it has beside, by the same numbers.
            standard_input: Its standard input; None for an empty one.
        """
        inherited = {number: number for number in descriptors}
        if standard_input is not None:
            inherited[0] = standard_input
        order = {
            "arguments": [*arguments],
            "environment": {**environment},
            "cwd": str(cwd),
            "umask": _umask(),
            "descriptors": [*inherited],
        }
        with self._changed:
            packet = [json.dumps(order).encode()]
            socket.send_fds(self._connection, packet, [output, errors, *inherited.values()])
            self._changed.wait_for(lambda: self._started or self._has_ended, _START_SECONDS)
            assert self._started, f"{arguments} was not started:\n{self._log.read_text()}"
            return ForkedProcess(self, arguments, **self._started.pop())

    def code(self, number: int, seconds: float | None) -> int | None:
        """Return a program's exit code as `subprocess` has it; None if it still runs then."""
        with self._changed:
            self._changed.wait_for(lambda: number in self._codes or self._has_ended, seconds)
            assert number in self._codes or not self._has_ended, self._log.read_text()
            return self._codes.get(number)

    def _read(self) -> None:
        with contextlib.suppress(ConnectionError):
            while packet := self._connection.recv(_PACKET_BYTES):
                self._note(json.loads(packet))
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    def _note(self, told: dict[str, int]) -> None:
        with self._changed:
            if "code" in told:
                self._codes[told["number"]] = told["code"]
            else:
                self._started.append(told)
            self._changed.notify_all()


class ForkedProcess:
    """One program, with the methods of `subprocess.Popen` that tests use.

    Args:
        server: What it was forked from.
        arguments: What runs, for messages.
        number: Which of the server's programs it is: process ids come again.
        pid: Its process id.
    """

    def __init__(
        self, server: ForkServer, arguments: Sequence[str], *, number: int, pid: int
    ) -> None:
        self._server, self._arguments = server, arguments
        self._number, self.pid = number, pid

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        return self._server.code(self._number, 0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended.

        Raises:
            subprocess.TimeoutExpired: It runs still.
        """
        code = self._server.code(self._number, timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self._arguments, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended since, and is told of soon
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


def share() -> None:
    """Have the processes that this one starts use its interpreters, which end with this one."""
    os.environ[VARIABLE] = place()


def is_shared() -> bool:
    """Return whether this process belongs to a test run, whose interpreters it may use."""
    return VARIABLE in os.environ


def directory() -> Path:
    """Return the directory of what the processes of a test run share."""
    return Path(place().partition(":")[2])


def fork_server(
    python: Path, preloaded: tuple[str, ...], environment: Mapping[str, str]
) -> ForkServer:
    """Return the connection to the interpreter with these imports, which is started once.

    Args:
        python: The interpreter.
        preloaded: Modules that it imports.
        environment: Of the imports, without what one process alone has.
    """
    deciding = {name: value for name, value in environment.items() if name.startswith(_DECIDING)}
    identity = json.dumps([str(python), preloaded, sorted(deciding.items())])
    with _LOCK:
        if identity not in _CONNECTIONS:
            owner = place().partition(":")[0]
            name = hashlib.sha256(identity.encode()).hexdigest()[:16]
            path = directory() / f"{name}.socket"
            _CONNECTIONS[identity] = ForkServer(
                _connect(path, [str(python), str(_PROGRAM), owner, *preloaded], environment),
                path.with_suffix(".log"),
            )
        return _CONNECTIONS[identity]


_LOCK = threading.Lock()
_CONNECTIONS: dict[str, ForkServer] = {}


@functools.cache
def _made() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="wsc-interpreters-")


def place() -> str:
    return os.environ.get(VARIABLE) or f"{os.getpid()}:{_made().name}"


def _connect(path: Path, command: Sequence[str], environment: Mapping[str, str]) -> socket.socket:
    """Return a connection to who listens there; start that if nobody does."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            connection.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            _start(path, command, environment)
            connection.connect(str(path))
    return connection


def _start(path: Path, command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Start an interpreter; who connects before it has imported everything waits for that."""
    settled = {
        name: value for name, value in environment.items() if not name.startswith(_OF_ONE_PROCESS)
    }
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with listener, path.with_suffix(".log").open("ab") as log:
        listener.bind(str(path))
        listener.listen()
        # It goes on in the background by itself: it is nobody's child that would be waited for.
        subprocess.run(
            [*command[:2], str(listener.fileno()), *command[2:]],
            env=settled,
            pass_fds=[listener.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=True,
        )


def _umask() -> int:
    """Return what files are made without; asking the system for it would change it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (text,) = (line.split()[1] for line in lines if line.startswith("Umask:"))
    return int(text, 8)
