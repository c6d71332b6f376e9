"""Finds and ends every process of a job, including those that its processes have started.

A pod is the leader of its own session, and has the job's id in its environment. Its processes are
found by any of three marks: as descendants, by the session, by the environment. A process would
have to lose all three to be missed.
"""

import os
import shutil
import signal
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

JOB_VARIABLE = "WSC_JOB"
"""Environment variable that carries the job's id in a pod and what it starts."""

_GONE = (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)


def find_processes(job: str, sessions: Iterable[int]) -> list[psutil.Process]:
    """Return the living processes of a job.

    Args:
        job: The job's id.
        sessions: Process ids of the pods' session leaders; those of dead ones that no other process
            has got since.
    """
    leaders = set(sessions)
    children: dict[int, list[psutil.Process]] = defaultdict(list)
    waiting: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(*_GONE):
            children[process.ppid()].append(process)
        if process.pid != os.getpid() and _belongs(process, job, leaders):
            waiting.append(process)
    found: dict[int, psutil.Process] = {}
    while waiting:
        process = waiting.pop()
        if process.pid not in found:
            found[process.pid] = process
            waiting += children[process.pid]
    return [process for process in found.values() if _is_alive(process)]


def send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to each process that is still there."""
    for process in processes:
        with suppress(*_GONE):
            process.send_signal(number)


def remove_traces(job: str, runtime_dir: Path) -> None:
    """Remove what a job's processes have left on this machine: shared memory, then the sockets."""
    for entry in os.scandir("/dev/shm"):
        # Everybody may make something there, and call it as they like.
        if job in entry.name and entry.is_file(follow_symlinks=False):
            with suppress(FileNotFoundError, PermissionError):
                os.unlink(entry.path)
    shutil.rmtree(runtime_dir, ignore_errors=True)


def _belongs(process: psutil.Process, job: str, leaders: set[int]) -> bool:
    with suppress(ProcessLookupError, PermissionError):
        if os.getsid(process.pid) in leaders:
            return True
    with suppress(*_GONE):
        return process.environ().get(JOB_VARIABLE) == job
    return False


def _is_alive(process: psutil.Process) -> bool:
    with suppress(*_GONE):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
