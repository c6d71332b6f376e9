"""What ends an appliance or its jobs, and what it starts with, each with its own appliance."""

import base64
import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import grpc
import psutil
import pytest

from protos.cluster import cluster_pb2 as pb
from protos.cluster import cluster_pb2_grpc
from tests.support.appliance_calls import assert_nothing_left, cancel, list_jobs, refusal, start
from tests.support.appliance_process import (
    USER,
    ApplianceProcess,
    execute_request,
    pods_of,
    processes_of,
    run_command,
    running_appliance,
    shared_memory_of,
    wait_for,
    wait_pods,
)
from tests.support.files import put
from tests.support.processes import command_of


@pytest.mark.slow
def test_a_job_without_a_client_is_cancelled(tmp_path):
    with running_appliance(tmp_path / "data", "--lease-seconds", "2") as appliance:
        job = appliance.submit_execute()  # on a busy machine its lease ends before its pods run
        wait_for(lambda: appliance.status(job).status == pb.JOB_STATUS_CANCELLED)
        assert "client lease expired" in appliance.status(job).message
        assert_nothing_left(appliance, job)


@pytest.mark.slow
def test_a_running_job_survives_management_and_history_survives_a_stop(tmp_path):
    appliance = ApplianceProcess(tmp_path / "data", ("--systems", "2"))
    try:
        appliance.up()
        done = appliance.submit_compile(model="gpt")
        cancel(appliance, done)
        stopped = start(appliance)
        assert "is down" in appliance.down().stdout
        assert processes_of(stopped) == []
        appliance.up()
        assert appliance.status(done).status == pb.JOB_STATUS_CANCELLED
        assert "appliance was stopped" in appliance.status(stopped).message
        going_on, failing = start(appliance), start(appliance)
        queued = appliance.submit_execute(2)
        pids = wait_pods(going_on, 6)
        wait_pods(failing, 6)
        appliance.kill_management()
        put(appliance.runtime_dir(failing) / "exit", "9")
        wait_pods(failing, 5)
        appliance.up()
        assert appliance.wait_ready(going_on)[-1].is_ready
        assert pods_of(going_on) == pids
        wait_for(lambda: appliance.status(failing).status == pb.JOB_STATUS_FAILED)
        assert "coordinator-0]: exited with code 9" in appliance.status(failing).message
        assert appliance.status(queued).status == pb.JOB_STATUS_IN_QUEUE
        cancel(appliance, going_on, pb.JOB_STATUS_SUCCEEDED)
        assert appliance.status(going_on).status == pb.JOB_STATUS_SUCCEEDED
        assert appliance.wait_ready(queued)[-1].is_ready
        assert_nothing_left(appliance, going_on)
        assert len(list_jobs(appliance, all_states=True)) == 5
        appliance.kill_management()
        assert "is down" in appliance.down().stdout
        assert pods_of(queued) == set()
    finally:
        appliance.down()


@pytest.mark.slow
def test_a_disk_that_takes_no_writes_for_a_while_ends_no_job(tmp_path):
    with running_appliance(tmp_path / "data", "--systems", "1", is_forked=False) as appliance:
        job = start(appliance)
        waiting = appliance.submit_execute(1)
        pods = wait_pods(job, 6)
        management = psutil.Process(appliance.state.pid)
        command = command_of(management)
        # No file of this process grows, as on a full disk.
        management.rlimit(psutil.RLIMIT_FSIZE, (1, psutil.RLIM_INFINITY))
        with pytest.raises(grpc.RpcError) as refused:
            cancel(appliance, waiting, timeout=60)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "can keep nothing now: its database says" in refused.value.details()
        assert command_of(management) == command
        assert pods_of(job) == pods
        management.rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))
        wait_for(lambda: command_of(management) == command[:-1], what="begun anew")
        wait_for(lambda: answers(appliance), what="clients served again")
        assert appliance.status(job).status == pb.JOB_STATUS_IN_PROGRESS
        assert pods_of(job) == pods
        assert appliance.status(waiting).status == pb.JOB_STATUS_IN_QUEUE
        cancel(appliance, job)
        assert appliance.wait_ready(waiting)[-1].is_ready
        assert_nothing_left(appliance, job)


