"""The processes of an appliance and of its jobs, as the kernel lists them."""

import contextlib
import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

FORK_SERVER = "appliance.cluster.pod_fork_server"
STREAMER = "streamer"


@dataclass(frozen=True, kw_only=True)
class Found:
    """A process.

    Attributes:
        pid: Its id.
        parent: Its parent's.
        words: Its command line.
        job: The job that its environment names; empty for none.
    """

    pid: int
    parent: int
    words: tuple[str, ...]
    job: str


def all_processes():
    """Return all living processes, zombies aside."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                found.append(_read(int(name)))
    return [process for process in found if process is not None]


def _read(pid):
    directory = Path(f"/proc/{pid}")
    fields = (directory / "stat").read_text().rpartition(")")[2].split()
    if fields[0] in "ZX":
        return None
    words = (directory / "cmdline").read_bytes().rstrip(b"\0").decode(errors="replace").split("\0")
    variables = (directory / "environ").read_bytes().split(b"\0")
    jobs = [each[8:].decode() for each in variables if each.startswith(b"WSC_JOB=")]
    return Found(pid=pid, parent=int(fields[1]), words=tuple(words), job=(jobs or [""])[0])


def is_alive(pid):
    """Whether a process has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def pods_of(job, processes=None):
    """Return the process ids of a job's pods by member name, and of its streamers."""
    processes = all_processes() if processes is None else processes
    pods = {
        each.words[0].removeprefix(f"{job}-"): each.pid
        for each in processes
        if each.words[0].startswith(f"{job}-")
    }
    users = {each.pid: each for each in processes if each.job == job and _is_user_server(each)}
    children = [each for each in users.values() if each.parent in users]
    for number, each in enumerate(sorted(children, key=lambda each: each.pid)):
        pods[f"{STREAMER}-{number}"] = each.pid
    return pods


def _is_user_server(process):
    return "cerebras.appliance.appliance_client" in process.words


def left_of(job):
    """Return what is left of a job: processes and shared memory."""
    processes = [
        " ".join(each.words)[:80]
        for each in all_processes()
        if (each.job == job or each.words[0].startswith(f"{job}-"))
        and "wire_client" not in each.words
    ]
    return processes + [f"/dev/shm/{name}" for name in os.listdir("/dev/shm") if job in name]


def send(pid, number):
    """Send a signal to a process that may have ended; return whether it was there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def pause(seconds):
    """Let real processes have some time."""
    threading.Event().wait(seconds)


STOP, GO, KILL = signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL
