"""Processes of the user, forked by one server for all pods of a job on this node.

Importing what the client's programs need takes seconds of processor time, and several of them
start with every job. So the first pod that needs one starts `user_fork_server` in the user's
environment, which imports everything once and stays for the next jobs of the same user and
environment; a server for each job is forked from it, and every program of the job from that. Who is
first is decided by abstract Unix sockets, which lie in no directory and go with their last holder.
A program dies with the pod that asked for it, the job's server with the last program, and what has
imported everything with the process that forks the pods, or when nobody has needed it for a while.
"""

import contextlib
import errno
import hashlib
import json
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from appliance.core.errors import InternalError
from appliance.pods.job_user import JobUser
from appliance.user_code import user_exec, user_fork_server
from appliance.user_code.user_exec import CannotStartError, Order

_BACKLOG = 128

_NUM_ADDRESSES = 1000
_ATTEMPTS = 3
"""At one address: who listened there may have ended a moment ago."""

_IDLE_SECONDS = 300.0
"""How long imported modules stay in memory for the next job: 0.16 GB, and 0.14 of mapped files."""

_SECRET = secrets.token_hex(16)
"""Known to the processes that were forked from one that had imported this, and to nobody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCommand:
    """A program to run.

    Attributes:
        python: The interpreter.
        module: Module to run as a program.
        arguments: Its command line.
        directory: Its working directory.
        search_path: Where it looks for modules first. `preloaded` are found in the first of them,
            so that programs with other directories behind it need no others imported.
        variables: Its environment, without `PYTHONPATH` and `job_variables`.
        job_variables: What only programs of this job have in theirs.
        output: Descriptor of a pipe that takes its output.
        user: Whom to run as.
        secret: What only the pods of the job know, so that nobody else can listen in their place.
        preloaded: Modules that the server imports first; one that is not there is left out.
    """

    python: Path
    module: str
    arguments: tuple[str, ...]
    directory: Path
    search_path: tuple[str, ...]
    variables: Mapping[str, str]
    job_variables: Mapping[str, str]
    output: int
    user: JobUser
    secret: str
    preloaded: tuple[str, ...]


class ForkServerEndedError(Exception):
    """The server that was to fork a program has ended.

    Attributes:
        exit_code: How the process that was to import everything ended, if this one had started it;
            None if another pod had, and starting the program once more will start another server.
    """

    def __init__(self, exit_code: int | None) -> None:
        super().__init__(f"the user's fork server ended ({exit_code})")
        self.exit_code = exit_code


class UserProcess:
    """A program that a server forks as soon as everything has been imported.

    Args:
        connection: To the job's server; it has been asked for the program.
        starters: Connections to what was asked to fork servers of the job, while it is open.
        zygote: What this process has started to fork them, if it has.
    """

    def __init__(
        self,
        connection: socket.socket,
        starters: contextlib.ExitStack,
        zygote: "_Zygote | None",
    ) -> None:
        self._connection, self._starters, self._zygote = connection, starters, zygote

    def wait(self) -> int:
        """Return the exit code, as `subprocess` counts it, once the program has ended.

        Raises:
            ForkServerEndedError: It never began.
        """
        if _receive(self._connection) is None:
            raise ForkServerEndedError(_exit_code(self._zygote))
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
        """Free the connections; no thread may be in `wait`."""
        self._connection.close()
        self._starters.close()


def start(command: UserCommand) -> UserProcess:
    """Start a program, and whatever forks it if that is not there.

    Raises:
        CannotStartError: The interpreter cannot be run.
        ForkServerEndedError: What this process started to import everything ended at once.
        InternalError: Another user holds all of the job's addresses.
    """
    with contextlib.ExitStack() as stack:
        zygote = None
        while True:
            listener, connection = _meet(partial(_job_address, command))
            try:
                if listener is not None:
                    with listener:
                        zygote, starter = _start_server(listener, command)
                        stack.enter_context(starter)
                _ask(connection, command)
            except ConnectionError as error:
                connection.close()
                if zygote is not None:
                    raise ForkServerEndedError(zygote.exit_code()) from error
                # Another pod's server was about to end; the next one is this pod's own.
            except BaseException:
                connection.close()
                raise
            else:
                return UserProcess(connection, stack.pop_all(), zygote)


def _start_server(
    listener: socket.socket, command: UserCommand
) -> tuple["_Zygote | None", socket.socket]:
    """Have a server of the job started on a socket.

    Returns:
        What forks it, if this process has started that, and a connection without which no server
        is forked, and without which it ends while it has no programs.

    Raises:
        ConnectionError: What was to fork it has ended.
    """
    order = {"variables": dict(command.job_variables), "search_path": command.search_path}
    own, connection = _meet(partial(_zygote_address, command))
    try:
        zygote = None
        if own is not None:
            with own:
                zygote = _Zygote(command, own)
        descriptors = [listener.fileno(), command.output]
        socket.send_fds(connection, [json.dumps(order).encode()], descriptors)
    except BaseException:
        connection.close()
        raise
    return zygote, connection


def _meet(address_of: Callable[[int], str]) -> tuple[socket.socket | None, socket.socket]:
    """Return what listens at an address if that is this process now, and a connection to it.

    Everybody on the host sees which addresses are in use, and may listen at one that no pod holds
    any more: there the next one is taken.

    Args:
        address_of: Returns one address after the other, the same for all who are to meet.

    Raises:
        InternalError: None of them is free.
    """
    for attempt in range(_NUM_ADDRESSES * _ATTEMPTS):
        address = address_of(attempt // _ATTEMPTS)
        with contextlib.ExitStack() as stack:
            listener = _listen_if_first(address)
            if listener is not None:
                stack.enter_context(listener)
            connection = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            connection.setblocking(False)  # a stranger may have filled its queue
            with contextlib.suppress(ConnectionError, BlockingIOError):
                connection.connect(address)
                if user_fork_server.user_of(connection) == os.geteuid():
                    connection.setblocking(True)
                    stack.pop_all()
                    return listener, connection
    raise InternalError(
        f"Other users hold the {_NUM_ADDRESSES} addresses at which the fork server of user "
        f"{os.geteuid()}'s pods could listen."
    )


def _listen_if_first(address: str) -> socket.socket | None:
    """Listen at an address; None if somebody has it already."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return listener


