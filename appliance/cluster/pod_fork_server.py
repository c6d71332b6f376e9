"""The warm fork server: imports everything once, then forks a pod in milliseconds.

Management starts it as a process of its own with a listening Unix socket; requests and reports are
lines of JSON. It has one thread and creates no gRPC object, since neither survives a fork.

It outlives management: when its connection breaks, the pods go on, and whoever connects next is
told first what runs and what has ended meanwhile (`hello`). The end of a pod is remembered until
management says that it is recorded (`forget`). If nobody connects for a while, or management says
`close`, it ends every pod and itself; when it dies, the kernel ends the pods.
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

import psutil

from appliance.cluster import process_tree
from appliance.cluster.pod_process import (
    ENTRY_MODULES,
    SDK_MODULE,
    become_subreaper,
    entry_module,
    run_forked,
)
from appliance.core.clock import Clock, SystemClock
from appliance.core.ids import Role
from appliance.core.pods.end_cause import EndCause
from appliance.core.pods.pod_spec import PodSpec
from appliance.core.uncollected_imports import uncollected_imports
from appliance.numerics.waiting_threads import let_waiting_threads_sleep
from appliance.pods.children import ended_children
from appliance.pods.oom_kills import OomKills

logger = logging.getLogger(__name__)

TERMINATE_GRACE_SECONDS = 1.0
"""Between SIGTERM and SIGKILL: enough to write a last log line."""

_STOPPING_POLL_SECONDS = 0.05


@dataclass(slots=True, kw_only=True)
class _Job:
    """A job with pods, or whose pods have ended and which was not forgotten yet."""

    runtime_dir: Path
    sessions: set[int] = field(default_factory=set)
    pids: dict[str, int] = field(default_factory=dict)
    exits: list[dict[str, Any]] = field(default_factory=list)
    kill_at: float | None = None
    is_stopped: bool = False


class ForkServer:
    """Forks, reaps and stops pods.

    Args:
        listener: Where management connects; the newest connection counts.
        entry_modules: Module with `run_pod` for each role.
        clock: Times the step from SIGTERM to SIGKILL, and how long pods go on alone.
        orphan_seconds: How long pods go on without management.
    """

    def __init__(
        self,
        listener: socket.socket,
        entry_modules: Mapping[Role, str],
        clock: Clock,
        *,
        orphan_seconds: float,
    ) -> None:
        self._listener = listener
        self._connection: socket.socket | None = None
        self._entry_modules = entry_modules
        self._clock = clock
        self._orphan_seconds = orphan_seconds
        self._orphaned_at: float | None = clock.monotonic_seconds()
        self._is_ending = False
        self._jobs: dict[str, _Job] = {}
        self._oom_kills = OomKills()
        self._pods: dict[int, PodSpec] = {}
        self._unread = b""

    def serve(self) -> None:
        """Serve until told to end, or nobody has connected for too long; then end everything."""
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(reader, selectors.EVENT_READ)
        while not self._is_ending or self._unstopped():
            for key, _ in self._selector.select(self._select_seconds()):
                if key.fileobj is reader:
                    reader.recv(4096)
                elif key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._connection and not self._receive():
                    self._disconnect()
            self._reap()
            self._finish_stopping()
            if self._is_orphaned_too_long():
                logger.warning("No management has connected for too long; every pod is ended")
                self._end()

    def _select_seconds(self) -> float | None:
        if any(job.kill_at is not None and not job.is_stopped for job in self._jobs.values()):
            return _STOPPING_POLL_SECONDS
        if self._orphaned_at is None or self._is_ending:
            return None
        elapsed = self._clock.monotonic_seconds() - self._orphaned_at
        return max(self._orphan_seconds - elapsed, _STOPPING_POLL_SECONDS)

    def _is_orphaned_too_long(self) -> bool:
        if self._orphaned_at is None or self._is_ending:
            return False
        return self._clock.monotonic_seconds() - self._orphaned_at >= self._orphan_seconds

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.set_inheritable(False)
        if self._connection is not None:
            self._disconnect()
        self._reap()  # before there is anybody to tell: `hello` comes first
        self._connection, self._orphaned_at, self._unread = connection, None, b""
        self._selector.register(connection, selectors.EVENT_READ)
        jobs = {
            name: {"pids": job.pids, "exits": job.exits, "is_stopped": job.is_stopped}
            for name, job in self._jobs.items()
        }
        self._send({"event": "hello", "pid": os.getpid(), "jobs": jobs})

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._selector.unregister(self._connection)
            self._connection.close()
        self._connection, self._orphaned_at = None, self._clock.monotonic_seconds()

    def _end(self) -> None:
        self._is_ending = True
        self._stop_all()

    def _unstopped(self) -> bool:
        return any(not job.is_stopped for job in self._jobs.values())

    def _receive(self) -> bool:
        assert self._connection is not None
        try:
            data = self._connection.recv(1 << 16)
        except ConnectionError:
            return False
        if not data:
            return False
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._handle(json.loads(line))
        return True

    def _handle(self, request: dict[str, Any]) -> None:
        match request["op"]:
            case "launch":
                pods = [PodSpec.from_json(text) for text in request["pods"]]
                self._reply(request, self._launch(pods))
            case "stop":
                self._begin_stop(request["job"], Path(request["runtime_dir"]))
            case "forget":
                job = self._jobs.get(request["job"])
                if job is not None and job.is_stopped:
                    del self._jobs[request["job"]]
            case "close":
                self._end()
            case operation:
                self._reply(request, {"ok": operation == "ping"})

    def _launch(self, pods: Sequence[PodSpec]) -> dict[str, Any]:
        name = pods[0].job
        if (known := self._jobs.get(name)) is not None and known.pids:
            return {"ok": True, "pids": known.pids}  # asked twice, as management ended in between
        job = self._jobs.setdefault(name, _Job(runtime_dir=pods[0].runtime_dir))
        pids: dict[str, int] = {}
        for spec in pods:
            try:
                pid = self._fork(spec)
            except OSError as error:
                for started in pids.values():
                    self._pods.pop(started)
                    os.kill(started, signal.SIGKILL)
                del self._jobs[name]
                return {"ok": False, "error": f"pod {spec.name} could not be started: {error}"}
            pids[spec.name] = pid
            for other in self._jobs.values():
                other.sessions.discard(pid)  # of a pod that has ended
            job.sessions.add(pid)
            self._pods[pid] = spec
        job.pids = pids
        return {"ok": True, "pids": pids}

    def _fork(self, spec: PodSpec) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            run_forked(spec, entry_module(spec, self._entry_modules), parent)
        return pid

    def _reap(self) -> None:
        for pid, code in ended_children():
            if (spec := self._pods.pop(pid, None)) is not None:
                self._report_exit(spec, code)

    def _report_exit(self, spec: PodSpec, code: int) -> None:
        by_signal = -code if code < 0 else None
        report = {
            "event": "exit",
            "job": spec.job,
            "pod": spec.name,
            "role": spec.role.value,
            "exit_code": 128 + by_signal if by_signal else code,
            "signal": by_signal,
            "detail": (detail := self._oom_kills.explain(code)),
            "cause": (EndCause.OUT_OF_MEMORY if detail else EndCause.PROCESS).value,
        }
        if (job := self._jobs.get(spec.job)) is not None:
            job.exits.append(report)
        self._send(report)

    def _begin_stop(self, name: str, runtime_dir: Path) -> None:
        job = self._jobs.setdefault(name, _Job(runtime_dir=runtime_dir))
        if job.is_stopped:
            self._send({"event": "stopped", "job": name})
        elif job.kill_at is None:
            job.kill_at = self._clock.monotonic_seconds() + TERMINATE_GRACE_SECONDS
            process_tree.send(self._processes(name, job), signal.SIGTERM)

    def _stop_all(self) -> None:
        for name, job in self._jobs.items():
            if not job.is_stopped:
                self._begin_stop(name, job.runtime_dir)

    def _finish_stopping(self) -> None:
        for name, job in list(self._jobs.items()):
            if job.kill_at is None or job.is_stopped:
                continue
            is_time_over = self._clock.monotonic_seconds() >= job.kill_at
            if self._has_pods(name) and not is_time_over:
                continue  # looking through all processes is not cheap, and SIGCHLD tells of pods
            remaining = self._processes(name, job)
            if not remaining and not self._has_pods(name):
                self._clean(name, job)
            elif is_time_over:
                process_tree.send(remaining, signal.SIGKILL)

    def _processes(self, name: str, job: _Job) -> list[psutil.Process]:
        """Return the living processes of a job; a dead pod's process id may be a stranger's now."""
        sessions = [pid for pid in job.sessions if pid in self._pods or not psutil.pid_exists(pid)]
        return process_tree.find_processes(name, sessions)

    def _has_pods(self, name: str) -> bool:
        return any(spec.job == name for spec in self._pods.values())

    def _clean(self, name: str, job: _Job) -> None:
        self._reap()  # what died since the last look: after this message nothing of the job is left
        job.is_stopped = True
        process_tree.remove_traces(name, job.runtime_dir)
        self._send({"event": "stopped", "job": name})

    def _reply(self, request: dict[str, Any], answer: dict[str, Any]) -> None:
        self._send({"event": "reply", "id": request["id"], **answer})

    def _send(self, message: dict[str, Any]) -> None:
        if self._connection is None:
            return  # whoever comes next is told by `hello`
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self._disconnect()


def _preload(modules: Sequence[str]) -> None:
    let_waiting_threads_sleep()
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception:  # whatever ails a role is said by its own pods
            logger.warning("Module is not preloaded", extra={"preload": module}, exc_info=True)


def _end_rest() -> None:
    """End what stays between jobs: the zygotes of users' programs (`user_fork_server`)."""
    rest = psutil.Process().children(recursive=True)
    process_tree.send(rest, signal.SIGKILL)
    psutil.wait_procs(rest)


def main() -> int:
    """Run a fork server on an inherited socket."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", type=int, required=True, help="inherited listening socket")
    parser.add_argument("--orphan-seconds", type=float, required=True, help="life of pods alone")
    parser.add_argument("--preload", action="append", default=[], help="module to import first")
    parser.add_argument("--entry", action="append", default=[], help="role=module: its program")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    become_subreaper()
    entries = dict(ENTRY_MODULES)
    for entry in arguments.entry:
        role, module = entry.split("=", 1)
        entries[Role(role)] = module
    with uncollected_imports():
        _preload([*arguments.preload, *dict.fromkeys([*entries.values(), SDK_MODULE])])
        gc.collect()
    listener = socket.socket(fileno=arguments.socket)
    listener.set_inheritable(False)
    server = ForkServer(listener, entries, SystemClock(), orphan_seconds=arguments.orphan_seconds)
    server.serve()
    _end_rest()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
