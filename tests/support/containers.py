"""Runs containers of pods for a played kubelet, forked from a process that has their imports.

A container that starts its own interpreter imports PyTorch and gRPC for five seconds of a core. The
process forked here has them, and then does what `python -m appliance.cluster.pod_container` does,
with the arguments, the environment and the directory of the container.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from appliance.cluster.pod_process import ENTRY_MODULES, SDK_MODULE
from appliance.numerics.waiting_threads import let_waiting_threads_sleep

ROOT = Path(__file__).parents[2]
PROGRAM = "appliance.cluster.pod_container"
_PRELOADED = ("torch", "numpy", "grpc")


class Containers:
    """All containers of one kubelet."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
            start_new_session=True,
        )
        self._changed = threading.Condition()
        self._pids: list[int] = []
        self._codes: dict[int, int] = {}
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def start(
        self, arguments: Sequence[str], *, environment: Mapping[str, str], cwd: str, output: Path
    ) -> "Container":
        """Start a container with the arguments of `PROGRAM`; `output` takes what it prints."""
        order = {"arguments": [*arguments], "environment": {**environment}}
        order |= {"cwd": cwd, "output": str(output)}
        with self._changed:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            assert self._changed.wait_for(lambda: self._pids, 120), "no container was started"
            return Container(self, self._pids.pop())

    def code(self, pid: int, seconds: float) -> int | None:
        """Return a container's exit code as `subprocess` has it; None if it still runs then."""
        with self._changed:
            self._changed.wait_for(lambda: pid in self._codes, seconds)
            return self._codes.get(pid)

    def close(self) -> None:
        """End the process that containers are forked from; they have ended."""
        self._process.stdin.close()
        self._process.wait(60)
        self._thread.join(60)
        self._process.stdout.close()

    def _read(self) -> None:
        for line in self._process.stdout:
            told = json.loads(line)
            with self._changed:
                if "code" in told:
                    self._codes[told["pid"]] = told["code"]
                else:
                    self._pids.append(told["pid"])
                self._changed.notify_all()


class Container:
    """One container's first process.

    Args:
        containers: Those of its kubelet.
        pid: Its process id.
    """

    def __init__(self, containers: Containers, pid: int) -> None:
        self._containers, self.pid = containers, pid

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        return self._containers.code(self.pid, 0.0)

    def end(self, grace_seconds: float) -> None:
        """Ask it to end, kill it after a while, and wait until it is gone."""
        self._signal(signal.SIGTERM)
        if self._containers.code(self.pid, grace_seconds) is None:
            self.kill()

    def kill(self) -> None:
        """Kill it and wait until it is gone."""
        self._signal(signal.SIGKILL)
        assert self._containers.code(self.pid, 60) is not None, f"process {self.pid} does not end"

    def _signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def _become(order: Mapping[str, Any]) -> NoReturn:
    code = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        for source, target in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        os.closerange(3, 256)
        os.environ.clear()
        os.environ.update(order["environment"])
        os.chdir(order["cwd"])
        code = import_module(PROGRAM).main(order["arguments"])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Fork a container for each line of standard input, and say when one starts or ends."""
    let_waiting_threads_sleep()
    for module in (*_PRELOADED, PROGRAM, *dict.fromkeys(ENTRY_MODULES.values()), SDK_MODULE):
        import_module(module)
    wake, wakened = os.pipe()
    for end in (wake, wakened):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wakened, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: set[int] = set()
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
                running |= {_fork(json.loads(line)) for line in lines}
            _reap(running)


def _fork(order: Mapping[str, Any]) -> int:
    if (pid := os.fork()) == 0:
        _become(order)
    _say(pid=pid)
    return pid


def _reap(running: set[int]) -> None:
    for pid in [*running]:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            running.discard(pid)
            _say(pid=pid, code=os.waitstatus_to_exitcode(status))


def _say(**told: int) -> None:
    os.write(1, json.dumps(told).encode() + b"\n")


if __name__ == "__main__":
    main()
