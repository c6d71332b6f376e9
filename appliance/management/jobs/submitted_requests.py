"""The request that submitted a job, stored in the job's work directory."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import JobRecord
from appliance.core.errors import NotFoundError
from appliance.management.pods.pod_specs import REQUEST_FILE
from protos.appliance.common_config_pb2 import ClusterDetails
from protos.cluster.cluster_pb2 import (
    CompileJobRequest,
    ExecuteJobRequest,
    SdkCompileJobRequest,
    SdkExecuteJobRequest,
)

_Request = CompileJobRequest | ExecuteJobRequest | SdkCompileJobRequest | SdkExecuteJobRequest


def _request(job: JobRecord) -> _Request:
    path = Path(job.work_dir) / REQUEST_FILE
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NotFoundError(
            f"The request of job {job.id} is not kept: {error.strerror}."
        ) from error
    return _REQUESTS[job.type].FromString(data)


_REQUESTS: Mapping[JobType, type[_Request]] = {
    JobType.COMPILE: CompileJobRequest,
    JobType.EXECUTE: ExecuteJobRequest,
    JobType.DRIVER: ExecuteJobRequest,
    JobType.SDK_COMPILE: SdkCompileJobRequest,
    JobType.SDK_EXECUTE: SdkExecuteJobRequest,
}


def request_as_json(job: JobRecord) -> dict[str, Any]:
    """Return the request by which a job was submitted, as JSON.

    Whom it asks to be told is left out: webhooks and keys are secrets.

    Raises:
        NotFoundError: The request cannot be read.
    """
    request = _request(job)
    if isinstance(request, CompileJobRequest | ExecuteJobRequest):
        request.ClearField("user_notifications")
    return MessageToDict(request, preserving_proto_field_name=True)


def cluster_details(job: JobRecord) -> ClusterDetails:
    """Return the tasks that a job's request asked for, with addresses where there are any.

    Raises:
        NotFoundError: The request cannot be read.
    """
    details = _request(job).job_mode.cluster_details
    if job.type.is_sdk or job.type is JobType.COMPILE:
        _name_coordinator(details)
    for task in details.tasks:
        if task.task_type == ClusterDetails.TaskInfo.CRD:
            for entry in task.task_map:
                entry.address_book.task_ip_port = job.service_address
    return details


def _name_coordinator(details: ClusterDetails) -> None:
    """Let a job's tasks have a coordinator: its client looks for one and warns if none is there."""
    kind = ClusterDetails.TaskInfo.CRD
    task = next((each for each in details.tasks if each.task_type == kind), None)
    task = details.tasks.add(task_type=kind) if task is None else task
    if not task.task_map:
        task.task_map.add()
