"""An interpreter that imports once and forks a program for each order: see `forked.py`.

It is run by the interpreter of the programs, which may have nothing but the standard library:

    python tests/support/forking_interpreter.py SOCKET OWNER MODULE...

with the descriptor of a listening socket and the process with which it ends. An order is a packet
that carries descriptors; the answers say which program was started and, later, how it ended.
"""

import atexit
import contextlib
import fcntl
import gc
import itertools
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

_PACKET_BYTES = 1 << 18
_MAX_DESCRIPTORS = 8
_ABOVE_ALL, _LAST = 512, 1024
"""Descriptors: what a program inherits is kept above what it may ask for until it has it."""


def become(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: str,
    output: int,
    errors: int,
    descriptors: Collection[int] = (),
) -> NoReturn:
    """Make a process that was just forked what a program is that was started by itself.

    Args:
        arguments: `-m` and a module, or a script; then the program's own.
        environment: All its variables.
        cwd: Its directory.
        output: Descriptor of its standard output.
        errors: Descriptor of its standard error.
        descriptors: What it has inherited, its standard input if 0 is there; all else is closed.
    """
    code = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if 0 not in descriptors:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        for number in set(range(3, _LAST)).difference(descriptors):
            os.closerange(number, number + 1)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(cwd)
        code = _run(arguments)
    except BaseException:  # noqa: BLE001 - the outermost frame of a program, as the interpreter's own is
        sys.excepthook(*sys.exc_info())
    finally:
        _end(code)


def _run(arguments: Sequence[str]) -> int:
    """Run a module or a script as the interpreter does, and return its exit code."""
    try:
        if arguments[0] == "-m":
            sys.path.insert(0, os.getcwd())
            sys.argv = [*arguments[1:]]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, str(Path(arguments[0]).parent))
            sys.argv = [*arguments]
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        return -signal.SIGINT
    return 0


def _end(code: int) -> NoReturn:
    """End as an interpreter does: threads are waited for, then what is registered runs."""
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        if code < 0:  # interrupted: by the signal, as who waits for it expects
            signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(code)


class Interpreter:
    """Forks programs, and tells who asked for them how they end.

    Args:
        listener: Where they connect.
        owner: The process with which this one ends.
    """

    def __init__(self, listener: socket.socket, owner: int) -> None:
        self._listener, self._owner = listener, os.pidfd_open(owner)
        self._wake, self._wakened = os.pipe()
        self._selector = selectors.DefaultSelector()
        for readable in (listener, self._owner, self._wake):
            self._selector.register(readable, selectors.EVENT_READ)
        self._running: dict[int, tuple[int, socket.socket]] = {}
        self._numbers = itertools.count()

    def serve(self) -> None:
        """Serve until the owner has ended."""
        for end in (self._wake, self._wakened):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wakened, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            for ready in [key.fileobj for key, _ in self._selector.select()]:
                if ready == self._owner:
                    return
                if ready == self._wake:
                    os.read(self._wake, 1 << 10)
                    self._reap()
                elif ready is self._listener:
                    connection, _ = self._listener.accept()
                    self._selector.register(connection, selectors.EVENT_READ)
                else:
                    self._receive(ready)

    def _receive(self, connection: socket.socket) -> None:
        try:
            packet, descriptors, _, _ = socket.recv_fds(connection, _PACKET_BYTES, _MAX_DESCRIPTORS)
        except ConnectionError:
            packet, descriptors = b"", []
        if packet:
            self._fork(connection, json.loads(packet), descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
        else:
            self._selector.unregister(connection)
            connection.close()

    def _fork(
        self, connection: socket.socket, order: Mapping[str, Any], descriptors: Sequence[int]
    ) -> None:
        if (pid := os.fork()) == 0:
            try:
                _obey(order, descriptors)
            finally:
                os._exit(1)
        number = next(self._numbers)
        self._running[pid] = number, connection
        _say(connection, number=number, pid=pid)

    def _reap(self) -> None:
        """Say how those programs ended that have."""
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            if pid in self._running:
                number, connection = self._running.pop(pid)
                _say(connection, number=number, code=os.waitstatus_to_exitcode(status))


def _obey(order: Mapping[str, Any], descriptors: Sequence[int]) -> NoReturn:
    kept = [fcntl.fcntl(each, fcntl.F_DUPFD, _ABOVE_ALL) for each in descriptors]
    for source, target in zip(kept[2:], order["descriptors"], strict=True):
        os.dup2(source, target)
    os.umask(order["umask"])
    become(
        order["arguments"],
        environment=order["environment"],
        cwd=order["cwd"],
        output=kept[0],
        errors=kept[1],
        descriptors=order["descriptors"],
    )


def _say(connection: socket.socket, **told: int) -> None:
    with contextlib.suppress(OSError):  # who asked has ended
        connection.send(json.dumps(told).encode())


def _count(seconds: float) -> None:
    """Note what the imports took where a test run adds such times up (`start_costs.py`)."""
    if path := os.environ.get("WSC_TEST_STARTS"):
        with open(path, "a") as file:
            file.write(f"interpreters with imports\t{seconds:.3f}\n")


def main() -> None:
    """Import, go on in the background meanwhile, and serve."""
    del sys.path[0]  # where this file is, whose siblings have names of others' modules
    if os.fork():
        os._exit(0)
    os.setsid()
    listener = socket.socket(fileno=int(sys.argv[1]))
    owner = int(sys.argv[2])
    gc.disable()
    begun = time.monotonic()
    for module in sys.argv[3:]:
        import_module(module)
    _count(time.monotonic() - begun)
    gc.freeze()  # else each program looked at all of it for garbage, and copied its pages
    gc.enable()
    Interpreter(listener, owner).serve()


if __name__ == "__main__":
    main()
