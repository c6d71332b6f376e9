"""Imports what the client's programs need once, and forks a server for each job from that.

Runs as a script in the user's Python environment, as the job's user, on an inherited listening
socket, for pods that run as one other user: `user_fork_server.py SOCKET USER OWNER IDLE_SECONDS
MODULE...`; nothing of ours is imported. It has one thread and makes no gRPC object, since neither
survives a fork.

This process is the *zygote*. It runs no code of the user's but what these modules are, so what
one job imports is not there for the next. A packet, `{"variables": {...}, "search_path": [...]}`
with the descriptors of a listening socket and a log, asks it for a job's server, which serves that
socket, has these variables beside its own, and looks for modules in these directories first; of
them the zygote has the first. The zygote ends when nobody has asked for a while, when its owner
ends, or when a file that it has imported is not what it was.

A job's server forks the job's programs. One packet asks for a program, `{"module": ...,
"arguments": [...], "directory": ...}`, and carries the descriptor of its log. The answers are
`{"pid": ...}` and, when it has ended, `{"code": ...}`, as `subprocess` counts exit codes.
`{"signal": ...}` goes to the program and its children. When the connection is closed they are
killed, and when the last connection is, the server ends.
"""

import sys

if __name__ == "__main__":
    del sys.path[0]  # this folder, whose modules are not the user's

import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

PACKET_BYTES = 1 << 16
CREDENTIALS = struct.Struct("3i")
"""What the kernel says of a connection's other end: process, user and group."""
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Program:
    """What a forked process is to run.

    Attributes:
        module: Run as `python -m` would.
        arguments: Its command line.
    """

    module: str
    arguments: list[str]


class Zygote:
    """Forks a server for each job.

    Args:
        listener: Where pods ask for one.
        user: As whom they run; nobody else is served.
        owner: Process with which this one ends.
        idle_seconds: How long it waits for the next job.
    """

    def __init__(
        self, listener: socket.socket, user: int, *, owner: int, idle_seconds: float
    ) -> None:
        self._listener, self._user = listener, user
        self._owner, self._idle_seconds = os.pidfd_open(owner), idle_seconds
        self._stamps = _stamps()

    def serve(self) -> "JobServer | None":
        """Serve until nobody needs this any more; returns, in a forked process, a job's server."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever asks sees how it ends
        poller = selectors.DefaultSelector()
        poller.register(self._listener, selectors.EVENT_READ)
        poller.register(self._owner, selectors.EVENT_READ)
        with poller:
            while ready := poller.select(self._idle_seconds):
                if any(key.fileobj == self._owner for key, _ in ready):
                    return None
                connection, _ = self._listener.accept()
                with connection:
                    order = _receive_order(connection, self._user, num_descriptors=2)
                    if order is None:
                        continue
                    if _stamps(self._stamps) != self._stamps:
                        return None  # the job starts a zygote of what is there now
                    if os.fork() == 0:
                        return self._job_server(connection.detach(), *order)
                    for descriptor in order[1]:
                        os.close(descriptor)
        return None

    def _job_server(
        self, starter: int, request: dict[str, Any], descriptors: list[int]
    ) -> "JobServer":
        """Make a forked process a job's server."""
        self._listener.close()
        os.close(self._owner)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        listener, log = descriptors
        for number in (1, 2):
            os.dup2(log, number)
        os.close(log)
        sys.path[:1] = request["search_path"]
        os.environ["PYTHONPATH"] = ":".join(request["search_path"])
        show_variables(request["variables"])
        return JobServer(socket.socket(fileno=listener), self._user, socket.socket(fileno=starter))


