"""Measures the queue as a service: `make bench-queue`, or `python -m benchmarks.queue_throughput`.

*Throughput*: no-op jobs from their submission until they are read back as SUCCEEDED, through the
real services: SQLite, all phases, events, pods and audit records, the log; a launcher that starts
no process. The bar is for what a user of Slurm would submit with `sbatch --wrap true`: the detached
run `csctl submit -- true`, which is one call and a job of one pod. Beside it, when Slurm is
installed, as many of those on the same machine in the same run.

A second figure has no bar, as nothing of Slurm's is like it: execute jobs with a client each, which
are three calls (`InitExecuteJob`, `PollIngressV2` until the coordinator listens, `CancelJobV2` with
the verdict) and a gang of six pods with a system, a lease and a grant.

*A long queue*: with 100,000 jobs waiting, how long `csctl get jobs` takes as a process, from its
start to its end, and one scheduling cycle of the running appliance when a job is submitted.

Prints one line per bar (`name value bar ok|MISSED`); the exit code is 1 if one is missed.
"""

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio
import psutil

from benchmarks.throughput.load import EXECUTE, USER, run_detached, run_executes
from benchmarks.throughput.long_queue import fill
from benchmarks.throughput.slurm import find_slurm, running_slurm
from protos.cluster import cluster_pb2_grpc

_ROOT = Path(__file__).parents[1]
_NUM_SYSTEMS = 64
_NUM_REPEATS = 9
_NUM_ARRIVALS = 30
_LEAST_ROWS = 400

_Run = Callable[[str, int], Coroutine[None, None, float]]
"""Lets an appliance at an address run so many jobs, and returns how many it ran in a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A figure and how good it has to be."""

    name: str
    value: float
    bar: float
    is_least: bool

    @property
    def is_met(self) -> bool:
        """Whether the figure is good enough."""
        return self.value >= self.bar if self.is_least else self.value <= self.bar

    def __str__(self) -> str:
        sign = ">=" if self.is_least else "<="
        return (
            f"{self.name} {self.value:.3f} {sign}{self.bar:g} {'ok' if self.is_met else 'MISSED'}"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000, help="no-op jobs")
    parser.add_argument("--no-slurm", action="store_true", help="do not compare with Slurm")
    parser.add_argument("--queued", type=int, default=100_000, help="jobs of the long queue")
    options = parser.parse_args(arguments)
    bars = [
        *_throughput(options.jobs, with_slurm=not options.no_slurm),
        *_long_queue(options.queued),
    ]
    for bar in bars:
        print(bar)
    return 0 if all(bar.is_met for bar in bars) else 1


def _throughput(num_jobs: int, *, with_slurm: bool) -> Iterator[Bar]:
    ours = _jobs_per_second(run_detached, num_jobs, "detached runs")
    yield Bar(name="queue_noop_jobs_per_second", value=ours, bar=500, is_least=True)
    executes = _jobs_per_second(run_executes, num_jobs, "execute jobs")
    print(f"queue_noop_execute_jobs_per_second {executes:.3f}")
    if not with_slurm:
        return
    if (reason := find_slurm()) is not None:
        print(f"Slurm is left out: {reason}")
        return
    with running_slurm() as slurm:
        start = slurm.control_cpu_seconds()
        singly = slurm.run_jobs(num_jobs)
        milliseconds = 1000 * (slurm.control_cpu_seconds() - start) / num_jobs
        in_one = slurm.run_array(num_jobs)
    print(f"{num_jobs:,} sbatch --wrap true: {singly:,.1f} per second, {in_one:,.1f} as one array")
    print(f"{milliseconds:.2f} ms of slurmctld's processor for each")
    ratio = ours / max(singly, in_one)
    yield Bar(name="queue_noop_jobs_over_slurm", value=ratio, bar=5, is_least=True)


def _jobs_per_second(run: _Run, num_jobs: int, what: str) -> float:
    with (
        tempfile.TemporaryDirectory(prefix="wsc-b") as directory,
        _serving(Path(directory)) as served,
    ):
        start = served.cpu_seconds()
        per_second = asyncio.run(run(served.address, num_jobs))
        milliseconds = 1000 * (served.cpu_seconds() - start) / num_jobs
    print(f"{num_jobs:,} no-op {what}: {per_second:,.0f} per second from submission to their end")
    print(f"{milliseconds:.2f} ms of management's processor for each")
    return per_second


def _long_queue(num_jobs: int) -> Iterator[Bar]:
    with tempfile.TemporaryDirectory(prefix="wsc-b") as directory:
        data_dir = Path(directory)
        fill(data_dir, num_jobs)
        with _serving(data_dir, is_stopped=False) as served:
            listed = statistics.median(_list_jobs(data_dir) for _ in range(_NUM_REPEATS))
            cycle = asyncio.run(_cycle_seconds(served))
    name = f"at_{num_jobs}_queued"
    yield Bar(name=f"csctl_get_jobs_seconds_{name}", value=listed, bar=0.2, is_least=False)
    yield Bar(name=f"management_cycle_ms_{name}", value=1000 * cycle, bar=50, is_least=False)


def _list_jobs(data_dir: Path) -> float:
    """Return the seconds that one `csctl get jobs` takes."""
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    # An installed csctl has its modules compiled; here they are, wherever the run keeps them.
    environment |= {
        "CSCONFIG_PATH": str(data_dir / "config_v2"),
        "PYTHONPYCACHEPREFIX": str(data_dir / "compiled"),
    }
    start = time.perf_counter()
    listed = subprocess.run(
        [sys.executable, "-m", "csctl", "get", "jobs"],
        env=environment,
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - start
    assert len(listed.stdout.splitlines()) > _LEAST_ROWS, listed
    return seconds


async def _cycle_seconds(served: "_Served") -> float:
    """Return the mean time of a cycle, as jobs arrive one by one."""
    async with grpc.aio.insecure_channel(served.address) as channel:
        stub = cluster_pb2_grpc.ClusterManagementStub(channel)
        await stub.InitExecuteJob(EXECUTE, metadata=USER)
        count, seconds = served.cycles()
        for _ in range(_NUM_ARRIVALS):
            await stub.InitExecuteJob(EXECUTE, metadata=USER)
        more, later = served.cycles()
    assert more > count, "no cycle ran when jobs were submitted"
    return (later - seconds) / (more - count)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """An appliance in a process of its own, whose jobs are no-ops.

    Attributes:
        address: Where it listens.
        process: It.
    """

    address: str
    process: "subprocess.Popen[str]"

    def cycles(self) -> tuple[int, float]:
        """Return how many scheduling cycles it has run, and in how many seconds."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        count, seconds = self.process.stdout.readline().split()
        return int(count), float(seconds)

    def cpu_seconds(self) -> float:
        """Return the processor time that it has used, of the user and of the system."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)


@contextmanager
def _serving(data_dir: Path, *, is_stopped: bool = True) -> Iterator[_Served]:
    """Yield an appliance, stopped in order at the end, or killed as that would take long."""
    with (data_dir / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.throughput.noop", str(data_dir), str(_NUM_SYSTEMS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=_ROOT,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            if not address:
                raise SystemExit((data_dir / "log").read_text())
            yield _Served(address=address, process=process)
        finally:
            if not is_stopped:
                process.kill()
            process.stdin.close()
            process.wait(timeout=60)
            process.stdout.close()


if __name__ == "__main__":
    raise SystemExit(main())
