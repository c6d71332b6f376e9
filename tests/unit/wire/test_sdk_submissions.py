"""What the queue reads in the SDK client's requests."""

import pytest

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.systems import ClusterDescription, System
from appliance.core.errors import UserError
from appliance.management.cluster.demands import requirements_of
from appliance.wire.requests.sdk_submissions import sdk_compile_submission, sdk_execute_submission
from protos.appliance.common_config_pb2 import ClusterDetails, JobMode, ResourceInfo
from protos.cluster.cluster_pb2 import SdkCompileJobRequest, SdkExecuteJobRequest

Task = ClusterDetails.TaskInfo
CLIENTS_DEFAULT = ResourceInfo(memory_bytes=67 << 30, cpu_millicore=24000)


def compile_request(**fields) -> SdkCompileJobRequest:
    task = Task(task_type=Task.CRD, resource_info=CLIENTS_DEFAULT)
    details = ClusterDetails(tasks=[task])
    return SdkCompileJobRequest(
        job_mode=JobMode(job=JobMode.SDK_COMPILE, cluster_details=details), **fields
    )


def execute_request(num_systems: int) -> SdkExecuteJobRequest:
    places = [Task.TaskMap(task_id=Task.TaskMap.TaskId(wse_ids=[0]))] * num_systems
    tasks = [
        Task(task_type=Task.WRK, task_map=places, resource_info=CLIENTS_DEFAULT),
        Task(task_type=Task.WSE, task_map=places),
    ]
    details = ClusterDetails(tasks=tasks)
    return SdkExecuteJobRequest(job_mode=JobMode(job=JobMode.SDK_EXECUTE, cluster_details=details))


def test_the_clients_24_cores_and_67_gib_are_no_need():
    submission = sdk_compile_submission(compile_request())
    laptop = ClusterDescription(systems=(System(name="s0"),))
    assert submission.type is JobType.SDK_COMPILE
    assert requirements_of(submission, laptop).pods == ()


def test_a_cluster_may_count_memory_for_the_pods_of_sdk_jobs():
    described = ClusterDescription(
        systems=(System(name="s0"),), pod_memory_bytes={"sdk": 8 << 30, "compile": 90 << 30}
    )
    (pod,) = requirements_of(sdk_compile_submission(compile_request()), described).pods
    assert (pod.role, pod.memory_bytes) == ("management", 8 << 30)


def test_an_execute_job_asks_for_one_system_and_no_node_group():
    submission = sdk_execute_submission(execute_request(1))
    laptop = ClusterDescription(systems=(System(name="s0"),))
    assert (submission.type, submission.num_systems) == (JobType.SDK_EXECUTE, 1)
    assert requirements_of(submission, laptop).num_node_groups == 0


@pytest.mark.parametrize("num_systems", [0, 2])
def test_an_execute_job_for_another_number_of_systems_is_refused(num_systems):
    with pytest.raises(UserError, match=f"{num_systems} WSE tasks"):
        sdk_execute_submission(execute_request(num_systems))


def test_a_request_by_the_wrong_method_is_refused():
    request = compile_request()
    request.job_mode.job = JobMode.COMPILE
    with pytest.raises(UserError, match="InitSdkCompileJob got a job of mode COMPILE"):
        sdk_compile_submission(request)


def test_priority_labels_and_session_are_read_as_of_other_jobs():
    request = compile_request()
    manager = request.debug_args.debug_mgr
    manager.labels["team"] = "stencils"
    manager.job_priority_value = 12
    manager.scheduler_hints["session"] = "research"
    submission = sdk_compile_submission(request)
    assert submission.labels == {"team": "stencils"}
    assert (submission.priority, submission.session) == (12, "research")
