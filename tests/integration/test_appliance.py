"""A real appliance with test roles for pods, called as the client and csctl call it."""

import json
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import grpc
import psutil
import pytest

from protos.cluster import cluster_pb2 as pb
from protos.csctl import api_pb2, generic_pb2, resources_pb2
from tests.support.appliance_calls import (
    assert_nothing_left,
    cancel,
    get_job,
    kill_pod,
    list_jobs,
    refusal,
    start,
)
from tests.support.appliance_process import (
    ROOT,
    USER,
    execute_request,
    leave_artifact,
    run_command,
    running_appliance,
    wait_for,
)
from tests.support.files import put
from tests.support.processes import directory_of, name_of


@pytest.fixture(scope="module")
def appliance(tmp_path_factory):
    with running_appliance(tmp_path_factory.mktemp("data"), "--systems", "2") as running:
        runtime_root = Path(running.state.runtime_root)
        yield running
    assert not runtime_root.exists()


@pytest.fixture(autouse=True)
def _end_jobs(request):
    yield
    if "appliance" in request.fixturenames:
        running = request.getfixturevalue("appliance")
        for job in list_jobs(running):
            cancel(running, job.meta.name)


def test_status_and_config_name_the_address(appliance):
    answer = run_command("status", "--data-dir", str(appliance.data_dir))
    assert answer.returncode == 0
    assert appliance.state.address in answer.stdout
    config = json.loads(Path(appliance.state.config_path).read_text())
    assert config["clusters"][0]["server"] == appliance.state.address
    plain = {"name": "job-operator", "certificateAuthorityData": ""}
    assert config["clusters"][0]["namespaces"] == [plain]


def test_a_second_appliance_on_the_same_data_is_refused(appliance):
    answer = run_command("up", "--data-dir", str(appliance.data_dir))
    assert answer.returncode == 2
    assert "already runs" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_taken_port_is_refused(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for option in ("--port", "--rest-port"):
            ports = {"--port": "0", "--rest-port": "0", option: port}
            words = [word for pair in ports.items() for word in pair]
            answer = run_command("up", "--data-dir", str(tmp_path / "d"), *words)
            assert answer.returncode == 3
            assert f"Port {port}" in answer.stderr
    assert run_command("status", "--data-dir", str(tmp_path / "d")).returncode == 3


def test_rest_can_be_called_as_soon_as_its_address_is_said(tmp_path):
    data = ("--data-dir", str(tmp_path / "d"))
    command = [sys.executable, "-m", "appliance", "up", "--port", "0", "--rest-port", "0", *data]
    try:
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as up:
            line = next(line for line in up.stdout if line.split()[:1] == ["REST"])
            with urllib.request.urlopen(f"{line.split()[1]}/me", timeout=120) as answer:
                assert answer.status == 200
            up.stdout.read()
        assert up.returncode == 0
    finally:
        run_command("down", *data)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--port", "80000"), "--port 80000 is no port; ports are 0 to 65,535."),
        (("--data-dir", "/proc/nothing"), "The data directory /proc/nothing cannot be made"),
        pytest.param(
            ("--csx-device", "cuda"),
            "finds no CUDA device on this machine.",
            marks=pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="there is one"),
        ),
    ],
)
def test_what_this_machine_cannot_do_is_refused_in_a_sentence(tmp_path, words, message):
    answer = run_command("up", "--data-dir", str(tmp_path), "--rest-port", "0", *words)
    assert answer.returncode == 2
    assert message in answer.stderr
    assert "Traceback" not in answer.stderr
    assert list(tmp_path.iterdir()) == []


def test_plain_text_off_loopback_is_refused(tmp_path):
    answer = run_command("up", "--data-dir", str(tmp_path), "--host", "0.0.0.0")
    assert answer.returncode == 2
    assert "Add --tls and --tokens" in answer.stderr


def test_a_compile_job_runs_is_finalized_and_succeeds(appliance):
    job = appliance.submit_compile(model="gpt")
    messages = appliance.wait_ready(job)
    assert messages[-1].is_ready
    assert messages[-1].service_url == "localhost:1"
    assert messages[-1].service_authority.startswith(f"{job}-coordinator-0-")
    artifact = leave_artifact(appliance.data_dir)
    appliance.cluster.FinalizeCompileJob(
        pb.CompileResultRequest(job_id=job, compile_artifact_dir=artifact)
    )
    put(appliance.runtime_dir(job) / "exit", "0")
    wait_for(lambda: appliance.status(job).status == pb.JOB_STATUS_SUCCEEDED)
    assert_nothing_left(appliance, job)


