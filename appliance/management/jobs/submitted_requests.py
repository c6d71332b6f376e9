"""What the request that submitted a job says, for those who ask about the job."""

from collections.abc import Mapping
from typing import Any

from google.protobuf.json_format import MessageToDict

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import JobRecord
from appliance.core.ids import JobId
from appliance.management.store.state import State
from protos.appliance.common_config_pb2 import ClusterDetails
from protos.cluster.cluster_pb2 import (
    CompileJobRequest,
    ExecuteJobRequest,
    SdkCompileJobRequest,
    SdkExecuteJobRequest,
)

_Request = CompileJobRequest | ExecuteJobRequest | SdkCompileJobRequest | SdkExecuteJobRequest


_REQUESTS: Mapping[JobType, type[_Request]] = {
    JobType.COMPILE: CompileJobRequest,
    JobType.EXECUTE: ExecuteJobRequest,
    JobType.DRIVER: ExecuteJobRequest,
    JobType.SDK_COMPILE: SdkCompileJobRequest,
    JobType.SDK_EXECUTE: SdkExecuteJobRequest,
}


class SubmittedRequests:
    """Reads the requests that submitted jobs.

    Args:
        state: Where they are kept.
    """

    def __init__(self, state: State) -> None:
        self._state = state

    def as_json(self, job_id: JobId) -> dict[str, Any]:
        """Return the request by which a job was submitted, as JSON.

        Whom it asks to be told is left out: webhooks and keys are secrets.

        Raises:
            NotFoundError: There is no such job, or no request of it is kept.
        """
        request = self._load(self._state.jobs.load(job_id))
        if isinstance(request, CompileJobRequest | ExecuteJobRequest):
            request.ClearField("user_notifications")
        return MessageToDict(request, preserving_proto_field_name=True)

    def cluster_details(self, job: JobRecord) -> ClusterDetails:
        """Return the tasks that a job's request asked for, with addresses where there are any.

        Raises:
            NotFoundError: None is kept of the job.
        """
        details = self._load(job).job_mode.cluster_details
        if job.type.is_sdk or job.type is JobType.COMPILE:
            _name_coordinator(details)
        for task in details.tasks:
            if task.task_type == ClusterDetails.TaskInfo.CRD:
                for entry in task.task_map:
                    entry.address_book.task_ip_port = job.service_address
        return details

    def _load(self, job: JobRecord) -> _Request:
        return _REQUESTS[job.type].FromString(self._state.requests.load(job.id).message)


def _name_coordinator(details: ClusterDetails) -> None:
    """Let a job's tasks have a coordinator: its client looks for one and warns if none is there."""
    kind = ClusterDetails.TaskInfo.CRD
    task = next((each for each in details.tasks if each.task_type == kind), None)
    task = details.tasks.add(task_type=kind) if task is None else task
    if not task.task_map:
        task.task_map.add()
