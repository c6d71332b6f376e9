"""A party: one way to train the benchmark's model, resident and told how many steps to do.

All parties of a comparison stay resident and take turns, a block of steps each, so that whatever
else the machine does hits them alike. While one works the others wait in a system call.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import psutil

from benchmarks.programs.models import Shape

_SAMPLE_SECONDS = 0.05
_FLOAT_BYTES = 4
_LIBRARY_BYTES = 300 << 20
"""Of a process that has imported torch."""
_STATE_VALUES = 4
"""Of each parameter: weight, gradient, and AdamW's two moments."""


class Party(Protocol):
    """One way to train; see `benchmarks.engine_parties`.

    Attributes:
        name: In tables.
        needed_bytes: Memory that its processes take, estimated.
    """

    name: str
    needed_bytes: int

    def start(self) -> None:
        """Come up; returns when the first step could begin."""
        ...

    def run(self, num_steps: int) -> float:
        """Do so many steps and return the last one's loss."""
        ...

    def processes(self) -> list[psutil.Process]:
        """Return every process that works for this party."""
        ...

    def close(self) -> None:
        """End every process; must work after a start that failed."""
        ...


def memory_needed(shape: Shape, *, num_processes: int, num_replicas: int) -> int:
    """Estimate the bytes that a party takes; within a third of what was measured.

    Args:
        shape: What is trained.
        num_processes: Processes, each with its libraries.
        num_replicas: Processes that hold all of the state.
    """
    state = _STATE_VALUES * _FLOAT_BYTES * shape.num_parameters
    return num_processes * _LIBRARY_BYTES + num_replicas * state + shape.activation_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One party's measured block of steps.

    Attributes:
        wall_seconds: Wall time of a step.
        cpu_seconds: Processor time of a step, over all of the party's processes.
        foreign_share: Part of the machine's processors that others used meanwhile.
        anonymous_bytes: Most anonymous memory that the processes held together, sampled.
        loss: Of the last step.
    """

    wall_seconds: float
    cpu_seconds: float
    foreign_share: float
    anonymous_bytes: int
    loss: float


def measure(party: Party, num_steps: int) -> Block:
    """Have a party do a block of steps, and measure it."""
    processes = party.processes()
    before, busy = cpu_seconds(processes), _busy_seconds()
    began = time.perf_counter()
    with _memory_peak(processes) as peak:
        loss = party.run(num_steps)
    wall = time.perf_counter() - began
    used, all_used = cpu_seconds(processes) - before, _busy_seconds() - busy
    cores = len(os.sched_getaffinity(0))
    return Block(
        wall_seconds=wall / num_steps,
        cpu_seconds=used / num_steps,
        foreign_share=max(0.0, all_used - used) / (wall * cores),
        anonymous_bytes=peak(),
        loss=loss,
    )


def cpu_seconds(processes: list[psutil.Process]) -> float:
    """Return the processor time that the processes have used."""
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def anonymous_bytes(processes: list[psutil.Process]) -> int:
    """Return the anonymous memory that the processes hold."""
    return sum(_status_bytes(process.pid, "RssAnon:") for process in processes)


def shared_bytes(processes: list[psutil.Process]) -> int:
    """Return the shared memory that the processes hold, each byte counted once."""
    total = 0
    for process in processes:
        with contextlib.suppress(OSError), open(f"/proc/{process.pid}/smaps_rollup") as rollup:
            for line in rollup:
                if line.startswith("Pss_Shmem:"):
                    total += int(line.split()[1]) * 1024
    return total


def with_children(process: psutil.Process) -> list[psutil.Process]:
    """Return a process with everything that it started."""
    return [process, *process.children(recursive=True)]


@contextlib.contextmanager
def _memory_peak(processes: list[psutil.Process]) -> Iterator[Callable[[], int]]:
    samples = [anonymous_bytes(processes)]
    over = threading.Event()

    def sample() -> None:
        while not over.wait(_SAMPLE_SECONDS):
            samples.append(anonymous_bytes(processes))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield lambda: max(samples)
    finally:
        over.set()
        thread.join()


def _status_bytes(pid: int, field: str) -> int:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return 0


def _busy_seconds() -> float:
    """Return the processor time that the whole machine has used."""
    times = psutil.cpu_times()
    busy: float = sum(times) - times.idle - getattr(times, "iowait", 0.0)
    return busy - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
