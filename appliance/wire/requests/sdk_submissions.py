"""The SDK's job requests, read into the words that the queue uses.

Its client asks for 24 cores and 67 GiB whatever it is going to do. That is the most that a job may
use, which its pod sees to (`workers.sdk`); the queue counts what the cluster says such a pod takes,
so that a laptop serves the same client.
"""

from appliance.core.cluster.jobs import JobType
from appliance.core.errors import UserError
from appliance.wire.requests.submissions import (
    Submission,
    check_job_labels,
    check_job_mode,
    count_tasks,
    requested_priority,
    scheduler_hints,
)
from protos.appliance.common_config_pb2 import ClusterDetails, JobMode
from protos.cluster.cluster_pb2 import SdkCompileJobRequest, SdkExecuteJobRequest

_Request = SdkCompileJobRequest | SdkExecuteJobRequest


def sdk_compile_submission(request: SdkCompileJobRequest) -> Submission:
    """Read a request for a job that compiles CSL, or runs it on a simulated fabric.

    Raises:
        UserError: A label or the priority is not valid.
    """
    check_job_mode(request.job_mode, JobMode.SDK_COMPILE, "InitSdkCompileJob")
    return _submission(request, JobType.SDK_COMPILE, num_systems=0)


def sdk_execute_submission(request: SdkExecuteJobRequest) -> Submission:
    """Read a request for a job that runs CSL on a system.

    Raises:
        UserError: It does not ask for exactly one system, or a label or the priority is not valid.
    """
    check_job_mode(request.job_mode, JobMode.SDK_EXECUTE, "InitSdkExecuteJob")
    num_systems = count_tasks(request.job_mode.cluster_details, ClusterDetails.TaskInfo.WSE)
    if num_systems != 1:
        raise UserError(f"An SDK job runs on 1 system; this request has {num_systems} WSE tasks.")
    return _submission(request, JobType.SDK_EXECUTE, num_systems=num_systems)


def _submission(request: _Request, job_type: JobType, *, num_systems: int) -> Submission:
    manager = request.debug_args.debug_mgr
    return Submission(
        type=job_type,
        workflow=manager.workflow_id,
        num_systems=num_systems,
        workers_per_system=0,
        priority=requested_priority(request.debug_args),
        labels=check_job_labels(manager.labels),
        client_workdir="",
        compile_dir="",
        request=request.SerializeToString(deterministic=True),
        **scheduler_hints(request.debug_args),
    )
