"""A detached run whose job is preempted comes back by itself, without any restart policy."""

import os
import re
import subprocess
import sys

import pytest

from protos.cluster import cluster_pb2
from tests.support.appliance_process import (
    ROOT,
    USER,
    execute_request,
    running_appliance,
    wait_for,
)

pytestmark = pytest.mark.slow

SCRIPT = """
import os, sys, threading
import grpc
from protos.cluster import cluster_pb2, cluster_pb2_grpc
from tests.support.appliance_process import execute_request

if os.environ["WSC_RESTART_COUNT"] != "0":
    print("back again", flush=True)
    sys.exit(0)
request = execute_request(1, 1)
request.debug_args.debug_mgr.scheduler_hints["preemptible"] = "true"
me = (
    ("auth-uid", str(os.getuid())),
    ("auth-gid", str(os.getgid())),
    ("auth-username", os.environ["LOGNAME"]),
    ("auth-token", os.environ["CSAUTH_TOKEN"]),
)
with grpc.insecure_channel(sys.argv[1]) as channel:
    cluster = cluster_pb2_grpc.ClusterManagementStub(channel)
    job = cluster.InitExecuteJob(request, metadata=me).job_id
    for reply in cluster.PollIngressV2(cluster_pb2.GetIngressRequest(job_id=job)):
        pass
    print("runs", job, flush=True)
    status = cluster.GetJob(cluster_pb2.GetJobRequest(job_id=job))
    while status.status == cluster_pb2.JOB_STATUS_IN_PROGRESS:
        threading.Event().wait(0.1)
        status = cluster.GetJob(cluster_pb2.GetJobRequest(job_id=job))
    sys.exit(f"lost: {status.message}")
"""


def test_a_preempted_detached_run_is_started_again(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    arguments = ("--systems", "1", "--preemption", "--lease-seconds", "900")
    with running_appliance(tmp_path / "data", *arguments) as appliance:
        environment = {
            **os.environ,
            "CSCONFIG_PATH": appliance.state.config_path,
            "PYTHONPATH": str(ROOT),
        }

        def csctl(*words):
            return subprocess.run(
                [sys.executable, "-m", "csctl", *words],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=True,
            ).stdout

        said = csctl("submit", "--", sys.executable, "script.py", appliance.state.address)
        driver = re.search(r"job/(wsjob-\w+)", said)[1]
        line = re.compile(r"runs (wsjob-\w+)\n")
        wait_for(lambda: line.search(csctl("logs", driver)), what="the script's line")
        victim = line.search(csctl("logs", driver))[1]

        urgent = execute_request(1, 1)
        urgent.debug_args.debug_mgr.job_priority_value = 150
        taker = appliance.cluster.InitExecuteJob(urgent, metadata=USER).job_id
        appliance.wait_ready(taker)

        said = csctl("attach", driver)
        assert f"preempted: {victim} was preempted by {taker}" in said
        assert said.rstrip().endswith("back again")
        assert "DriverRestartedAfterPreemption" in csctl("job", "events", driver)
        get = cluster_pb2.GetJobRequest(job_id=driver)
        assert appliance.cluster.GetJob(get).status == cluster_pb2.JOB_STATUS_SUCCEEDED
