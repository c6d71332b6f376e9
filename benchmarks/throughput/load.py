"""Clients of a no-op appliance: detached runs and execute jobs, some in flight at a time."""

import asyncio
import itertools
import os
import time

import grpc
import grpc.aio

from protos.appliance.common_config_pb2 import ClusterDetails, JobMode
from protos.cluster import cluster_pb2, cluster_pb2_grpc
from protos.csctl import api_pb2, api_pb2_grpc, resources_pb2
from protos.wsc.v1 import drivers_pb2, drivers_pb2_grpc

IN_FLIGHT = 64
"""Calls at a time."""

_LOOK_SECONDS = 0.02
_FULL_SECONDS = 0.05
_ENVIRONMENT = {"HOME": "/home/ada", "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
USER = (("auth-uid", "1000"), ("auth-gid", "100"), ("auth-username", "ada"))


async def run_detached(address: str, num_jobs: int) -> float:
    """Return detached runs per second, of the call that `csctl submit -- true` makes.

    Time runs from the first call until the last run is SUCCEEDED and all are read back as such.
    """
    numbers = itertools.count()
    async with grpc.aio.insecure_channel(address, options=_UNLIMITED) as channel:
        stub = drivers_pb2_grpc.DriversStub(channel)
        table = api_pb2_grpc.CsCtlV1Stub(channel)
        names = [await _submit(stub, _user(0))]  # the first one pays for connections and caches
        await _wait_until_empty(table)

        async def client(number: int) -> None:
            user = _user(number)
            while next(numbers) < num_jobs:
                names.append(await _submit(stub, user))

        start = time.perf_counter()
        await asyncio.gather(*map(client, range(IN_FLIGHT)))
        await _wait_until_empty(table)
        kept = await _list(table, api_pb2.ListJobOptions(all_states=True))
        seconds = time.perf_counter() - start
    succeeded = {
        job.meta.name for job in kept if job.status.phase == resources_pb2.JobStatus.SUCCEEDED
    }
    assert succeeded == set(names), f"{len(succeeded):,} of {len(names):,} runs have succeeded"
    return num_jobs / seconds


async def run_executes(address: str, num_jobs: int) -> float:
    """Return execute jobs per second: `InitExecuteJob`, `PollIngressV2`, `CancelJobV2`."""
    numbers = itertools.count()
    async with grpc.aio.insecure_channel(address) as channel:
        stub = cluster_pb2_grpc.ClusterManagementStub(channel)

        async def client() -> None:
            while next(numbers) < num_jobs:
                await _execute(stub)

        await _execute(stub)  # the first one pays for connections and caches
        start = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(IN_FLIGHT)))
        return num_jobs / (time.perf_counter() - start)


async def _submit(
    stub: "drivers_pb2_grpc.DriversAsyncStub", user: tuple[tuple[str, str], ...]
) -> str:
    while True:
        try:
            answer = await stub.SubmitDriver(_DRIVER, metadata=user)
        except grpc.aio.AioRpcError as error:
            # A user may have so many unfinished runs and no more.
            if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            await asyncio.sleep(_FULL_SECONDS)
        else:
            return str(answer.job)


async def _wait_until_empty(table: "api_pb2_grpc.CsCtlV1AsyncStub") -> None:
    # Another process has no event of ours: like squeue, this asks again and again.
    while await _list(table, api_pb2.ListJobOptions(limit=1)):  # noqa: ASYNC110 - see above
        await asyncio.sleep(_LOOK_SECONDS)


async def _list(
    table: "api_pb2_grpc.CsCtlV1AsyncStub", options: api_pb2.ListJobOptions
) -> list[resources_pb2.Job]:
    request = api_pb2.ListJobRequest(
        accept=api_pb2.PROTOBUF_METHOD, options=api_pb2.ListOptions(job_options=options)
    )
    found: list[resources_pb2.Job] = []
    async for part in table.ListJobs(request, metadata=USER):
        found += resources_pb2.JobList.FromString(part.raw).items
    return found


def _user(number: int) -> tuple[tuple[str, str], ...]:
    """Return the metadata of one of the users; without root all runs are of one."""
    uid = 1000 + number if os.geteuid() == 0 else os.geteuid()
    return (("auth-uid", str(uid)), ("auth-gid", "100"), ("auth-username", f"user{uid}"))


async def _execute(stub: "cluster_pb2_grpc.ClusterManagementAsyncStub") -> None:
    answer = await stub.InitExecuteJob(EXECUTE, metadata=USER)
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


EXECUTE = _execute_request()
"""A request for a job of one system."""

_DRIVER = drivers_pb2.SubmitDriverRequest(
    argv=["true"], work_dir="/home/ada", environment=_ENVIRONMENT
)
_UNLIMITED = (("grpc.max_receive_message_length", -1),)
