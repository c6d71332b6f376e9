"""How long one scheduling cycle takes over a long queue, alone and with what a user then asks.

A cycle waits for nothing, so what is timed is its thread's processor time: what passes on a machine
that has a processor for it. The repeats take a tenth of a second, and a other busy process at that
moment would be all that is measured.
"""

import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.requirements import PodDemand
from appliance.core.cluster.systems import Node, System
from appliance.core.ids import JobId
from appliance.scheduler.cycle import run_cycle
from appliance.scheduler.fair_share import Account, UsageLedger
from appliance.scheduler.policy import DAY, Policy
from appliance.scheduler.queue import JobQueue, PendingJob
from appliance.scheduler.run_time import Basis, Estimate, RunHistory
from appliance.scheduler.snapshot import ClusterSnapshot, Grant, SessionQuota

_NOW = 1e6
_SIZES = (1, 1, 2, 4, 8, 16)
_NUM_SYSTEMS = 64
_NUM_REPEATS = 15
_GIB = 2**30
_COMPILE_PODS = (PodDemand(role="management", memory_bytes=67 * _GIB),)


def long_queue(num_jobs: int) -> JobQueue:
    """Return a queue of jobs of many users, sizes, priorities and limits."""
    rng = np.random.default_rng(1)
    queue = JobQueue(history=RunHistory())
    for number in range(num_jobs):
        user = int(rng.integers(200))
        is_compile = rng.random() < 0.2
        queue.add(
            PendingJob(
                id=JobId(f"wsjob-{number:022d}"),
                type=JobType.COMPILE if is_compile else JobType.EXECUTE,
                sequence=number,
                priority=int(rng.choice((199, 299, 399))),
                pods=_COMPILE_PODS if is_compile else (),
                num_systems=0 if is_compile else _SIZES[int(rng.integers(len(_SIZES)))],
                session=f"session-{user % 10}",
                user=f"user-{user}",
                submitted_seconds=_NOW - 3 * DAY * (num_jobs - number) / num_jobs,
                limit_seconds=float(rng.choice((900, 3600, 14400, 86400))),
            )
        )
    return queue


def busy_cluster(num_free: int) -> ClusterSnapshot:
    """Return a cluster with quotas and past use, on which so many systems are free."""
    usage = UsageLedger(Policy().half_life_seconds)
    for user in range(200):
        account = Account(f"session-{user % 10}", f"user-{user}")
        usage.charge(account, 1000.0 * (user + 1), at_seconds=_NOW)
    hour = Estimate(expected_seconds=3600, bound_seconds=7200, basis=Basis.LIMIT)
    grants = tuple(
        Grant(
            job=JobId(f"wsjob-running-{number}"),
            type=JobType.EXECUTE,
            systems=(f"s{number}",),
            account=Account(f"session-{number % 10}", f"user-{number}"),
            started_seconds=_NOW - 10.0 * number,
            estimate=hour,
            has_time_limit=True,
        )
        for number in range(_NUM_SYSTEMS - num_free)
    )
    return ClusterSnapshot(
        nodes=(Node(name="mgmt", roles=("management",), num_cores=64, memory_bytes=125 * _GIB),),
        systems=tuple(System(name=f"s{number}") for number in range(_NUM_SYSTEMS)),
        grants=grants,
        now_seconds=_NOW,
        sessions=tuple(SessionQuota(name=f"session-{n}", num_systems=6) for n in range(10)),
        usage=usage,
    )


def cycle_times(num_jobs: int) -> Iterator[tuple[str, float]]:
    """Yield what was timed and its median in milliseconds."""
    queue = long_queue(num_jobs)
    last = max(queue, key=lambda job: job.sequence).id
    full, half = busy_cluster(0), busy_cluster(_NUM_SYSTEMS // 2)
    yield "cycle, cluster full", _median_ms(lambda: run_cycle(full, queue))
    yield "cycle, half the systems free", _median_ms(lambda: run_cycle(half, queue))
    yield "cycle, last job explained", _median_ms(lambda: run_cycle(full, queue).waits[last])
    pending = queue.jobs[queue.slot_of(last)]
    yield "take a job out and in", _median_ms(lambda: _out_and_in(queue, pending))


def _out_and_in(queue: JobQueue, job: PendingJob) -> None:
    queue.remove(job.id)
    queue.add(job)


def _median_ms(action: Callable[[], object]) -> float:
    times = []
    for _ in range(_NUM_REPEATS):
        start = time.thread_time()
        action()
        times.append(time.thread_time() - start)
    return 1000.0 * statistics.median(times)
