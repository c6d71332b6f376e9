"""SDK jobs of a real appliance: files, commands, whose they are, and what is left of them."""

import os
import signal

import pytest

from protos.cluster.cluster_pb2 import GetJobMetaRequest, JobStatus
from protos.sdk import sdk_appliance_pb2 as pb
from protos.sdk.sdk_common_pb2 import StatusCode
from tests.support.appliance_process import (
    USER,
    pods_of,
    processes_of,
    running_appliance,
    wait_for,
)
from tests.support.processes import command_of
from tests.support.rest import rest_client
from tests.support.sdk_jobs import OWNER, sdk_job

pytestmark = pytest.mark.slow

PROGRAM = {".csl_bin_name": b"out\n", "out/bin/out_rpc.json": b'{"rpc_symbols": []}'}


@pytest.fixture(scope="module")
def appliance(tmp_path_factory):
    with running_appliance(tmp_path_factory.mktemp("data"), "--systems", "1") as running:
        yield running


@pytest.fixture(scope="module")
def job(appliance):
    with sdk_job(appliance) as running:
        assert running.upload_artifact("art", **PROGRAM).code == StatusCode.SDK_RT_SUCCESS
        yield running


def test_commands_run_as_the_jobs_user_beside_the_artifact(job):
    answer = job.run("id -u; pwd; cat .csl_bin_name", target="art")
    uid = dict(OWNER)["auth-uid"] if os.geteuid() == 0 else str(os.geteuid())
    assert answer.message.split("\n") == [uid, str(job.directory / "files" / "art"), "out", ""]


def test_cs_python_and_python_have_the_host_modules_there(job):
    code = "import cerebras.sdk.sdk_utils as u, numpy; print(u.memcpy_view.__name__)"
    answer = job.run(f'cs_python -c "{code}"', f'python -c "{code}"', target="art")
    assert answer.message == "memcpy_view\n" * 2


def test_the_first_command_that_fails_is_answered_with_all_output(job):
    answer = job.run("echo one", "echo two; echo bad >&2; exit 3", "echo three", target="art")
    assert answer.code == StatusCode.SDK_COMMAND_ERROR
    assert answer.message.startswith("one\ntwo\nbad\n")
    assert answer.message.endswith("ended with exit code 3.")
    assert "three" not in answer.message


def test_a_job_whose_own_python_cannot_be_executed_says_so(job):
    python = job.directory / "bin" / "python"
    python.chmod(0o644)
    try:
        answer = job.run("python --version", target="art")
    finally:
        python.chmod(0o755)
    assert answer.code == StatusCode.SDK_RT_INTERNAL_ERROR
    assert "must not be mounted with noexec" in answer.message


def test_what_a_command_leaves_running_is_ended_with_it(job):
    job.run("sleep 1234567 & echo $!", target="art")
    wait_for(lambda: not any("1234567" in word for word in _words(job.id)), what="its end")


def test_what_commands_write_is_downloaded_a_directory_as_archive(job):
    job.run("mkdir -p made; echo hi > made/a.txt", target="art")
    assert job.read("art/made/a.txt").data.data_chunk == b"hi\n"
    answer = job.read("art/made").data
    assert answer.file_name == "made.tar.gz"
    assert answer.num_bytes == answer.total_bytes == len(answer.data_chunk) > 0


@pytest.mark.parametrize(
    "name", ["../x.csl", "/etc/x.csl", "a/../../x.csl", "", "..", "x\0y", "a/" * 3000 + "x"]
)
def test_names_that_lead_out_of_the_job_are_refused(job, name):
    for mode in ("SDK_COMPILE", "SDK_EXECUTE"):
        answer = job.upload((name, b"x"), target="cs_1", mode=mode)
        assert answer.code == StatusCode.SDK_RT_FILE_ERROR, answer


@pytest.mark.parametrize("target", ["..", "a/b", "", ".hidden", "sources", "x" * 300])
def test_artifacts_have_plain_names(job, target):
    answer = job.upload(("x.csl", b"x"), target=target)
    assert answer.code == StatusCode.SDK_RT_FILE_ERROR
    assert "no name of a program or artifact" in answer.message


@pytest.mark.parametrize("name", ["../../../../etc/passwd", "/etc/passwd", "art/../../x", ""])
def test_nothing_outside_the_job_is_downloaded(job, name):
    answer = job.read(name)
    assert answer.status.code == StatusCode.SDK_RT_FILE_ERROR
    assert not answer.HasField("data")


