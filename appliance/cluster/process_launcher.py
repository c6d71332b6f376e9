"""The embedded launcher: pods are processes on this machine, forked by a warm fork server."""

import contextlib
import itertools
import json
import logging
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

import psutil

from appliance.cluster import process_tree
from appliance.cluster.launcher import (
    Exits,
    JobStopped,
    LauncherLost,
    LauncherTaken,
    PodExit,
    Survivor,
)
from appliance.cluster.process_tree import remove_traces
from appliance.cluster.work_dirs import write_request
from appliance.core.errors import ClusterError
from appliance.core.ids import JobId, PodName, Role
from appliance.core.pods.end_cause import EndCause
from appliance.core.pods.pod_spec import PodSpec
from appliance.files.private import check_own, make_own, open_log

logger = logging.getLogger(__name__)

_LAUNCH_SECONDS = 120.0
"""How long forking one job's pods may take, import time included."""
_MAX_RUNTIME_PATH = 40
"""Bytes that the runtime root may have, so that the longest socket path stays below 100."""

_RESTART_PAUSE_SECONDS = 0.5

_SUPERSEDED_SECONDS = 2.0
"""A fork server that hangs up and still lives after so long talks to somebody else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPrograms:
    """What the pods of a machine run.

    Attributes:
        entry_modules: Module with `run_pod` of roles that have another program than their own.
        preload: Modules that the fork server imports before the first fork, beside the programs.
    """

    entry_modules: Mapping[Role, str] = field(default_factory=dict)
    preload: tuple[str, ...] = ("torch", "numpy", "grpc")

    def start_fork_server(
        self, arguments: Sequence[str], *, descriptor: int, log: IO[bytes]
    ) -> "Running":
        """Start the fork server in the background, in a session of its own.

        Args:
            descriptor: Socket that it inherits.
            log: Takes its standard output and error.
        """
        return subprocess.Popen(
            [sys.executable, "-m", "appliance.cluster.pod_fork_server", *arguments],
            pass_fds=[descriptor],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


class Running(Protocol):
    """A process, such as a `subprocess.Popen` or a `psutil.Process`."""

    def wait(self, timeout: float | None = None) -> int | None:
        """Return its exit code, if that can be known, once it has ended."""
        ...

    def kill(self) -> None:
        """Kill it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOptions:
    """How the embedded launcher works.

    Attributes:
        runtime_root: Directory below which each job gets one for its sockets; at most 40 bytes
            long, since a Unix socket's path holds 107.
        log_path: File that takes the fork server's own output.
        node: Name of this machine among the nodes.
        programs: What the pods run.
        orphan_seconds: How long pods go on without management before they are ended.
    """

    runtime_root: Path
    log_path: Path
    node: str
    programs: PodPrograms
    orphan_seconds: float

    def __post_init__(self) -> None:
        if len(str(self.runtime_root).encode()) > _MAX_RUNTIME_PATH:
            raise ClusterError(
                f"Runtime directory {self.runtime_root} has a path of more than "
                f"{_MAX_RUNTIME_PATH} bytes.",
                hint="Set XDG_RUNTIME_DIR or TMPDIR to a directory with a shorter path.",
            )


