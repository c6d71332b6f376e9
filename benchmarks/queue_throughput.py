"""Measures the queue as a service: `make bench-queue`, or `python -m benchmarks.queue_throughput`.

*Throughput*: no-op jobs from their submission to their end through the real services, as a client
makes them: `InitExecuteJob`, then `CancelJobV2` with the verdict; SQLite, all phases, events, pods,
leases and grants; a launcher that starts no process. Beside it, when Slurm is installed, as many
`sbatch --wrap true` on the same machine in the same run.

Prints one line per bar (`name value bar ok|MISSED`); the exit code is 1 if one is missed.
"""

import argparse
import asyncio
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio

from benchmarks.throughput.slurm import find_slurm, running_slurm
from protos.appliance.common_config_pb2 import ClusterDetails, JobMode
from protos.cluster import cluster_pb2, cluster_pb2_grpc

_ROOT = Path(__file__).parents[1]
_NUM_SYSTEMS = 64
_IN_FLIGHT = 64
_USER = (("auth-uid", "1000"), ("auth-gid", "100"), ("auth-username", "ada"))


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
    options = parser.parse_args(arguments)
    bars = [*_throughput(options.jobs, with_slurm=not options.no_slurm)]
    for bar in bars:
        print(bar)
    return 0 if all(bar.is_met for bar in bars) else 1


def _throughput(num_jobs: int, *, with_slurm: bool) -> Iterator[Bar]:
    with (
        tempfile.TemporaryDirectory(prefix="wsc-b") as directory,
        _serving(Path(directory)) as address,
    ):
        ours = asyncio.run(_run_jobs(address, num_jobs))
    print(f"{num_jobs:,} no-op jobs: {ours:,.0f} per second from submission to their end")
    yield Bar(name="queue_noop_jobs_per_second", value=ours, bar=500, is_least=True)
    if not with_slurm:
        return
    if (reason := find_slurm()) is not None:
        print(f"Slurm is left out: {reason}")
        return
    with running_slurm() as slurm:
        theirs = slurm.run_jobs(num_jobs)
    print(f"{num_jobs:,} sbatch --wrap true: {theirs:,.1f} per second")
    yield Bar(name="queue_noop_jobs_over_slurm", value=ours / theirs, bar=5, is_least=True)


@contextmanager
def _serving(data_dir: Path) -> Iterator[str]:
    """Yield the address of an appliance in a process of its own, whose jobs are no-ops."""
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
            yield address
        finally:
            process.stdin.close()
            process.wait(timeout=60)
            process.stdout.close()


async def _run_jobs(address: str, num_jobs: int) -> float:
    """Return jobs per second, with some in flight at a time."""
    numbers = itertools.count()
    async with grpc.aio.insecure_channel(address) as channel:
        stub = cluster_pb2_grpc.ClusterManagementStub(channel)

        async def client() -> None:
            while next(numbers) < num_jobs:
                await _run_job(stub)

        await _run_job(stub)  # the first one pays for connections and caches
        start = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(_IN_FLIGHT)))
        return num_jobs / (time.perf_counter() - start)


async def _run_job(stub: cluster_pb2_grpc.ClusterManagementStub) -> None:
    answer = await stub.InitExecuteJob(_REQUEST, metadata=_USER)
    end = cluster_pb2.CancelJobRequest(
        job_id=answer.job_id, job_status=cluster_pb2.JOB_STATUS_SUCCEEDED
    )
    polls = stub.PollIngressV2(cluster_pb2.GetIngressRequest(job_id=answer.job_id))
    async for poll in polls:
        if poll.is_ready:
            break
    await stub.CancelJobV2(end)


def _execute_request() -> cluster_pb2.ExecuteJobRequest:
    kind = ClusterDetails.TaskInfo
    details = ClusterDetails()
    for task_type in (kind.CRD, kind.WSE, kind.CHF, kind.WRK, kind.ACT, kind.WGT):
        details.tasks.add(task_type=task_type).task_map.add()
    mode = JobMode(job=JobMode.EXECUTE, cluster_details=details)
    return cluster_pb2.ExecuteJobRequest(job_mode=mode)


_REQUEST = _execute_request()


if __name__ == "__main__":
    raise SystemExit(main())