def test_a_link_leads_nowhere_that_the_user_cannot_go(job, appliance):
    secret = appliance.data_dir / "token.key"
    assert secret.exists()
    job.run(f"ln -sf {secret} link", target="art")
    answer = job.read("art/link")
    if os.geteuid() == 0 and OWNER is USER:
        assert "Permission denied" in answer.status.message


def test_an_artifact_that_is_not_there_is_named(job):
    answer = job.run("true", target="nothing")
    assert "There is no artifact 'nothing' in this job" in answer.message
    answer = job.stub.sdk_runtime_create(pb.SdkCreateArgs(app_hash="nothing"))
    assert answer.code == StatusCode.SDK_RT_FILE_ERROR
    answer = job.stub.sdk_runtime_start(pb.SdkEmptyMessage())
    assert "There is no runtime" in answer.message


def test_a_simulator_job_has_no_system_to_stand_for_the_placeholder(job):
    answer = job.run("echo %CMADDR%", target="art")
    assert "this job holds none" in answer.message


def test_a_job_with_a_system_names_its_address_and_holds_it(appliance):
    with sdk_job(appliance, has_system=True) as running, rest_client(appliance) as rest:
        running.upload_artifact("art", **PROGRAM)
        shown = rest.get(f"jobs/{running.id}").json()
        assert shown["type"] == "sdk-execute"
        (system,) = shown["systems"]
        assert running.run("echo %CMADDR%", target="art").message == f"{system}:9000\n"


def test_the_memory_that_the_request_asks_for_is_the_most_there_is(appliance):
    with sdk_job(appliance, memory_bytes=1 << 30) as running:
        running.upload_artifact("art", **PROGRAM)
        answer = running.run("python -c 'bytearray(3 << 30)'", target="art")
        assert answer.code == StatusCode.SDK_COMMAND_ERROR
        assert "MemoryError" in answer.message


def test_the_client_learns_what_its_tasks_are(job, appliance):
    meta = appliance.cluster.GetJobMeta(GetJobMetaRequest(job_id=job.id))
    (task,) = meta.cluster_details.tasks
    assert task.task_map[0].address_book.task_ip_port


def test_nothing_is_left_of_a_job_that_ends_while_a_command_runs(appliance):
    with sdk_job(appliance) as running:
        running.upload_artifact("art", **PROGRAM)
        command = pb.SdkRunCommandParams(app_hash="art", command="sleep 7654321")
        answer = running.stub.sdk_run_command.future(iter([command]))
        wait_for(lambda: any("7654321" in word for word in _words(running.id)), what="a sleep")
        running.cancel(JobStatus.JOB_STATUS_CANCELLED)
        wait_for(lambda: not processes_of(running.id), what="the end of every process")
        wait_for(lambda: not running.directory.exists(), what="the end of the files")
        assert answer.exception(timeout=60) or answer.result().code != StatusCode.SDK_RT_SUCCESS


def test_nothing_is_left_of_a_job_whose_pod_is_killed(appliance):
    with sdk_job(appliance) as running, rest_client(appliance) as rest:
        running.upload_artifact("art", **PROGRAM)
        command = pb.SdkRunCommandParams(app_hash="art", command="setsid -w sleep 5556667")
        answer = running.stub.sdk_run_command.future(iter([command]))
        wait_for(lambda: any("5556667" in word for word in _words(running.id)), what="a sleep")
        (pod,) = pods_of(running.id)
        os.kill(pod, signal.SIGKILL)
        wait_for(lambda: rest.get(f"jobs/{running.id}").json()["phase"] == "FAILED")
        wait_for(lambda: not processes_of(running.id), what="the end of every process")
        assert not running.directory.exists()
        assert answer.exception(timeout=60) is not None


def test_a_job_that_failed_tells_its_pods_reason(appliance):
    with sdk_job(appliance) as running, rest_client(appliance) as rest:
        running.upload_artifact("art", **PROGRAM)
        running.run("echo what went wrong; false", target="art")

        def message():
            return rest.get(f"jobs/{running.id}").json()["message"]

        wait_for(lambda: "SdkRequestFailed" in str(rest.get(f"jobs/{running.id}/events").json()))
        running.cancel(JobStatus.JOB_STATUS_FAILED)
        assert "what went wrong" in message()


def _words(job: str) -> list[str]:
    return [word for process in processes_of(job) for word in command_of(process)]
