"""Imports what the client's programs need once, and forks each of them.

Runs as a script in the user's Python environment, as the job's user, on an inherited listening
socket, for pods that run as one other user: `user_fork_server.py SOCKET USER MODULE...`; nothing of
ours is imported. One packet asks for a program, `{"module": ..., "arguments": [...], "directory":
...}`, and carries the descriptor of its log. The answers are `{"pid": ...}` and, when it has ended,
`{"code": ...}`, as `subprocess` counts exit codes. `{"signal": ...}` goes to the program and its
children. When the connection is closed they are killed, and when the last connection is, the server
ends. It has one thread and makes no gRPC object, since neither survives a fork.
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


class Server:
    """Forks programs, and tells who asked for them how they end.

    Args:
        listener: Where pods connect.
        user: As whom they run; nobody else is served.
    """

    def __init__(self, listener: socket.socket, user: int) -> None:
        self._listener, self._user = listener, user
        self._selector = selectors.DefaultSelector()
        self._children: dict[socket.socket, int] = {}
        self._running: dict[int, socket.socket] = {}
        self._has_forked = False
        self._wakeup = socket.socketpair()

    def serve(self) -> Program | None:
        """Serve until nobody needs a program; returns, in a forked process, what it is to run."""
        for end in self._wakeup:
            end.setblocking(False)
        signal.set_wakeup_fd(self._wakeup[1].fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wakeup[0], selectors.EVENT_READ)
        while not self._has_forked or self._children:
            for key, _ in self._selector.select():
                if key.fileobj is self._wakeup[0]:
                    self._wakeup[0].recv(4096)
                    self._reap()
                elif key.fileobj is self._listener:
                    program = self._accept()
                    if program is not None:
                        return program
                elif isinstance(key.fileobj, socket.socket):
                    self._receive(key.fileobj)
        return None

    def _accept(self) -> Program | None:
        """Fork a program; returns what it is in the forked process, None in this one."""
        connection, _ = self._listener.accept()
        packet: bytes = b""
        descriptors: list[int] = []
        if user_of(connection) == self._user:
            packet, descriptors, _, _ = socket.recv_fds(connection, PACKET_BYTES, 1)
        if not packet or not descriptors:
            connection.close()
            return None
        request: dict[str, Any] = json.loads(packet)
        server_pid = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._leave(connection)
            _become_program(server_pid, descriptors[0], request["directory"])
            return Program(request["module"], request["arguments"])
        os.close(descriptors[0])
        self._has_forked = True
        self._children[connection], self._running[pid] = pid, connection
        self._selector.register(connection, selectors.EVENT_READ)
        _answer(connection, {"pid": pid})
        return None

    def _leave(self, connection: socket.socket) -> None:
        """Close in a forked process what is the server's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for other in (self._listener, connection, *self._wakeup, *self._children):
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
        self._selector.unregister(connection)
        del self._children[connection]
        connection.close()

    def _signal(self, connection: socket.socket, number: int) -> None:
        pid = self._children[connection]
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
    listener = socket.socket(fileno=int(sys.argv[1]))
    listener.set_inheritable(False)
    # Looking for garbage in what stays would take a fifth of the time, and copy the pages that the
    # programs share.
    gc.disable()
    for module in sys.argv[3:]:
        # What ails an import is said by the program that needs it.
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    gc.freeze()
    gc.enable()
    return Server(listener, int(sys.argv[2])).serve()


if __name__ == "__main__":
    program = main()
    if program is not None:
        sys.argv = ["", *program.arguments]
        runpy.run_module(program.module, run_name="__main__", alter_sys=True)
