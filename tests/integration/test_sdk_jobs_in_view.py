"""What csctl and REST show of SDK jobs: type, phases, pods, events, logs, artefacts, and why."""

import io
import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from protos.cluster.cluster_pb2 import JobStatus
from protos.sdk.sdk_common_pb2 import StatusCode
from tests.support.appliance_process import running_appliance
from tests.support.rest import rest_client
from tests.support.sdk_jobs import example_sources, sdk_job

pytestmark = pytest.mark.slow

SOURCES = example_sources()
CSL = {name.removesuffix(".csl"): text for name, text in SOURCES.items() if name.endswith(".csl")}
OPTIONS = (
    "layout.csl --fabric-dims=9,3 --fabric-offsets=4,1 --memcpy --channels=1 "
    "--params=width:2,height:1,n:8 -o out"
)
PROGRAM = {".csl_bin_name": b"out\n"}


@pytest.fixture(scope="module")
def appliance(tmp_path_factory):
    with running_appliance(tmp_path_factory.mktemp("data"), "--systems", "1") as running:
        yield running


@pytest.fixture(scope="module")
def rest(appliance):
    with rest_client(appliance) as client:
        yield client


@pytest.fixture(scope="module")
def compiled(appliance):
    """A job that has compiled a program, found it compiled, and ended well."""
    with sdk_job(appliance, labels={"kernel": "axpy"}) as job:
        for _ in range(2):
            answer = job.compile("cs_axpy", OPTIONS, **CSL)
        assert answer.code == StatusCode.SDK_RT_ALREADY_COMPILED, answer.message
        job.cancel(message="Success")
        return job.id


@pytest.fixture(scope="module")
def executed(appliance):
    """A job with a system that has run a program, left its trace, and ended well."""
    with sdk_job(appliance, has_system=True) as job:
        job.upload_artifact("art", **SOURCES)
        commands = (f"cslc {OPTIONS}", "WSC_FABRIC_TRACE=1 cs_python run.py --name out")
        answer = job.run(*commands, target="art")
        assert answer.code == StatusCode.SDK_RT_SUCCESS, answer.message
        job.cancel(message="Success")
        return job.id


def csctl(appliance, *arguments: str) -> str:
    command = [sys.executable, "-m", "csctl", "--csconfig", appliance.state.config_path]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def exported(appliance, job: str, tmp_path: Path, *flags: str) -> dict[str, bytes]:
    """Return what an archive holds, by the names below its directory."""
    csctl(appliance, "log-export", job, "--path", str(tmp_path), *flags)
    with zipfile.ZipFile(tmp_path / f"{job}.zip") as archive:
        names = {name.partition("/")[2]: name for name in archive.namelist()}
        return {short: archive.read(name) for short, name in names.items()}


def test_csctl_lists_them_with_their_types_and_phases(appliance, compiled, executed):
    header, *lines = csctl(appliance, "get", "jobs", "-a").splitlines()
    assert header.split()[:3] == ["SESSION", "NAME", "TYPE"]
    rows = {line.split()[1]: line.split() for line in lines}
    for job, kind in ((compiled, "sdk-compile"), (executed, "sdk-execute")):
        assert rows[job][2] == kind
        assert "SUCCEEDED" in rows[job]
    assert "kernel=axpy" in rows[compiled]


def test_csctl_shows_one_with_its_pod_its_events_and_its_end(appliance, compiled, executed):
    assert f"coordinator  {compiled}-coordinator-0" in csctl(appliance, "get", "job", compiled)
    shown = json.loads(csctl(appliance, "get", "job", compiled, "-o", "json"))
    assert shown["spec"]["type"] == "sdk-compile"
    assert shown["status"]["phase"] == "SUCCEEDED"
    assert shown["meta"]["properties"]["message"] == "Success"
    events = csctl(appliance, "job", "events", compiled)
    for told in ("JobSucceeded", "SdkCompiled", "Program cs_axpy is compiled.", "SdkCacheHit"):
        assert told in events
    shown = json.loads(csctl(appliance, "get", "job", executed, "-o", "json"))
    assert len(shown["status"]["systems"]) == 1
    assert "SdkTraced" in csctl(appliance, "job", "events", executed)