def test_an_execute_job_shows_its_pods_and_ends_as_the_client_says(appliance):
    job = start(appliance, num_systems=2)
    shown = get_job(appliance, job)
    assert shown["status"]["phase"] == "RUNNING"
    assert shown["status"]["systems"] == ["systemf0", "systemf1"]
    pods = {group["type"]: group["instances"] for group in shown["status"]["replicas"]}
    assert list(pods) == [
        "coordinator",
        "weight",
        "broadcastreduce",
        "chief",
        "activation",
        "worker",
    ]
    assert [pod["phase"] for pod in pods["chief"]] == ["Running", "Running"]
    cancel(appliance, job, pb.JOB_STATUS_SUCCEEDED)
    wait_for(lambda: get_job(appliance, job)["status"]["phase"] == "SUCCEEDED", what="its end")
    assert_nothing_left(appliance, job)


def test_a_client_is_told_the_reason_also_where_its_failed_job_takes_long_to_stop(appliance):
    job = start(appliance)
    ready = appliance.runtime_dir(job) / "weight-0.ready"
    wait_for(lambda: ready.exists() and ready.read_text())
    fork_server = psutil.Process(int(ready.read_text())).parent()
    fork_server.suspend()
    try:
        put(appliance.runtime_dir(job) / "report", "FAILED KeyError in your dataloader")
        wait_for(lambda: appliance.status(job).status == pb.JOB_STATUS_FAILED)
        request = pb.CancelJobRequest(
            job_id=job, job_status=pb.JOB_STATUS_FAILED, message="Stream removed"
        )
        told_last = refusal(appliance.cluster.CancelJobV2, request)
        assert get_job(appliance, job)["status"]["phase"] == "FAILING"
    finally:
        fork_server.resume()
    assert told_last.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "KeyError in your dataloader" in told_last.details()
    wait_for(lambda: get_job(appliance, job)["status"]["phase"] == "FAILED")
    assert_nothing_left(appliance, job)


@pytest.mark.parametrize("pod", ["weight-0", "broadcastreduce-0", "chief-0", "worker-0"])
def test_a_killed_pod_fails_the_job_by_name_and_everything_is_gone(appliance, pod):
    job = start(appliance)
    kill_pod(appliance, job, pod)
    wait_for(lambda: appliance.status(job).status == pb.JOB_STATUS_FAILED)
    answer = appliance.status(job)
    assert f"{job}-{pod}" in answer.message
    assert "killed by signal 9" in answer.message
    assert [event.reason for event in answer.job_events] == ["Error"]
    told = Path(appliance.data_dir) / "jobs" / job / "shutdown"
    wait_for(lambda: told.exists() and told.read_text().startswith("True"), what="a failure told")
    other = pb.CancelJobRequest(
        job_id=job, job_status=pb.JOB_STATUS_FAILED, message="a stream has ended"
    )
    told_last = refusal(appliance.cluster.CancelJobV2, other)
    assert told_last.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert f"{job}-{pod}" in told_last.details()  # what the client prints last says what failed
    cancel(appliance, job, pb.JOB_STATUS_FAILED, message="")
    wait_for(lambda: get_job(appliance, job)["status"]["phase"] == "FAILED", what="its end")
    assert_nothing_left(appliance, job)


def test_a_killed_coordinator_fails_the_job(appliance):
    job = start(appliance)
    (coordinator,) = [
        process
        for process in psutil.process_iter()
        if name_of(process) == "wsc-coordinator" and job in directory_of(process)
    ]
    coordinator.kill()
    wait_for(lambda: get_job(appliance, job)["status"]["phase"] == "FAILED")
    assert f"{job}-coordinator-0" in appliance.status(job).message
    assert_nothing_left(appliance, job)


def test_what_the_coordinator_reports_is_the_reason(appliance):
    job = start(appliance)
    put(appliance.runtime_dir(job) / "report", "FAILED KeyError in your dataloader")
    wait_for(lambda: appliance.status(job).status == pb.JOB_STATUS_FAILED)
    assert appliance.status(job).message == "KeyError in your dataloader"
    cancel(appliance, job, pb.JOB_STATUS_FAILED, message="KeyError in your dataloader")
    assert_nothing_left(appliance, job)


