"""What requests ask for, and which are refused."""

import pytest

from appliance.core.cluster.jobs import JobType
from appliance.core.cluster.records import MAX_LABELS
from appliance.core.errors import UserError
from appliance.core.plans.shard_count import MAX_SHARDS
from appliance.wire.caller import caller
from appliance.wire.requests.submissions import (
    check_labels,
    compile_submission,
    execute_submission,
    parse_priority,
)
from protos.appliance.common_config_pb2 import ClusterDetails, DebugArgs, JobMode
from protos.cluster.cluster_pb2 import CompileJobRequest, ExecuteJobRequest
from tests.support.appliance_process import execute_request
from tests.support.management import new_job


def test_the_number_of_systems_is_that_of_wse_tasks():
    submission = execute_submission(execute_request(3, 2))
    assert (submission.num_systems, submission.workers_per_system) == (3, 2)
    assert ExecuteJobRequest.FromString(submission.request).job_mode.job == JobMode.EXECUTE


def test_the_weight_pods_are_those_of_the_compile_response_within_reason():
    request = execute_request(1, 1)
    assert execute_submission(request).num_shards == 1
    task = request.job_mode.cluster_details.tasks.add(task_type=ClusterDetails.TaskInfo.WGT)
    for _ in range(MAX_SHARDS - 1):
        task.task_map.add()
    assert execute_submission(request).num_shards == MAX_SHARDS
    task.task_map.add()
    with pytest.raises(UserError, match=f"{MAX_SHARDS + 1} WGT tasks"):
        execute_submission(request)


def test_a_compile_job_needs_no_system_and_carries_labels_and_priority():
    request = CompileJobRequest(job_mode=JobMode(job=JobMode.COMPILE))
    request.debug_args.debug_mgr.labels["model"] = "gpt"
    request.debug_args.debug_mgr.job_priority = DebugArgs.DebugMGR.JOB_PRIORITY_P1
    submission = compile_submission(request)
    assert submission.type is JobType.COMPILE
    assert (submission.num_systems, submission.priority) == (0, 199)
    assert submission.labels == {"model": "gpt"}


def test_an_execute_job_without_systems_is_refused():
    with pytest.raises(UserError, match="0 WSE tasks"):
        execute_submission(ExecuteJobRequest(job_mode=JobMode(job=JobMode.EXECUTE)))


def test_a_job_of_another_mode_is_refused_by_name():
    with pytest.raises(UserError, match="INFERENCE_COMPILE"):
        compile_submission(CompileJobRequest(job_mode=JobMode(job=JobMode.INFERENCE_COMPILE)))


@pytest.mark.parametrize("labels", [{"-a": "1"}, {"a": "b c"}, {"": "a"}, {"a": "x" * 64}])
def test_a_label_that_is_not_well_formed_is_refused(labels):
    with pytest.raises(UserError, match="Label"):
        check_labels(labels)


def test_a_job_has_a_limited_number_of_labels_and_none_of_the_appliance_s_own():
    request = CompileJobRequest(job_mode=JobMode(job=JobMode.COMPILE))
    labels = request.debug_args.debug_mgr.labels
    labels.update({f"key{number}": "x" for number in range(MAX_LABELS)})
    assert len(compile_submission(request).labels) == MAX_LABELS
    labels["more"] = "x"
    with pytest.raises(UserError, match=f"at most {MAX_LABELS} labels; this request has 65"):
        compile_submission(request)
    for own in ("array", "index"):
        labels.clear()
        labels[own] = "x"
        with pytest.raises(UserError, match=f"Label '{own}' is the appliance's own"):
            compile_submission(request)


def test_labels_of_a_job_do_not_grow_beyond_the_limit_by_changes(state):
    job = state.jobs.create(new_job(labels={f"key{number}": "x" for number in range(60)}))
    state.jobs.patch_labels(job.id, {f"more{number}": "x" for number in range(4)})
    with pytest.raises(UserError, match="would have 65 labels; 64 are the most"):
        state.jobs.patch_labels(job.id, {"one": "x"})
    changed = state.jobs.patch_labels(job.id, {"one": "x", "key0": None})
    assert len(changed.labels) == 64


@pytest.mark.parametrize(("text", "value"), [("p0", 99), ("P2", 299), ("0", 0), ("399", 399)])
def test_a_priority_is_a_bucket_or_a_number(text, value):
    assert parse_priority(text) == value


@pytest.mark.parametrize("text", ["p4", "400", "-1", "high", ""])
def test_other_priorities_are_refused(text):
    with pytest.raises(UserError, match="priority"):
        parse_priority(text)


def test_the_caller_is_who_the_metadata_say():
    who = caller(
        [
            ("auth-uid", "1000"),
            ("auth-gid", "x"),
            ("auth-username", "ada"),
            ("client-build-version", "2.10.0+abc"),
            ("workflow-id", "wflow-1"),
        ]
    )
    assert (who.user.uid, who.user.gid, who.user.name) == (1000, -1, "ada")
    assert (who.client_release, who.workflow) == ("2.10.0", "wflow-1")


@pytest.mark.parametrize(
    ("build", "release"),
    [
        ("2.9.0", "2.9.0"),
        ("2.10.0+32008fd851", "2.10.0"),
        ("2.11.0-rc.1", "2.11.0-rc.1"),
        ("", ""),
        ("2.9.0\x1b[31m", ""),
        ("<b>2</b>", ""),
        ("2" * 33, ""),
        ("2.9.0\u0660", ""),
    ],
)
def test_a_release_is_of_few_characters_or_none(build, release):
    assert caller([("client-build-version", build)]).client_release == release


def test_scheduler_hints_name_session_time_limit_and_preemption():
    request = execute_request(1, 1)
    request.compile_artifact_dir = "/data/compile/cs_1"
    hints = request.debug_args.debug_mgr.scheduler_hints
    hints.update({"session": "team", "job_time_sec": "90", "preemptible": "true", "other": "x"})
    submission = execute_submission(request)
    assert (submission.session, submission.limit_seconds) == ("team", 90.0)
    assert submission.is_preemptible
    assert submission.artifact_dir == "/data/compile/cs_1"


@pytest.mark.parametrize("text", ["soon", "0", "-1", "inf", "nan"])
def test_a_time_limit_that_is_none_is_refused(text):
    request = execute_request(1, 1)
    request.debug_args.debug_mgr.scheduler_hints["job_time_sec"] = text
    with pytest.raises(UserError, match="job_time_sec"):
        execute_submission(request)
