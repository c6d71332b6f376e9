"""Python programs forked from an interpreter that has imported what they need.

Importing PyTorch, gRPC or the public client takes five seconds of a core, and the tests start
hundreds of programs that do. A program forked here has them, and is otherwise what `python` makes
of the same arguments in the same directory and environment: `__main__`, the path, the exit code.

The file is run by the interpreter of the programs, which may have nothing but the standard library:

    python tests/support/forked.py torch grpc
"""

import atexit
import contextlib
import gc
import itertools
import json
import os
import runpy
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

_START_SECONDS = 300
_END_SECONDS = 60
_OF_A_TEST = {"PYTEST_CURRENT_TEST"}


class ForkServer:
    """An interpreter with its imports.

    Args:
        python: The interpreter.
        preloaded: Modules that it imports.
        environment: Of the imports.
    """

    def __init__(
        self, python: Path, preloaded: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self._process = subprocess.Popen(
            [str(python), __file__, *preloaded],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._changed = threading.Condition()
        self._started: list[dict[str, int]] = []
        self._codes: dict[int, int] = {}
        self._has_ended = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

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
        output.touch()
        order = {"arguments": [*arguments], "environment": {**environment}}
        order |= {"cwd": str(cwd), "output": str(output), "errors": str(errors or output)}
        with self._changed:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            self._changed.wait_for(lambda: self._started or self._has_ended, _START_SECONDS)
            assert self._started, f"{arguments} was not started by {self._process.args}"
            return ForkedProcess(self, arguments, **self._started.pop())

    def code(self, number: int, seconds: float | None) -> int | None:
        """Return a program's exit code as `subprocess` has it; None if it still runs then."""
        with self._changed:
            self._changed.wait_for(lambda: number in self._codes, seconds)
            return self._codes.get(number)

    def close(self) -> None:
        """End the interpreter; its programs have ended, or end by themselves."""
        self._process.stdin.close()
        self._process.wait(_END_SECONDS)
        self._thread.join(_END_SECONDS)
        self._process.stdout.close()

    def _read(self) -> None:
        for line in self._process.stdout:
            told = json.loads(line)
            with self._changed:
                if "code" in told:
                    self._codes[told["number"]] = told["code"]
                else:
                    self._started.append(told)
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
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

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


def fork_server(
    python: Path, preloaded: tuple[str, ...], environment: Mapping[str, str]
) -> ForkServer:
    """Return the server of this process for these imports, which lives as long as this process.

    Args:
        python: The interpreter.
        preloaded: Modules that it imports.
        environment: Of the imports; what pytest changes from test to test is left out.
    """
    settled = {name: value for name, value in environment.items() if name not in _OF_A_TEST}
    return _fork_server(python, preloaded, tuple(sorted(settled.items())))


@cache
def _fork_server(
    python: Path, preloaded: tuple[str, ...], environment: tuple[tuple[str, str], ...]
) -> ForkServer:
    server = ForkServer(python, preloaded, dict(environment))
    atexit.register(server.close)
    return server


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
        descriptors: What it has inherited; all else is closed.
    """
    code = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (output, 1), (errors, 2)):
            os.dup2(source, target)
        for number in set(range(3, 256)).difference(descriptors):
            os.closerange(number, number + 1)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(cwd)
        code = _run(arguments)
    except BaseException:  # noqa: BLE001 - the outermost frame of a program, as the interpreter's own is
        sys.excepthook(*sys.exc_info())
    finally:
        _end(code)


def _obey(order: Mapping[str, Any]) -> NoReturn:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    output, errors = (os.open(order[name], flags, 0o644) for name in ("output", "errors"))
    become(
        order["arguments"],
        environment=order["environment"],
        cwd=order["cwd"],
        output=output,
        errors=errors,
    )


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


def _fork(order: Mapping[str, Any], number: int) -> int:
    if (pid := os.fork()) == 0:
        try:
            _obey(order)
        except OSError:  # a file cannot be opened
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)
    _say(number=number, pid=pid)
    return pid


def _reap(running: dict[int, int]) -> None:
    """Say how those of some programs, process ids by number, ended that have."""
    for number, pid in [*running.items()]:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            del running[number]
            _say(number=number, code=os.waitstatus_to_exitcode(status))


def _say(**told: int) -> None:
    os.write(1, json.dumps(told).encode() + b"\n")


def main() -> None:
    """Fork a program for each line of standard input; say when one starts and when it ends."""
    del sys.path[0]  # where this file is, whose siblings have names of others' modules
    gc.disable()
    for module in sys.argv[1:]:
        import_module(module)
    gc.freeze()  # else each program looked at all of it for garbage, and copied its pages
    gc.enable()
    wake, wakened = os.pipe()
    for end in (wake, wakened):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wakened, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, int] = {}
    numbers = itertools.count()
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(wake, selectors.EVENT_READ)
        pending = b""
        while True:
            ready = [key.fd for key, _ in selector.select()]
            if wake in ready:
                os.read(wake, 1 << 10)
            if 0 in ready:
                if not (data := os.read(0, 1 << 16)):
                    return
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    number = next(numbers)
                    running[number] = _fork(json.loads(line), number)
            _reap(running)


if __name__ == "__main__":
    main()