@pytest.mark.slow
def test_pods_that_nobody_comes_for_end(tmp_path):
    appliance = ApplianceProcess(tmp_path / "data", ("--orphan-seconds", "1"))
    try:
        appliance.up()
        killed = start(appliance)
        runtime_dir = appliance.runtime_dir(killed)
        wait_pods(killed, 6)
        appliance.kill_management()
        wait_for(lambda: not pods_of(killed) and not runtime_dir.exists())
        assert shared_memory_of(killed) == []
        appliance.up()
        wait_for(lambda: appliance.status(killed).status == pb.JOB_STATUS_FAILED)
        assert "was lost: its launcher ended while management was away" in (
            appliance.status(killed).message
        )
    finally:
        appliance.down()


CLUSTER = """
systems: [{count: 2, block: leaf0}]
node_groups: [{count: 1, kind: large, nodes: 12, memory: 1128Gi, cores: 64}]
nodes: [{role: management, memory: 125Gi, cores: 64}]
pod_memory: {compile: 67Gi, execute: 32Gi}
"""


@pytest.mark.slow
def test_a_cluster_file_bounds_what_runs_at_a_time_and_at_all(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(CLUSTER)
    with running_appliance(tmp_path / "data", "--cluster", str(path)) as appliance:
        executing = appliance.submit_execute(1)
        assert appliance.wait_ready(executing)[-1].is_ready
        blocked = appliance.submit_execute(1)  # a system is free, the one node group is not
        wait_for(lambda: executing in ingress_message(appliance, blocked))

        request = execute_request(1, 1)
        request.debug_args.debug_usr.execute_coord_resource.memory_bytes = 200 * 2**30
        job = appliance.cluster.InitExecuteJob(request, metadata=USER).job_id
        refused = appliance.wait_ready(job)[-1]
        assert refused.job_failed
        assert "{cpu:0, mem:200Gi} but 1 exists with insufficient capacity {cpu:64, mem:125Gi}" in (
            refused.message
        )
        (event,) = appliance.status(job).job_events
        assert event.reason == "SchedulingFailed"


def test_a_cluster_file_that_is_wrong_keeps_the_appliance_down(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text("systems: [{count: none}]")
    answer = run_command("up", "--data-dir", str(tmp_path / "data"), "--cluster", str(path))
    assert answer.returncode == 2
    assert "systems[0].count is 'none'" in answer.stderr


def answers(appliance) -> bool:
    """Whether management answers; a call that was on its way when it began anew has failed."""
    try:
        appliance.cluster.GetServerConfig(pb.GetServerConfigRequest(), timeout=60)
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            raise
        return False
    return True


def ingress_message(appliance, job):
    request = pb.GetJobInitStatusRequest(job_id=job)
    return appliance.cluster.GetJobInitStatus(request).status


@pytest.mark.slow
def test_tls_works_with_the_certificate_from_the_config(tmp_path):
    appliance = ApplianceProcess(tmp_path / "data", ("--tls",))
    try:
        appliance.up()
        config = json.loads(Path(appliance.state.config_path).read_text())
        (cluster,) = config["clusters"]
        (namespace,) = cluster["namespaces"]
        pem = base64.b64decode(namespace["certificateAuthorityData"])
        name = f"{namespace['name']}.{cluster['authority']}"
        options = (("grpc.ssl_target_name_override", name), ("grpc.default_authority", name))
        credentials = grpc.ssl_channel_credentials(pem)
        with grpc.secure_channel(cluster["server"], credentials, options) as channel:
            stub = cluster_pb2_grpc.ClusterManagementStub(channel)
            answer = stub.GetServerConfig(pb.GetServerConfigRequest(), timeout=120)
            assert answer.job_operator_semantic_version == "1.14.0"
        with grpc.insecure_channel(cluster["server"]) as channel:
            stub = cluster_pb2_grpc.ClusterManagementStub(channel)
            plain = refusal(stub.GetServerConfig, pb.GetServerConfigRequest())
        assert plain.code() is grpc.StatusCode.UNAVAILABLE
        assert appliance.state.rest_url.startswith("https://localhost:")
        trust = ssl.create_default_context(cadata=pem.decode())
        health = f"{appliance.state.rest_url}/healthz"
        with urllib.request.urlopen(health, timeout=120, context=trust) as answer:
            assert answer.status == 200
    finally:
        appliance.down()