def _ask(connection: socket.socket, command: UserCommand) -> None:
    """Ask for a program."""
    request = {
        "module": command.module,
        "arguments": command.arguments,
        "directory": str(command.directory),
    }
    socket.send_fds(connection, [json.dumps(request).encode()], [command.output])


def _receive(connection: socket.socket) -> dict[str, int] | None:
    """Return the next answer; None if there is none any more."""
    try:
        packet = connection.recv(user_fork_server.PACKET_BYTES)
    except OSError:
        return None
    answer: dict[str, int] | None = json.loads(packet) if packet else None
    return answer


def _zygote_address(command: UserCommand, number: int) -> str:
    """Return where servers of jobs are forked for all programs that need the same imports."""
    return _address(_SECRET, command, [number, *command.search_path[:1], *command.preloaded])


def _job_address(command: UserCommand, number: int) -> str:
    """Return where the server of a job listens for all its programs that may share it."""
    job = [f"{name}={value}" for name, value in sorted(command.job_variables.items())]
    return _address(command.secret, command, [number, *command.search_path, *job])


def _address(secret: str, command: UserCommand, told_apart_by: Sequence[str | int]) -> str:
    """Return where something listens: the same for all programs that may share it.

    Abstract addresses are known to everybody on the host, so whoever answers is asked for its user;
    and to containers that share its network, which may have other files and processes.
    """
    inside = [str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("mnt", "pid")]
    told = [
        secret,
        str(command.python),
        command.user.uid,
        command.user.gid,
        command.user.groups,
        sorted(command.variables.items()),
        told_apart_by,
        inside,
    ]
    return "\0wsc-" + hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _exit_code(zygote: "_Zygote | None") -> int | None:
    return None if zygote is None else zygote.exit_code()


class _Zygote:
    """What imports everything, started by this process.

    It leaves the process once it has: it then belongs to whoever has forked the pod, and ends with
    that.
    """

    def __init__(self, command: UserCommand, listener: socket.socket) -> None:
        self._started = threading.Event()
        self._ended = threading.Event()
        self._error: CannotStartError | OSError | None = None
        self._code = 0
        # The parent-death signal is tied to the thread that forks, so that thread stays.
        thread = threading.Thread(
            target=self._run, args=(command, listener), name="user zygote", daemon=True
        )
        thread.start()
        self._started.wait()
        if self._error is not None:
            raise self._error

    def exit_code(self) -> int:
        """Return how the process ended; 0 says that it had imported everything."""
        self._ended.wait()
        return self._code

    def _run(self, command: UserCommand, listener: socket.socket) -> None:
        # The script's text comes by a descriptor: the user need not be able to read our files.
        script = os.memfd_create("user_fork_server", os.MFD_CLOEXEC)
        os.write(script, Path(user_fork_server.__file__).read_bytes())
        owner = os.getppid() or 1  # 0 is a process outside of the container
        told = (listener.fileno(), os.geteuid(), owner, _IDLE_SECONDS)
        user = command.user
        order = Order(
            programs=(str(command.python),),
            arguments=(f"/proc/self/fd/{script}", *map(str, told), *command.preloaded),
            environment={**command.variables, "PYTHONPATH": command.search_path[0]},
            directory="/",
            uid=user.uid,
            gid=user.gid,
            groups=user.groups,
        )
        try:
            descriptors = (script, listener.fileno())
            process = user_exec.start(order, output=command.output, pass_fds=descriptors)
        except (CannotStartError, OSError) as error:
            self._error = error
            self._started.set()
            return
        finally:
            os.close(script)
        self._started.set()
        self._code = process.wait()
        self._ended.set()