class JobServer:
    """Forks programs, and tells who asked for them how they end.

    Args:
        listener: Where pods connect.
        user: As whom they run; nobody else is served.
        starter: Connection of the pod that asked for this server, which lives at least as long.
    """

    def __init__(self, listener: socket.socket, user: int, starter: socket.socket) -> None:
        self._listener, self._user = listener, user
        self._starters = {starter}
        self._selector = selectors.DefaultSelector()
        self._children: dict[socket.socket, int] = {}
        self._running: dict[int, socket.socket] = {}
        self._wakeup = socket.socketpair()

    def serve(self) -> Program | None:
        """Serve until nobody needs a program; returns, in a forked process, what it is to run."""
        for end in self._wakeup:
            end.setblocking(False)
        signal.set_wakeup_fd(self._wakeup[1].fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for readable in (self._listener, self._wakeup[0], *self._starters):
            self._selector.register(readable, selectors.EVENT_READ)
        while self._starters or self._children:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    program = self._accept()
                    if program is not None:
                        return program
                elif isinstance(key.fileobj, socket.socket):
                    self._notice(key.fileobj)
        return None

    def _notice(self, connection: socket.socket) -> None:
        """Look what has happened to a program, to who asked for one, or to the starter."""
        if connection is self._wakeup[0]:
            connection.recv(4096)
            self._reap()
        elif connection in self._starters:
            self._starters.remove(connection)
            self._close(connection)
        else:
            self._receive(connection)

    def _accept(self) -> Program | None:
        """Fork a program; returns what it is in the forked process, None in this one."""
        connection, _ = self._listener.accept()
        order = _receive_order(connection, self._user, num_descriptors=1)
        if order is None:
            connection.close()
            return None
        request, descriptors = order
        server_pid = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._leave(connection)
            _become_program(server_pid, descriptors[0], request["directory"])
            return Program(request["module"], request["arguments"])
        os.close(descriptors[0])
        self._children[connection], self._running[pid] = pid, connection
        self._selector.register(connection, selectors.EVENT_READ)
        _answer(connection, {"pid": pid})
        return None

    def _leave(self, connection: socket.socket) -> None:
        """Close in a forked process what is the server's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        ours = (self._listener, connection, *self._wakeup, *self._children, *self._starters)
        for other in ours:
            other.close()

    def _receive(self, connection: socket.socket) -> None:
        try:
            packet = connection.recv(PACKET_BYTES)
        except ConnectionError:
            packet = b""
        if packet:
            self._signal(connection, json.loads(packet)["signal"])
            return
        self._signal(connection, signal.SIGKILL)
        del self._children[connection]
        self._close(connection)

    def _close(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        connection.close()

    def _signal(self, connection: socket.socket, number: int) -> None:
        pid = self._children[connection]
        if pid not in self._running and os.path.exists(f"/proc/{pid}"):
            return  # nothing is left of the program: its process id is another's now
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            if pid in self._running:  # too young to lead a group
                os.kill(pid, number)

    def _reap(self) -> None:
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            connection = self._running.pop(pid, None)
            if connection in self._children:
                _answer(connection, {"code": os.waitstatus_to_exitcode(status)})


def user_of(connection: socket.socket) -> int:
    """Return as whom the process at the other end of a Unix socket runs."""
    size = CREDENTIALS.size
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _, user, _ = CREDENTIALS.unpack(packed)
    assert isinstance(user, int)
    return user


def _receive_order(
    connection: socket.socket, user: int, *, num_descriptors: int
) -> tuple[dict[str, Any], list[int]] | None:
    """Return what a new connection asks for; None if it is not the user's or nobody waits for it.

    Whoever asked while this process imported may have ended since, and its job with it.
    """
    if user_of(connection) != user:
        return None
    packet, descriptors, _, _ = socket.recv_fds(connection, PACKET_BYTES, num_descriptors)
    if not packet or len(descriptors) != num_descriptors or _has_hung_up(connection):
        for descriptor in descriptors:
            os.close(descriptor)
        return None
    return json.loads(packet), descriptors


def _has_hung_up(connection: socket.socket) -> bool:
    """Return whether the other end has closed; nothing more may have come from it."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def _stamps(paths: Iterable[str] | None = None) -> dict[str, object]:
    """Return what tells whether the files of modules, and the folders they were found in, change.

    Args:
        paths: Which; those of all modules that are imported by default.
    """
    if paths is None:
        modules = [module for name, module in sys.modules.items() if name != "__main__"]
        files = {getattr(module, "__file__", None) for module in modules}
        found = {file for file in files if isinstance(file, str)}
        folders = (folder for folder in sys.path if folder)
        # A package that is new there may be one that a module here did without.
        paths = found.union(
            folder
            for folder in folders
            if any(file.startswith(os.path.join(folder, "")) for file in found)
        )
    return {path: _stamp(path) for path in paths}


def _stamp(path: str) -> object:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def show_variables(variables: dict[str, str]) -> None:
    """Set environment variables, and show them alone where others look for a process's variables.

    The kernel shows the memory between two addresses that /proc names (fields 50 and 51 of stat,
    see proc(5)), where the variables lay when the program began. Those that are set later lie
    elsewhere, so all are set anew before that memory is written.
    """
    os.environ.update(variables)
    for name, value in os.environ.items():
        os.putenv(name, value)
    with open("/proc/self/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    start, end = int(fields[47]), int(fields[48])
    text = "".join(f"{name}={value}\0" for name, value in variables.items()).encode()
    if len(text) > end - start:
        raise RuntimeError(f"{len(text)} bytes of variables do not fit {end - start} bytes.")
    ctypes.memmove(start, text.ljust(end - start, b"\0"), end - start)


def _answer(connection: socket.socket, answer: dict[str, int]) -> None:
    with contextlib.suppress(OSError):  # it has hung up, and is noticed by that
        connection.send(json.dumps(answer).encode())


def _become_program(server_pid: int, log: int, directory: str) -> None:
    """Make a forked process what a program that was started by itself would be."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server_pid:  # it died before the signal was set
        os._exit(1)
    os.setsid()
    for number in (1, 2):
        os.dup2(log, number)
    os.close(log)
    os.chdir(directory)
    sys.path.insert(0, directory)
    if "numpy" in sys.modules:  # a program by itself draws other numbers than another
        importlib.import_module("numpy.random").seed()


def main() -> Program | None:
    """Serve; returns, in a forked process, what it is to run."""
    folder, _, script = sys.argv[0].rpartition("/")
    if folder == "/proc/self/fd":
        os.close(int(script))
    number, user, owner = map(int, sys.argv[1:4])
    listener = socket.socket(fileno=number)
    listener.set_inheritable(False)
    # Looking for garbage in what stays would take a fifth of the time, and copy the pages that the
    # programs share.
    gc.disable()
    for module in sys.argv[5:]:
        # What ails an import is said by the program that needs it.
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    gc.freeze()
    gc.enable()
    zygote = Zygote(listener, user, owner=owner, idle_seconds=float(sys.argv[4]))
    _leave_pod()
    server = zygote.serve()
    return None if server is None else server.serve()


def _leave_pod() -> None:
    """Go on in a process that is neither the pod's nor writes its log; the pod sees this one end.

    Until now the pod is told of an import that kills the process, and the process ends with it.
    """
    if os.fork():
        os._exit(0)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.close(nothing)


if __name__ == "__main__":
    program = main()
    if program is not None:
        sys.argv = ["", *program.arguments]
        importlib.invalidate_caches()
        runpy.run_module(program.module, run_name="__main__", alter_sys=True)