def test_two_jobs_run_side_by_side_and_a_third_waits_its_turn(appliance):
    first, second = start(appliance), start(appliance)
    third = appliance.submit_execute(1)
    stream = appliance.cluster.PollIngressV2(pb.GetIngressRequest(job_id=third), timeout=300)
    waits = []
    for message in stream:
        waits.append(message.message)
        if "blocked by running jobs" in message.message:
            break
    assert "2 execute job(s) running using 2 system(s)" in waits[-1]
    (waiting,) = [
        job for job in list_jobs(appliance, show_pending_status=True) if job.meta.name == third
    ]
    assert waiting.status.phase == resources_pb2.JobStatus.QUEUED
    assert set(waiting.status.lock.job_pending_status.blocking_jobs) == {first, second}
    cancel(appliance, first)
    assert [message.is_ready for message in stream][-1]


def test_more_systems_than_exist_fail_at_once_with_both_numbers(appliance):
    job = appliance.submit_execute(5)
    last = appliance.wait_ready(job)[-1]
    assert last.job_failed
    assert not last.is_scheduled
    assert "requested 5" in last.message
    assert "2 exists" in last.message
    assert [event.reason for event in appliance.status(job).job_events] == ["SchedulingFailed"]


def test_a_queued_job_can_be_cancelled_by_csctl(appliance):
    start(appliance, num_systems=2)
    waiting = appliance.submit_execute(2)
    answer = appliance.csctl.CancelJobV2(api_pb2.CancelJobRequest(job_id=waiting), metadata=USER)
    assert answer.message == "Job canceled successfully"
    assert appliance.status(waiting).status == pb.JOB_STATUS_CANCELLED
    assert "canceled-by-csctl" in appliance.status(waiting).message
    request = api_pb2.CancelJobRequest(job_id=waiting)
    again = appliance.csctl.CancelJobV2(request, metadata=USER)
    assert again.message == answer.message, "what is wanted is so"


def test_cancelling_nothing_or_twice_is_no_error_for_a_client(appliance):
    appliance.cluster.CancelJobV2(pb.CancelJobRequest(job_id=""))
    job = appliance.submit_compile()
    cancel(appliance, job)
    cancel(appliance, job)


@pytest.mark.parametrize(
    ("status", "told", "shown"),
    [
        (pb.JOB_STATUS_CANCELLED, "", "cancelled by its client: the script was interrupted"),
        (pb.JOB_STATUS_CANCELLED, "success", "cancelled by its client: the script was interrupted"),
        (pb.JOB_STATUS_CANCELLED, "no more", "no more"),
        (pb.JOB_STATUS_FAILED, "", "the script failed; its terminal says how"),
        (pb.JOB_STATUS_FAILED, "KeyError: 7", "KeyError: 7"),
        (pb.JOB_STATUS_SUCCEEDED, "success", "success"),
    ],
)
def test_a_job_says_why_its_client_has_ended_it(appliance, status, told, shown):
    job = start(appliance)
    request = pb.CancelJobRequest(job_id=job, job_status=status, message=told)
    appliance.cluster.CancelJobV2(request)
    assert appliance.status(job).message.startswith(shown)


def test_unknown_jobs_and_methods_are_refused_in_a_sentence(appliance):
    unknown = refusal(appliance.status, "wsjob-nix")
    assert unknown.code() is grpc.StatusCode.NOT_FOUND
    assert "wsjob-nix" in unknown.details()
    stream = appliance.cluster.PollIngressV2(pb.GetIngressRequest(job_id="wsjob-nix"))
    assert refusal(list, stream).code() is grpc.StatusCode.NOT_FOUND
    missing = refusal(appliance.cluster.GetWorkloadManager, pb.GetWorkloadManagerRequest())
    assert missing.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "GetWorkloadManager" in missing.details()
    missing = refusal(list, appliance.cluster.SubscribeMessages(pb.SubscribeMessagesRequest()))
    assert missing.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_request_that_is_not_valid_is_refused_and_leaves_no_job(appliance):
    before = len(list_jobs(appliance, all_states=True))
    request = execute_request(1, 1)
    request.debug_args.debug_mgr.labels["-bad"] = "1"
    error = refusal(appliance.cluster.InitExecuteJob, request)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "-bad" in error.details()
    error = refusal(
        appliance.cluster.InitCompileJob, pb.CompileJobRequest(compile_dir_relative_path="../x")
    )
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert len(list_jobs(appliance, all_states=True)) == before