class ProcessLauncher:
    """Launches pods through a fork server: the one that an earlier management left, else a new one.

    Args:
        options: See `ProcessOptions`.
    """

    def __init__(self, options: ProcessOptions) -> None:
        self._options = options
        self._exits = Exits()
        self._numbers = itertools.count(1)
        self._replies: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        self._send_lock = threading.Lock()
        self._closing = threading.Event()
        self._sessions: dict[JobId, tuple[int, ...]] = {}
        self._server: Running
        self._survivors: Mapping[JobId, Survivor] = {}
        if not self._adopt_server():
            shutil.rmtree(options.runtime_root, ignore_errors=True)
            self._start_server()
        self._reader = threading.Thread(target=self._read, name="fork-server-reports", daemon=True)
        self._reader.start()

    def survivors(self) -> Mapping[JobId, Survivor]:
        """Return the jobs that an earlier management launched and that were not forgotten."""
        return self._survivors

    @property
    def exits(self) -> Exits:
        """What has ended, in order."""
        return self._exits

    @property
    def node(self) -> str:
        """Name of this machine among the nodes."""
        return self._options.node

    @property
    def is_far(self) -> bool:
        """The fork server is on this machine."""
        return False

    def runtime_dir(self, job: JobId) -> Path:
        """Return the directory for a job's sockets."""
        return self._options.runtime_root / job

    def launch(self, pods: Sequence[PodSpec], request: bytes = b"") -> Mapping[PodName, int]:
        """Start the pods of one job, all or none."""
        runtime_dir = pods[0].runtime_dir
        _make_passage(runtime_dir)
        write_request(pods[0].work_dir, request)
        for spec in pods:
            spec.log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        answer = self._ask({"op": "launch", "pods": [spec.to_json() for spec in pods]})
        if not answer["ok"]:
            remove_traces(pods[0].job, runtime_dir)
            raise ClusterError(f"Job {pods[0].job} was not launched: {answer['error']}.")
        pids = {PodName(name): int(pid) for name, pid in answer["pids"].items()}
        self._sessions[pods[0].job] = tuple(pids.values())
        return pids

    def stop(self, job: JobId) -> None:
        """End everything of a job; a `JobStopped` follows in `exits`."""
        with contextlib.suppress(OSError):  # the reader reports a lost fork server
            self._send({"op": "stop", "job": job, "runtime_dir": str(self.runtime_dir(job))})

    def forget(self, job: JobId) -> None:
        """Take note that the end of a stopped job is recorded."""
        with contextlib.suppress(OSError):  # a fork server that is lost has forgotten
            self._send({"op": "forget", "job": job})

    def wait_until_warm(self) -> None:
        """Wait until the fork server has imported everything.

        Raises:
            ClusterError: It ended, or took longer than the launch time-out.
        """
        self._ask({"op": "ping"})

    def close(self) -> None:
        """End every pod and the fork server."""
        self._closing.set()
        if not self._sessions:
            self._server.kill()  # it may still be importing, which can take long
        with contextlib.suppress(OSError):
            self._send({"op": "close"})
            self._connection.shutdown(socket.SHUT_WR)
        try:
            self._server.wait(timeout=15)
        except (subprocess.TimeoutExpired, psutil.TimeoutExpired):
            logger.warning("Fork server did not end in time and is killed")
            self._server.kill()
            self._server.wait()
        self._reader.join(timeout=5)
        self._connection.close()
        shutil.rmtree(self._options.runtime_root, ignore_errors=True)

    def abandon(self) -> None:
        """Leave every pod to the next management."""
        self._closing.set()
        self._connection.close()

    def _arguments(self, descriptor: int) -> list[str]:
        arguments = ["--socket", str(descriptor)]
        arguments += ["--orphan-seconds", f"{self._options.orphan_seconds:g}"]
        for module in self._options.programs.preload:
            arguments += ["--preload", module]
        for role, module in self._options.programs.entry_modules.items():
            arguments += ["--entry", f"{role.value}={module}"]
        return arguments

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        replies: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._replies[number] = replies
        try:
            self._send({**request, "id": number})
            return replies.get(timeout=_LAUNCH_SECONDS)
        except (OSError, queue.Empty) as error:
            raise ClusterError(
                f"The fork server did not answer within {_LAUNCH_SECONDS:g} seconds.",
                hint=f"Its log is {self._options.log_path}.",
            ) from error
        finally:
            del self._replies[number]

    def _send(self, message: dict[str, Any]) -> None:
        with self._send_lock:
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def _adopt_server(self) -> bool:
        """Connect to the fork server that an earlier management left; False if there is none."""
        connection = connect(self._options.runtime_root)
        if connection is None:
            return False
        connection.settimeout(_LAUNCH_SECONDS)
        hello = b""
        try:
            while not hello.endswith(b"\n"):
                part = connection.recv(1 << 16)
                if not part:
                    return False  # it was about to end
                hello += part
        except OSError:
            connection.close()
            return False
        connection.settimeout(None)
        message = json.loads(hello)
        try:
            self._server = psutil.Process(message["pid"])
        except psutil.NoSuchProcess:
            return False
        self._connection = connection
        self._survivors = {
            JobId(job): Survivor(
                pids={PodName(name): pid for name, pid in found["pids"].items()},
                exits=tuple(map(_pod_exit, found["exits"])),
                is_stopped=found["is_stopped"],
            )
            for job, found in message["jobs"].items()
        }
        for job, survivor in self._survivors.items():
            self._sessions[job] = tuple(survivor.pids.values())
        logger.info("Fork server is adopted", extra={"jobs": len(self._survivors)})
        return True

    def _start_server(self) -> None:
        _make_passage(self._options.runtime_root)
        path = _socket_path(self._options.runtime_root)
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        with listener, open_log(self._options.log_path) as log:
            listener.bind(str(path))
            listener.listen()
            self._connection = socket.socket(socket.AF_UNIX)
            self._connection.connect(str(path))
            descriptor = listener.fileno()
            self._server = self._options.programs.start_fork_server(
                self._arguments(descriptor), descriptor=descriptor, log=log
            )

    def _read(self) -> None:
        while True:
            with contextlib.suppress(OSError), self._connection.makefile("rb") as lines:
                for line in lines:
                    self._dispatch(json.loads(line))
            if self._closing.is_set():
                return
            if self._is_superseded():
                logger.critical("Another management has taken the fork server over")
                self._exits.put(LauncherTaken())
                return
            self._replace_server()

    def _is_superseded(self) -> bool:
        try:
            self._server.wait(timeout=_SUPERSEDED_SECONDS)
        except (subprocess.TimeoutExpired, psutil.TimeoutExpired):
            return True
        return False

    def _replace_server(self) -> None:
        code = self._server.wait()
        reason = "the fork server ended" + (f" with code {code}" if code is not None else "")
        logger.error("Fork server is lost; its pods are ended and a new one is started")
        for replies in list(self._replies.values()):
            replies.put({"ok": False, "error": reason})
        lost, self._sessions = self._sessions, {}
        for job, sessions in lost.items():
            process_tree.send(process_tree.find_processes(job, sessions), signal.SIGKILL)
            remove_traces(job, self.runtime_dir(job))
        self._closing.wait(_RESTART_PAUSE_SECONDS)  # one that cannot start must not spin
        with self._send_lock:
            self._connection.close()
            self._start_server()
        self._exits.put(LauncherLost(jobs=tuple(lost), reason=reason))

    def _dispatch(self, message: dict[str, Any]) -> None:
        if message["event"] == "hello":
            return
        if message["event"] == "reply":
            if (replies := self._replies.get(message["id"])) is not None:
                replies.put(message)
            return
        job = JobId(message["job"])
        if message["event"] == "stopped":
            self._sessions.pop(job, None)
            self._exits.put(JobStopped(job=job))
            return
        self._exits.put(_pod_exit(message))


