"""Processes of the user, forked by one server for all pods of a job on this node.

Importing what the client's programs need takes seconds of processor time, and several of them
start with every job. So the first pod that needs one starts `user_fork_server` in the user's
environment, which imports everything once; every program of the job on this node is forked from
it. Who is first is decided by an abstract Unix socket, which lies in no directory and goes with its
last holder. The server dies with the pod that started it, its programs with it, and a program with
the pod that asked for it.
"""

import contextlib
import errno
import hashlib
import json
import os
import signal
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance.core.errors import InternalError
from appliance.pods.job_user import JobUser
from appliance.user_code import user_exec, user_fork_server
from appliance.user_code.user_exec import CannotStartError, Order

_BACKLOG = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCommand:
    """A program to run.

    Attributes:
        python: The interpreter.
        module: Module to run as a program.
        arguments: Its command line.
        directory: Its working directory.
        variables: Its whole environment.
        log_path: Takes its output.
        user: Whom to run as.
        secret: What only the pods of the job know, so that nobody else can listen in their place.
        preloaded: Modules that the server imports first; one that is not there is left out.
    """

    python: Path
    module: str
    arguments: tuple[str, ...]
    directory: Path
    variables: Mapping[str, str]
    log_path: Path
    user: JobUser
    secret: str
    preloaded: tuple[str, ...]


class ForkServerEndedError(Exception):
    """The server that was to fork a program has ended.

    Attributes:
        exit_code: How, if this process had started it; None if another pod had, and starting the
            program once more will start another server.
    """

    def __init__(self, exit_code: int | None) -> None:
        super().__init__(f"the user's fork server ended ({exit_code})")
        self.exit_code = exit_code


class UserProcess:
    """A program that a server forks as soon as it has imported everything.

    Args:
        connection: To the server; it has been asked for the program.
        server: The server, if this process has started it.
    """

    def __init__(self, connection: socket.socket, server: "_ForkServer | None") -> None:
        self._connection, self._server = connection, server

    def wait(self) -> int:
        """Return the exit code, as `subprocess` counts it, once the program has ended.

        Raises:
            ForkServerEndedError: It never began.
        """
        if _receive(self._connection) is None:
            raise ForkServerEndedError(None if self._server is None else self._server.exit_code())
        answer = _receive(self._connection)
        return -signal.SIGKILL if answer is None else answer["code"]

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program and its children, as far as there are any."""
        # If the server is gone, so are they.
        with contextlib.suppress(OSError):
            self._connection.send(json.dumps({"signal": int(number)}).encode())

    def kill(self) -> None:
        """Kill whatever is left of the program and its children; a thread in `wait` returns."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Free the connection; no thread may be in `wait`."""
        self._connection.close()


def start(command: UserCommand) -> UserProcess:
    """Start a program, and the server that forks it if there is none.

    Raises:
        CannotStartError: The interpreter cannot be run.
        ForkServerEndedError: The server ended at once.
        InternalError: Another user holds the job's socket.
    """
    while True:
        server = _ForkServer.start_if_first(command)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(_address(command))
            _ask(connection, command)
        except ConnectionError as error:
            connection.close()
            if server is not None:
                raise ForkServerEndedError(server.exit_code()) from error
            # Another pod's server was about to end; the next one is this pod's own.
        except (InternalError, OSError):
            connection.close()
            raise
        else:
            return UserProcess(connection, server)


def _ask(connection: socket.socket, command: UserCommand) -> None:
    """Ask for a program."""
    user = user_fork_server.user_of(connection)
    if user != os.geteuid():
        raise InternalError(
            f"User {user} listens where the fork server of user {os.geteuid()}'s pods should."
        )
    request = {
        "module": command.module,
        "arguments": command.arguments,
        "directory": str(command.directory),
    }
    with command.log_path.open("ab") as log:
        socket.send_fds(connection, [json.dumps(request).encode()], [log.fileno()])


def _receive(connection: socket.socket) -> dict[str, int] | None:
    """Return the next answer; None if there is none any more."""
    try:
        packet = connection.recv(user_fork_server.PACKET_BYTES)
    except OSError:
        return None
    answer: dict[str, int] | None = json.loads(packet) if packet else None
    return answer


def _address(command: UserCommand) -> str:
    """Return where the server for a program listens: the same for all programs that may share it.

    Abstract addresses are known to everybody on the host, so whoever answers is asked for its user;
    and to containers that share its network, which may have other files and processes.
    """
    inside = [str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("mnt", "pid")]
    told = [
        command.secret,
        str(command.python),
        command.user.uid,
        command.user.gid,
        sorted(command.variables.items()),
        inside,
    ]
    return "\0wsc-" + hashlib.sha256(json.dumps(told).encode()).hexdigest()


class _ForkServer:
    """A server started by this process."""

    def __init__(self, command: UserCommand, listener: socket.socket) -> None:
        self._started = threading.Event()
        self._ended = threading.Event()
        self._error: CannotStartError | OSError | None = None
        self._code = 0
        # The parent-death signal is tied to the thread that forks, so that thread stays.
        thread = threading.Thread(
            target=self._run, args=(command, listener), name="user fork server", daemon=True
        )
        thread.start()
        self._started.wait()
        if self._error is not None:
            raise self._error

    @classmethod
    def start_if_first(cls, command: UserCommand) -> "_ForkServer | None":
        """Start a server, unless one of this or another pod listens already."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            try:
                listener.bind(_address(command))
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                return None
            listener.listen(_BACKLOG)
            return cls(command, listener)

    def exit_code(self) -> int:
        """Return how it ended."""
        self._ended.wait()
        return self._code

    def _run(self, command: UserCommand, listener: socket.socket) -> None:
        # The server's text comes by a descriptor: the user need not be able to read our files.
        script = os.memfd_create("user_fork_server", os.MFD_CLOEXEC)
        os.write(script, Path(user_fork_server.__file__).read_bytes())
        told = (f"/proc/self/fd/{script}", str(listener.fileno()), str(os.geteuid()))
        user = command.user
        order = Order(
            programs=(str(command.python),),
            arguments=(*told, *command.preloaded),
            environment=command.variables,
            directory="/",
            uid=user.uid,
            gid=user.gid,
            groups=user.groups,
        )
        try:
            with command.log_path.open("ab") as log:
                descriptors = (script, listener.fileno())
                process = user_exec.start(order, output=log.fileno(), pass_fds=descriptors)
        except (CannotStartError, OSError) as error:
            self._error = error
            self._started.set()
            return
        finally:
            os.close(script)
        self._started.set()
        self._code = process.wait()
        self._ended.set()
