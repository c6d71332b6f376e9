"""Calls on a running appliance, as the client and csctl make them, for tests of its jobs."""

import json
import os

import grpc
import pytest

from protos.cluster import cluster_pb2 as pb
from protos.csctl import api_pb2, resources_pb2
from tests.support.appliance_process import (
    ApplianceProcess,
    processes_of,
    shared_memory_of,
    wait_for,
)


def cancel(
    appliance: ApplianceProcess,
    job: str,
    status: int = pb.JOB_STATUS_CANCELLED,
    timeout: float = 120,
    message: str = "said the test",
) -> None:
    request = pb.CancelJobRequest(job_id=job, job_status=status, message=message)
    appliance.cluster.CancelJobV2(request, timeout=timeout)


def list_jobs(appliance: ApplianceProcess, **options) -> list[resources_pb2.Job]:
    request = api_pb2.GetRequest(
        type="jobs", accept=api_pb2.PROTOBUF_METHOD, options=api_pb2.GetOptions(**options)
    )
    return list(resources_pb2.JobList.FromString(appliance.csctl.Get(request).raw).items)


def get_job(appliance: ApplianceProcess, job: str) -> dict:
    request = api_pb2.GetRequest(type="job", name=job, accept=api_pb2.JSON_METHOD)
    return json.loads(appliance.csctl.Get(request).raw)


def start(appliance: ApplianceProcess, num_systems: int = 1) -> str:
    job = appliance.submit_execute(num_systems)
    assert appliance.wait_ready(job)[-1].is_ready
    ready = appliance.runtime_dir(job) / "worker-0.ready"
    wait_for(ready.exists, what="pods run")
    return job


def assert_nothing_left(appliance: ApplianceProcess, job: str) -> None:
    assert processes_of(job) == []
    assert shared_memory_of(job) == []
    assert not appliance.runtime_dir(job).exists()


def kill_pod(appliance: ApplianceProcess, job: str, pod: str) -> None:
    path = appliance.runtime_dir(job) / f"{pod}.ready"
    wait_for(lambda: path.exists() and path.read_text())
    os.kill(int(path.read_text()), 9)


def refusal(call, *arguments) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments)
    return caught.value