def connect(runtime_root: Path) -> socket.socket | None:
    """Return a connection to the fork server of a runtime root; None if none listens."""
    if not runtime_root.exists():
        return None
    check_own(runtime_root)
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(_socket_path(runtime_root)))
    except OSError:
        connection.close()
        return None
    return connection


def end_survivors(runtime_root: Path, *, timeout_seconds: float) -> bool:
    """End the fork server that a killed management left, and every pod with it.

    Args:
        runtime_root: Where its socket is.
        timeout_seconds: How long to wait for its end.

    Returns:
        Whether there was one.

    Raises:
        ClusterError: It did not end in time.
    """
    connection = connect(runtime_root)
    if connection is None:
        return False
    with connection:
        connection.settimeout(timeout_seconds)
        try:
            connection.sendall(b'{"op": "close"}\n')
            while connection.recv(1 << 16):
                pass
        except TimeoutError as error:
            raise ClusterError(
                f"The fork server of {runtime_root} did not end within {timeout_seconds:g} seconds."
            ) from error
        except OSError:
            pass  # it ended before it had read everything
    return True


def _make_passage(directory: Path) -> None:
    """Make a directory for sockets of ours that users' programs may have to pass through.

    Where those run as other users, they may enter it, and neither list it nor change it; the
    sockets in it are ours alone by their own modes (`private.keep_private`).
    """
    make_own(directory)
    if os.geteuid() == 0:
        directory.chmod(0o711)


def _socket_path(runtime_root: Path) -> Path:
    return runtime_root / "launcher.sock"


def _pod_exit(message: Mapping[str, Any]) -> PodExit:
    return PodExit(
        job=JobId(message["job"]),
        pod=PodName(message["pod"]),
        role=Role(message["role"]),
        exit_code=message["exit_code"],
        signal=message["signal"],
        detail=message.get("detail", ""),  # a fork server of an earlier release says neither
        cause=EndCause(message.get("cause", EndCause.PROCESS)),
    )
