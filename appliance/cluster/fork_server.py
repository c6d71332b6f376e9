"""The warm fork server: imports everything once, then forks a pod in milliseconds.

A process of its own, started by management with one end of a socket pair; requests and reports are
lines of JSON. It has one thread and creates no gRPC object, since neither survives a fork. When its
socket closes (management ended, in whatever way), it ends every pod and itself; when it dies, the
kernel ends the pods.
"""

import argparse
import gc
import importlib
import json
import logging
import os
import selectors
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appliance.cluster import process_tree
from appliance.cluster.pod_process import ENTRY_MODULES, become_subreaper, run_forked
from appliance.core.clock import Clock, SystemClock
from appliance.core.ids import Role
from appliance.core.pods import PodSpec

logger = logging.getLogger(__name__)

TERMINATE_GRACE_SECONDS = 1.0
"""Between SIGTERM and SIGKILL: enough to write a last log line."""

_STOPPING_POLL_SECONDS = 0.05


@dataclass(slots=True, kw_only=True)
class _Job:
    """A job with pods, or whose pods have ended and which was not stopped yet."""

    runtime_dir: Path
    sessions: set[int] = field(default_factory=set)
    kill_at: float | None = None


class ForkServer:
    """Forks, reaps and stops pods.

    Args:
        connection: Socket to management.
        entry_modules: Module with `run_pod` for each role.
        clock: Times the step from SIGTERM to SIGKILL.
    """

    def __init__(
        self, connection: socket.socket, entry_modules: Mapping[Role, str], clock: Clock
    ) -> None:
        self._connection = connection
        self._entry_modules = entry_modules
        self._clock = clock
        self._jobs: dict[str, _Job] = {}
        self._pods: dict[int, PodSpec] = {}
        self._unread = b""

    def serve(self) -> None:
        """Serve until management goes away, then end everything."""
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        selector = selectors.DefaultSelector()
        selector.register(self._connection, selectors.EVENT_READ)
        selector.register(reader, selectors.EVENT_READ)
        is_connected = True
        while is_connected or self._jobs:
            is_stopping = any(job.kill_at is not None for job in self._jobs.values())
            for key, _ in selector.select(_STOPPING_POLL_SECONDS if is_stopping else None):
                if key.fileobj is reader:
                    reader.recv(4096)
                elif not self._receive():
                    is_connected = False
                    selector.unregister(self._connection)
                    self._stop_all()
            self._reap()
            self._finish_stopping()

    def _receive(self) -> bool:
        data = self._connection.recv(1 << 16)
        if not data:
            return False
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._handle(json.loads(line))
        return True

    def _handle(self, request: dict[str, Any]) -> None:
        operation = request["op"]
        if operation == "launch":
            pods = [PodSpec.from_json(text) for text in request["pods"]]
            self._reply(request, self._launch(pods))
        elif operation == "stop":
            self._begin_stop(request["job"], Path(request["runtime_dir"]))
        else:
            self._reply(request, {"ok": operation == "ping"})

    def _launch(self, pods: Sequence[PodSpec]) -> dict[str, Any]:
        job = self._jobs.setdefault(pods[0].job, _Job(runtime_dir=pods[0].runtime_dir))
        pids: dict[str, int] = {}
        for spec in pods:
            try:
                pid = self._fork(spec)
            except OSError as error:
                for started in pids.values():
                    self._pods.pop(started)
                    os.kill(started, signal.SIGKILL)
                return {"ok": False, "error": f"pod {spec.name} could not be started: {error}"}
            pids[spec.name] = pid
            job.sessions.add(pid)
            self._pods[pid] = spec
        return {"ok": True, "pids": pids}

    def _fork(self, spec: PodSpec) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            run_forked(spec, self._entry_modules[spec.role], parent)
        return pid

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if (spec := self._pods.pop(pid, None)) is not None:
                self._report_exit(spec, os.waitstatus_to_exitcode(status))

    def _report_exit(self, spec: PodSpec, code: int) -> None:
        by_signal = -code if code < 0 else None
        self._send(
            {
                "event": "exit",
                "job": spec.job,
                "pod": spec.name,
                "role": spec.role.value,
                "exit_code": 128 + by_signal if by_signal else code,
                "signal": by_signal,
            }
        )

    def _begin_stop(self, name: str, runtime_dir: Path) -> None:
        job = self._jobs.setdefault(name, _Job(runtime_dir=runtime_dir))
        if job.kill_at is None:
            job.kill_at = self._clock.monotonic_seconds() + TERMINATE_GRACE_SECONDS
            process_tree.send(process_tree.find_processes(name, job.sessions), signal.SIGTERM)

    def _stop_all(self) -> None:
        for name, job in self._jobs.items():
            self._begin_stop(name, job.runtime_dir)

    def _finish_stopping(self) -> None:
        for name, job in list(self._jobs.items()):
            if job.kill_at is None:
                continue
            remaining = process_tree.find_processes(name, job.sessions)
            if not remaining and not self._has_pods(name):
                self._clean(name, job)
            elif self._clock.monotonic_seconds() >= job.kill_at:
                process_tree.send(remaining, signal.SIGKILL)

    def _has_pods(self, name: str) -> bool:
        return any(spec.job == name for spec in self._pods.values())

    def _clean(self, name: str, job: _Job) -> None:
        self._reap()  # what died since the last look: after this message nothing of the job is left
        del self._jobs[name]
        process_tree.remove_traces(name, job.runtime_dir)
        self._send({"event": "stopped", "job": name})

    def _reply(self, request: dict[str, Any], answer: dict[str, Any]) -> None:
        self._send({"event": "reply", "id": request["id"], **answer})

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            logger.debug("Management is gone; report dropped", extra={"report": message})


def _preload(modules: Sequence[str]) -> None:
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception:  # whatever ails a role is said by its own pods
            logger.warning("Module is not preloaded", extra={"preload": module}, exc_info=True)


def main() -> int:
    """Run a fork server on an inherited socket."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", type=int, required=True, help="inherited file descriptor")
    parser.add_argument("--preload", action="append", default=[], help="module to import first")
    parser.add_argument("--entry", action="append", default=[], help="role=module, for tests")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    become_subreaper()
    entries = dict(ENTRY_MODULES)
    for entry in arguments.entry:
        role, module = entry.split("=", 1)
        entries[Role(role)] = module
    _preload([*arguments.preload, *dict.fromkeys(entries.values())])
    gc.collect()
    gc.freeze()  # what was imported is never collected, so that the pods go on sharing its pages
    connection = socket.socket(fileno=arguments.socket)
    connection.set_inheritable(False)
    ForkServer(connection, entries, SystemClock()).serve()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