def test_rest_shows_phases_pods_events_and_logs(rest, compiled, executed):
    for job, kind in ((compiled, "sdk-compile"), (executed, "sdk-execute")):
        shown = rest.get(f"jobs/{job}").json()
        assert (shown["type"], shown["phase"], shown["message"]) == (kind, "SUCCEEDED", "Success")
        phases = [span["phase"] for span in shown["phases"]]
        assert phases[-1] == "SUCCEEDED"
        assert {"QUEUED", "RUNNING"} <= set(phases)
        assert all(span["left_at"] for span in shown["phases"][:-1])
        assert [pod["name"] for pod in shown["pods"]] == [f"{job}-coordinator-0"]
        assert "SDK pod serves" in rest.get(f"jobs/{job}/logs/coordinator-0").text
    assert "SUCCESS!" in rest.get(f"jobs/{executed}/logs/sdk-0").text
    listed = rest.get("jobs", params={"type": "sdk-execute", "all_states": True}).json()["items"]
    assert executed in [each["id"] for each in listed]
    assert compiled not in [each["id"] for each in listed]


def test_an_export_has_logs_and_events_and_with_binaries_the_programs(
    appliance, compiled, executed, tmp_path
):
    plain = exported(appliance, compiled, tmp_path)
    assert {"events.txt", "coordinator-0/dbg_crd_0.out"} <= plain.keys()
    assert not any("artifacts" in name for name in plain)
    whole = exported(appliance, compiled, tmp_path, "--binaries")
    data = whole["artifacts/cs_axpy.tar.gz"]
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        assert {"out/out.json", "out/bin/out_rpc.json"} <= set(archive.getnames())
    assert "SdkCompiled" in whole["events.txt"].decode()
    traced = exported(appliance, executed, tmp_path, "--binaries")
    assert traced["fabric.trace"].startswith(b"CSLTRACE")
    assert "SUCCESS!" in traced["sdk-0/dbg_sdk_0.out"].decode()


def ended(appliance, rest, status, message: str, *commands: str) -> dict:
    with sdk_job(appliance) as job:
        job.upload_artifact("art", **PROGRAM)
        if commands:
            job.run(*commands, target="art")
        job.cancel(status, message)
        return rest.get(f"jobs/{job.id}").json()


@pytest.mark.parametrize(
    ("status", "message", "end"),
    [
        (JobStatus.JOB_STATUS_SUCCEEDED, "Success", ("SUCCEEDED", "Success")),
        (JobStatus.JOB_STATUS_SUCCEEDED, "None", ("SUCCEEDED", "Success")),
        (JobStatus.JOB_STATUS_CANCELLED, "None", ("CANCELLED", "Cancelled")),
        (JobStatus.JOB_STATUS_FAILED, "its own", ("FAILED", "its own")),
        (
            JobStatus.JOB_STATUS_FAILED, "None",
            ("FAILED", "The client's program failed; no request of this job did."),
        ),
    ],
)  # fmt: skip
def test_no_job_ends_with_the_message_none(appliance, rest, status, message, end):
    job = ended(appliance, rest, status, message, "true")
    assert (job["phase"], job["message"]) == end
    assert "None" not in [event["message"] for event in job["events"]]


def test_a_failed_job_says_what_failed_wherever_one_looks(appliance, rest):
    job = ended(appliance, rest, JobStatus.JOB_STATUS_FAILED, "None", "echo no such kernel; exit 7")
    assert "no such kernel" in job["message"]
    assert "exit code 7" in job["message"]
    assert any("no such kernel" in event["message"] for event in job["events"])
    shown = json.loads(csctl(appliance, "get", "job", job["id"], "-o", "json"))
    assert "no such kernel" in shown["meta"]["properties"]["message"]
    assert "no such kernel" in csctl(appliance, "job", "events", job["id"])