def test_labels_and_priority_can_be_changed(appliance):
    job = appliance.submit_compile(model="gpt", old="1")
    body = json.dumps({"meta": {"labels": {"model": "llama", "old": None}}}).encode()
    request = api_pb2.PatchRequest(
        type="job", name=job, content_type=api_pb2.JSON_METHOD, body=body
    )
    appliance.csctl.Patch(request)
    assert get_job(appliance, job)["meta"]["labels"] == {"model": "llama"}
    assert [j.meta.name for j in list_jobs(appliance, label_filters={"model": "llama"})] == [job]
    request.body = b"garbage"
    assert refusal(appliance.csctl.Patch, request).code() is grpc.StatusCode.INVALID_ARGUMENT
    answer = appliance.csctl.UpdateJobPriority(
        api_pb2.UpdateJobPriorityRequest(job_id=job, job_priority="p1")
    )
    assert answer.message == f"successfully updated {job} job priority to p1"
    assert get_job(appliance, job)["spec"]["priority"] == "P1 (199)"


def test_every_resource_type_has_objects_and_a_table(appliance):
    types = [
        item.name
        for item in appliance.csctl.ListResourceTypes(api_pb2.ListResourceTypesRequest()).items
    ]
    assert {"job", "cluster", "system", "nodegroup", "volume", "version"} <= set(types)
    for name in types:
        request = api_pb2.GetRequest(type=name, accept=api_pb2.JSON_METHOD)
        json.loads(appliance.csctl.Get(request).raw)
        request.representation = api_pb2.TABLE_REPRESENTATION
        request.accept = api_pb2.PROTOBUF_METHOD
        assert generic_pb2.Table.FromString(appliance.csctl.Get(request).raw).columns
    error = refusal(appliance.csctl.Get, api_pb2.GetRequest(type="unicorn"))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_jobs_are_listed_as_rows_and_as_a_stream(appliance):
    job = appliance.submit_compile(model="gpt")
    request = api_pb2.GetRequest(
        type="jobs",
        accept=api_pb2.PROTOBUF_METHOD,
        representation=api_pb2.TABLE_REPRESENTATION,
    )
    table = generic_pb2.Table.FromString(appliance.csctl.Get(request).raw)
    assert [column.name for column in table.columns][:4] == ["SESSION", "NAME", "TYPE", "PRIORITY"]
    cells = dict(zip([c.name for c in table.columns], table.rows[0].cells, strict=True))
    assert cells["NAME"] == job
    assert cells["LABELS"] == "model=gpt"
    assert cells["USER"] == "ada"
    parts = appliance.csctl.ListJobs(api_pb2.ListJobRequest(accept=api_pb2.PROTOBUF_METHOD))
    names = [
        item.meta.name
        for part in parts
        for item in resources_pb2.JobList.FromString(part.raw).items
    ]
    assert names == [job]


def test_versions_are_those_of_the_clients_own_build(appliance):
    metadata = (("client-build-version", "2.10.0"),)
    answer = appliance.cluster.GetServerVersions(pb.GetServerVersionsRequest(), metadata=metadata)
    assert {item.version for item in answer.versions} == {"2.10.0+32008fd851"}


def test_a_heartbeat_stream_ends_soon_after_its_job(appliance):
    job = appliance.submit_compile()
    ends = threading.Event()

    def beats():
        yield pb.HeartbeatRequest(lease_id=job, host_name="laptop")
        ends.wait(120)

    answers = appliance.cluster.HeartbeatV2(beats(), timeout=120)
    assert not next(answers).job_failed
    cancel(appliance, job)
    assert list(answers) == []
    ends.set()


def test_rest_answers_with_the_same_facts(appliance):
    job = start(appliance)
    root = appliance.state.rest_url

    def fetch(path: str) -> dict:
        with urllib.request.urlopen(root + path, timeout=120) as answer:
            return json.load(answer)

    assert fetch("/healthz") == {"status": "ok"}
    assert [item["id"] for item in fetch("/api/v1/jobs")["items"]] == [job]
    shown = fetch(f"/api/v1/jobs/{job}")
    assert {pod["role"] for pod in shown["pods"]} >= {"coordinator", "weight", "chief"}
    assert fetch("/api/v1/cluster")["systems"][0]["job"] == job
    with pytest.raises(urllib.error.HTTPError) as caught:
        fetch("/api/v1/jobs/wsjob-nix")
    with caught.value as problem:
        assert problem.code == 404
        assert problem.headers["content-type"] == "application/problem+json"
        assert "wsjob-nix" in json.load(problem)["detail"]


def test_many_waiting_streams_leave_room_for_calls(appliance):
    start(appliance, num_systems=2)
    waiting = [appliance.submit_execute(2) for _ in range(5)]
    streams = [
        appliance.cluster.PollIngressV2(pb.GetIngressRequest(job_id=job))
        for job in waiting
        for _ in range(50)
    ]
    for stream in streams:
        next(stream)
    assert appliance.status(waiting[0]).status == pb.JOB_STATUS_IN_QUEUE
    for stream in streams:
        stream.cancel()
